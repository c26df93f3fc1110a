// Waits in the demo. Promises: the condition is polled; what takes long is said while it takes long, and an error says
// what did not happen in time. The limit is for what never comes: a slow machine takes minutes for what another one
// does in seconds.
import {setTimeout as sleep} from 'node:timers/promises'
import {PermanentError} from '../base/errors.ts'
import type {Screen} from './screen.ts'

const limitMs = 10 * 60_000
const saidEachMs = 20_000

/** Polls until it holds. `what` completes "waiting for". */
export async function until(
  what: string,
  {screen, pollMs}: {screen: Screen; pollMs: number},
  holds: () => Promise<boolean>,
): Promise<void> {
  const began = Date.now()
  for (let said = 0; !(await holds()); await sleep(pollMs)) {
    const waitedMs = Date.now() - began
    if (waitedMs > limitMs) throw new PermanentError(`waited ${limitMs / 60_000} minutes in vain for ${what}`)
    if (waitedMs < (said + 1) * saidEachMs) continue
    said++
    screen.say(`  ${screen.style('dim', `still waiting for ${what} (${Math.round(waitedMs / 1000)} s)`)}`)
  }
}
