// Amounts are compared and added exactly, whatever their decimals.
import fc from 'fast-check'
import {expect, test} from 'vitest'
import {Amount} from './index.ts'

/** An amount, as the service writes one. */
const amount = fc
  .tuple(fc.bigInt({min: -(10n ** 78n), max: 10n ** 78n}), fc.integer({min: 0, max: 18}))
  .map(([units, decimals]) => ({units: units * 10n ** BigInt(18 - decimals), text: written(units, decimals)}))

function written(units: bigint, decimals: number): string {
  const digits = `${units < 0n ? -units : units}`.padStart(decimals + 1, '0')
  const [whole, fraction] = [digits.slice(0, digits.length - decimals), digits.slice(digits.length - decimals)]
  return (units < 0n ? '-' : '') + whole + (fraction && `.${fraction}`).replace(/\.?0+$/, '')
}

test('two amounts compare as what they are of the smallest unit', () =>
  fc.assert(
    fc.property(amount, amount, (a, b) => {
      expect(Amount.compare(a.text, b.text)).toBe(a.units < b.units ? -1 : a.units > b.units ? 1 : 0)
    }),
  ))

test('a sum is exact, and without trailing zeros', () =>
  fc.assert(
    fc.property(amount, amount, (a, b) => {
      expect(Amount.add(a.text, b.text)).toBe(written(a.units + b.units, 18))
    }),
  ))

test('what numbers get wrong is right', () => {
  expect(Amount.add('0.1', '0.2')).toBe('0.3')
  expect(Amount.compare('10', '9.999999999999999999')).toBe(1)
  expect(['10', '9', '0.5', '2'].toSorted(Amount.compare)).toEqual(['0.5', '2', '9', '10'])
})

test.each(['', '1,5', '1e3', '.5', '01', '0x1', ' 1', 'NaN', '1.'])('%j is no amount, and is refused', text => {
  expect(() => Amount.add(text, '1')).toThrow('an amount is a plain decimal string')
})
