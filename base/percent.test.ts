import {expect, test} from 'vitest'
import {basisPoints, percent} from './percent.ts'

test.each([
  ['0.5%', 50],
  ['0.5', 50],
  ['12 %', 1200],
  ['0', 0],
  ['1.25%', 125],
  ['100', 10_000],
  ['0.005%', undefined],
  ['-1', undefined],
  ['1,5%', undefined],
  ['', undefined],
])('%s is %s basis points', (text, bps) => {
  expect(basisPoints(text)).toBe(bps)
  if (bps !== undefined) expect(basisPoints(percent(bps))).toBe(bps)
})
