// A report never overflows a terminal, keeps the order of what matters, and says what it left out.
import {expect, test} from 'vitest'
import {screen, terminalSize, wrap} from './fit.ts'

const size = {columns: 80, rows: 24}
const lines = (name: string, count: number) => Array.from({length: count}, (_, i) => `${name} ${i} ${'x'.repeat(100)}`)

test('rows that do not fit are left out from the end, and their number is shown', () => {
  const text = screen(
    [
      {name: 'chains', lines: lines('chain', 5), most: 8},
      {name: 'incidents', lines: lines('incident', 9), most: 6},
      {name: 'waits', lines: lines('wait', 20), most: 20},
      {name: 'jobs', lines: lines('job', 3), most: 3},
    ],
    size,
  ).split('\n')
  expect(text).toHaveLength(22) // of what was left out there is a second line at most, and the cursor stands on the last
  for (const line of text) expect(line.length).toBeLessThanOrEqual(80)
  expect(text.map(line => line.split(' ')[0]).slice(0, 12)).toEqual([
    ...Array(5).fill('chain'),
    ...Array(6).fill('incident'),
    'wait',
  ])
  expect(text.at(-1)).toBe('Left out (sluice status has it): 3 incidents, 10 waits, 3 jobs')
})

test('rows that fit are shown without a note', () => {
  expect(screen([{name: 'chains', lines: ['one', 'two'], most: 8}], size)).toBe('one\ntwo')
})

test('a text is wrapped between words', () => {
  expect(wrap('one two three four', 9, 3)).toEqual(['one two', '  three', '  four'])
  expect(wrap('one two three four', 9, 2)).toEqual(['one two', '  three …'])
})

test('the size is that of the terminal, else COLUMNS and LINES, else unknown', () => {
  expect(terminalSize({columns: 80, rows: 24}, {COLUMNS: '200', LINES: '50'})).toEqual({columns: 80, rows: 24})
  expect(terminalSize({}, {COLUMNS: '100', LINES: '30'})).toEqual({columns: 100, rows: 30})
  expect(terminalSize({}, {})).toBeUndefined()
})
