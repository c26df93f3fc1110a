// How arguments of commands are read.
import {expect, test} from 'vitest'
import {isDay, time} from './command.ts'

test('a day that does not exist is not taken for a day of the next month', () => {
  expect(['2026-02-28', '2028-02-29', '2026-12-31'].map(isDay)).toEqual([true, true, true])
  expect(['2026-02-29', '2026-06-31', '2026-13-01', '2026-00-10', 'x'].map(isDay)).toEqual(Array(5).fill(false))
  expect(time('2026-06-30T23:00:00-02:00').toISOString()).toBe('2026-07-01T01:00:00.000Z')
  for (const text of ['2026-02-30T10:00:00Z', '2026-06-31', 'soon'])
    expect(() => time(text), text).toThrow('it must be a time, such as 2026-11-20T10:00:00Z.')
})
