// When a failed delivery is tried again. Promises: ten attempts over about 75 hours, never earlier than the schedule. A
// receiver that asks for more time gets it.

const second = 1000
const minute = 60 * second
const hour = 60 * minute

/** Waits after the first attempt, the second, and so on, in milliseconds. */
const waitsMs = [5 * second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour]
/** Spreads deliveries that failed together: each waits longer by up to this share. */
const jitter = 0.1
const retryAfterMaxMs = 24 * hour

/**
 * Milliseconds from the end of the attempt with this number (1 is the first) to the next; undefined after the last one.
 */
export function waitAfterMs(attempt: number, retryAfterMs = 0, random = Math.random()): number | undefined {
  const wait = waitsMs[attempt - 1]
  if (wait === undefined) return undefined
  return Math.round(Math.max(wait * (1 + jitter * random), Math.min(retryAfterMs, retryAfterMaxMs)))
}

/** The wait that a Retry-After header (seconds, or a date) asks for, in milliseconds; undefined if it is invalid. */
export function parseRetryAfter(header: string | undefined, now = Date.now()): number | undefined {
  if (!header) return undefined
  const ms = /^\s*\d+\s*$/.test(header) ? Number(header) * second : Date.parse(header) - now
  return ms > 0 ? ms : undefined
}
