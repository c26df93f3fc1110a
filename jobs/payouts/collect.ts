// Sweeps addresses that hold a lot, without waiting for a payout: the operator sets how much that is
// (<CHAIN>_COLLECT_ABOVE). Also brings back gas that its address is not likely to use. Part of the tick. Safe to run
// twice, and beside another worker: if two begin the same sweep, one does, and the other finds it under way. One chain
// after the other, because nothing here is urgent, and each would hold a connection; one that fails stops no other.
import {type Context, whyHalted} from './context.ts'

export async function collect(to: Context): Promise<void> {
  const failures: unknown[] = []
  for (const [code, chain] of to.chains)
    try {
      if (!(await whyHalted(to, code))) await chain.collect(to)
    } catch (error) {
      failures.push(error)
    }
  if (failures.length) throw failures[0]
}
