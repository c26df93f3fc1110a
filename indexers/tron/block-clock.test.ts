// When the next block is asked for: soon after it is there, and not more often than without a clock.
import {expect, test} from 'vitest'
import {Random} from '../../test/torture/random.ts'
import {BlockClock} from './block-clock.ts'

/**
 * Polls a chain for some minutes. A block is shown `delayMs()` after its time, which the node's clock may have wrong.
 */
function poll({
  intervalMs,
  pollMs,
  delayMs,
  skewMs = 0,
}: {
  intervalMs: number
  pollMs: number
  delayMs: () => number
  skewMs?: number
}) {
  const clock = new BlockClock(intervalMs)
  const minutes = 10
  const blocks = Array.from({length: (minutes * 60_000) / intervalMs}, (_, n) => n * intervalMs).map(time => ({
    time: time + skewMs,
    shownAt: time + delayMs(),
  }))
  const lateMs: number[] = []
  let polls = 0
  let seen = 0
  for (let now = 1234; now < minutes * 60_000; now += clock.pauseMs(pollMs, now)) {
    polls++
    while (seen + 1 < blocks.length && blocks[seen + 1]!.shownAt <= now) lateMs.push(now - blocks[++seen]!.shownAt)
    clock.saw(blocks[seen]!.time, now)
  }
  lateMs.sort((a, b) => a - b)
  return {
    pollsPerMinute: polls / minutes,
    p50: lateMs[lateMs.length >> 1]!,
    p95: lateMs[Math.floor(lateMs.length * 0.95)]!,
  }
}

const chance = new Random(1)
const jitter = (least: number, most: number) => () => chance.between(least, most)

test('blocks a second apart are seen soon, with fewer polls than twice a second', () => {
  for (const delayMs of [jitter(0, 10), jitter(400, 430), jitter(900, 960)]) {
    const {pollsPerMinute, p95} = poll({intervalMs: 1000, pollMs: 500, delayMs})
    expect(p95).toBeLessThan(100)
    expect(pollsPerMinute).toBeLessThan(90)
  }
})

test('a node whose clock is wrong is asked at the same moments', () => {
  for (const skewMs of [-90_000, -1, 400, 3_600_123]) {
    const {pollsPerMinute, p95} = poll({intervalMs: 3000, pollMs: 1000, delayMs: jitter(200, 260), skewMs})
    expect(p95).toBeLessThan(120)
    expect(pollsPerMinute).toBeLessThan(30)
  }
})

test('a public node is asked no more often than every poll interval', () => {
  const {pollsPerMinute} = poll({intervalMs: 3000, pollMs: 5000, delayMs: jitter(200, 500)})
  expect(pollsPerMinute).toBeLessThanOrEqual(12.5)
})

test('a chain that makes no blocks is polled once in an interval', () => {
  const clock = new BlockClock(1000)
  clock.saw(0, 10)
  let polls = 0
  for (let now = 10; now < 60_000; now += clock.pauseMs(500, now)) {
    polls++
    clock.saw(0, now)
  }
  expect(polls).toBeLessThan(65)
})
