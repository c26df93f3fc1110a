// Waits for a response, up to a time limit.
import {setTimeout as sleep} from 'node:timers/promises'
import {RetryableError} from '../base/errors.ts'

export async function inTime<T>(response: Promise<T>, withinMs: number): Promise<T> {
  const clock = new AbortController()
  const late = sleep(withinMs, undefined, clock).then(() => {
    throw new RetryableError(`the node did not answer in ${withinMs} ms`)
  })
  return await Promise.race([response, late]).finally(() => clock.abort())
}
