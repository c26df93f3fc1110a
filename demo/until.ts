// Waits in the demo. Promises: the condition is polled, and an error says what did not happen in time.
import {setTimeout as sleep} from 'node:timers/promises'

export async function until(
  what: string,
  {timeoutMs, pollMs}: {timeoutMs: number; pollMs: number},
  holds: () => Promise<boolean>,
): Promise<void> {
  for (const deadline = Date.now() + timeoutMs; !(await holds()); await sleep(pollMs))
    if (Date.now() > deadline) throw new Error(`timed out after ${timeoutMs / 1000} s: waited for ${what}`)
}
