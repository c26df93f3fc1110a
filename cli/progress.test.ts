import {expect, test} from 'vitest'
import {Progress} from './progress.ts'

function progress(isTTY: boolean, doneBefore = 0) {
  const written: string[] = []
  const clock = {ms: 0}
  const to = {isTTY, write: (text: string) => written.push(text)}
  const bar = new Progress({what: 'reading ETH', unit: 'blocks', total: 1000, doneBefore, to, now: () => clock.ms})
  return {bar, written, clock}
}

test('on a terminal it redraws one line with the share, the rate and the time left, at most five times a second', () => {
  const {bar, written, clock} = progress(true)
  for (clock.ms = 0; clock.ms < 1000; clock.ms += 10) bar.at(clock.ms / 4)
  expect(written).toHaveLength(5)
  expect(written[4]).toBe(
    '\r\x1b[2Kreading ETH  ██████░░░░░░░░░░░░░░░░░░░░░░  20 %  200 of 1000 blocks  250/s  3 s left',
  )
  bar.at(1000)
  bar.end()
  expect(written.at(-2)).toContain('100 %  1000 of 1000 blocks')
  expect(written.at(-1)).toBe('\n')
})

test('without a terminal it prints a line each ten seconds, and the last one says how long it took', () => {
  const {bar, written, clock} = progress(false)
  for (clock.ms = 0; clock.ms <= 15_000; clock.ms += 1000) bar.at(clock.ms / 20)
  expect(written).toHaveLength(2)
  clock.ms = 200_000
  bar.at(1000)
  bar.end()
  expect(written.at(-1)).toMatch(/100 % {2}1000 of 1000 blocks {2}5\.0\/s {2}took 3 min 20 s\n$/)
})

test('work of an earlier run counts for the share, and not for the rate', () => {
  const {bar, written, clock} = progress(true, 500)
  clock.ms = 1000
  bar.at(600)
  expect(written).toEqual([expect.stringContaining('60 %  600 of 1000 blocks  100/s  4 s left')])
})

test('an estimate that was too low grows with what is done: no share is above 100 %, and nothing is said to be over', () => {
  const {bar, written, clock} = progress(true)
  clock.ms = 1000
  bar.at(1500)
  expect(written[0]).toMatch(/100 % {2}1500 of 1500 blocks {2}1500\/s$/)
  clock.ms = 2000
  bar.end(1600)
  expect(written[1]).toContain('1600 of 1600 blocks')
  expect(written[1]).toContain('took 2 s')
})

test('if fewer were there than it was told on the way, such as lines for rows, the end is 100 % of what was there', () => {
  const {bar, written} = progress(true)
  bar.at(1500)
  bar.end(1200)
  expect(written.at(-2)).toContain('100 %  1200 of 1200 blocks')
})
