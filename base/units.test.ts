import fc from 'fast-check'
import {formatUnits as formatted, parseUnits as parsed} from 'viem/utils'
import {expect, test} from 'vitest'
import {formatUnits, parseUnits} from './units.ts'

test('amounts are formatted and parsed as viem does, and each is what it was before', () => {
  fc.assert(
    fc.property(fc.bigInt(-(10n ** 30n), 10n ** 30n), fc.integer({min: 0, max: 24}), (units, decimals) => {
      const text = formatUnits(units, decimals)
      expect(text).toBe(formatted(units, decimals))
      expect([parseUnits(text, decimals), parsed(text, decimals)]).toEqual([units, units])
    }),
    {numRuns: 1000},
  )
})

test.each(['', '.', '1.', '.5', '1,5', '1e3', ' 1', '+1', '0x1', '1.234'])(
  '%j is no amount of two decimals',
  amount => {
    expect(() => parseUnits(amount, 2)).toThrow(RangeError)
  },
)

test('the longest amounts are exact', () => {
  expect(formatUnits(1n, 18)).toBe('0.000000000000000001')
  expect(parseUnits('12345678.495000000000000001', 18)).toBe(12_345_678_495_000_000_000_000_001n)
  expect([formatUnits(-5n, 1), formatUnits(100n, 2), formatUnits(0n, 8), formatUnits(7n, 0)]).toEqual([
    '-0.5',
    '1',
    '0',
    '7',
  ])
})
