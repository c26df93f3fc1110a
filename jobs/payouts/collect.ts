// Sweeps addresses that hold a lot, without waiting for a payout: the operator sets how much that is
// (<CHAIN>_COLLECT_ABOVE). Also brings back gas that its address is not likely to use. Part of the tick. Safe to run
// twice, and beside another worker: if two begin the same sweep, one does, and the other finds it under way.
import {type Context, whyHalted} from './context.ts'

export async function collect(to: Context, chain: string): Promise<void> {
  if (!(await whyHalted(to, chain))) await to.chains.get(chain)!.collect(to)
}
