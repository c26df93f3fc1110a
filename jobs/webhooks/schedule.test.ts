import {expect, test} from 'vitest'
import {parseRetryAfter, waitAfterMs} from './schedule.ts'

const second = 1000
const hour = 3600 * second

test('ten attempts are made: after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h, at most a tenth later', () => {
  const waits = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]
  for (const [i, wait] of waits.entries()) {
    expect(waitAfterMs(i + 1, 0, 0)).toBe(wait * second)
    expect(waitAfterMs(i + 1, 0, 0.9999)).toBeLessThanOrEqual(wait * 1.1 * second)
  }
  expect(waitAfterMs(10)).toBeUndefined()
  expect(waits.reduce((sum, wait) => sum + wait) / 3600).toBeCloseTo(75.6, 1)
})

test('Retry-After makes the wait longer, never shorter, up to a day', () => {
  expect(waitAfterMs(1, 60 * second, 0)).toBe(60 * second)
  expect(waitAfterMs(2, 60 * second, 0)).toBe(300 * second)
  expect(waitAfterMs(1, 1000 * hour, 0)).toBe(24 * hour)
  expect(waitAfterMs(10, 60 * second)).toBeUndefined()
})

test('Retry-After is read as seconds or as a date, and invalid values are ignored', () => {
  const now = Date.parse('2026-11-20T11:00:00Z')
  expect(parseRetryAfter('120', now)).toBe(120 * second)
  expect(parseRetryAfter('Fri, 20 Nov 2026 11:02:00 GMT', now)).toBe(120 * second)
  for (const header of ['Fri, 20 Nov 2026 10:00:00 GMT', 'soon', '', '0', '-5', undefined])
    expect(parseRetryAfter(header, now)).toBeUndefined()
})
