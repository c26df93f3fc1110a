// Waiting in tests: poll a condition of the real system until it holds, and name it in the error if it never does.
import {setTimeout as sleep} from 'node:timers/promises'

/**
 * Resolves to the first truthy result of `condition`, which is polled every `intervalMs`; less often the longer it
 * takes, up to ten times as long, since tests that wait must leave the machine to what they wait for. A condition that
 * throws counts as "not yet": parts that are starting refuse connections. Rejects after `timeoutMs` with an error that
 * names `what` and has the last thrown error as its cause.
 */
export async function until<T>(
  condition: () => Promise<T | undefined | null | false>,
  {timeoutMs, what, intervalMs = 25}: {timeoutMs: number; what: string; intervalMs?: number},
): Promise<T> {
  const began = Date.now()
  const deadline = began + timeoutMs
  for (;;) {
    let cause: unknown
    try {
      const result = await condition()
      if (result) return result
    } catch (error) {
      cause = error
    }
    if (Date.now() >= deadline) throw new Error(`waited ${timeoutMs} ms in vain for: ${what}`, {cause})
    await sleep(Math.min(Math.max(intervalMs, (Date.now() - began) / 20), 10 * intervalMs))
  }
}
