import {expect, test} from 'vitest'
import {capOf, nativeSweep, offer, outbid, tipOf, withRoom} from './fees.ts'

const gwei = 10n ** 9n

test('an offer covers twice the base fee and the tip, and leaves room below the cap for two replacements', () => {
  const market = {baseFee: 30n * gwei, priorityFee: 2n * gwei}
  expect(offer(market, 500n * gwei)).toEqual({maxFeePerGas: 62n * gwei, maxPriorityFeePerGas: 2n * gwei})
  expect(offer(market, 60n * gwei)).toEqual({maxFeePerGas: (60n * gwei * 64n) / 81n, maxPriorityFeePerGas: 2n * gwei})
  expect(offer(market, 40n * gwei)).toBeUndefined()
})

test('there is no offer while the chain asks more than the cap', () => {
  expect(offer({baseFee: 31n * gwei, priorityFee: 2n * gwei}, 32n * gwei)).toBeUndefined()
})

test('a replacement offers at least 12.5 % more of both, rounded up, so that nodes take it', () => {
  const earlier = {maxFeePerGas: 1001n, maxPriorityFeePerGas: 3n}
  expect(outbid(earlier, undefined, 10_000n)).toEqual({maxFeePerGas: 1127n, maxPriorityFeePerGas: 4n})
  for (const value of [1n, 7n, 8n, 9n, 999_999_999n, 10n ** 18n + 1n]) {
    const {maxFeePerGas} = outbid({maxFeePerGas: value, maxPriorityFeePerGas: 0n}, undefined, 10n ** 20n)!
    expect(maxFeePerGas * 1000n).toBeGreaterThanOrEqual(value * 1125n)
  }
})

test('a replacement offers the current price if that is higher, and leaves room below the cap for two more', () => {
  const earlier = {maxFeePerGas: 1000n, maxPriorityFeePerGas: 80n}
  const now = {maxFeePerGas: 3000n, maxPriorityFeePerGas: 40n}
  expect(outbid(earlier, now, 3000n)).toEqual({maxFeePerGas: 3000n, maxPriorityFeePerGas: 90n})
  expect(outbid(earlier, undefined, 1125n)).toBeDefined()
  expect(outbid(earlier, undefined, 1124n)).toBeUndefined()
})

test('a tip is never above the total', () => {
  expect(
    outbid({maxFeePerGas: 8n, maxPriorityFeePerGas: 8n}, {maxFeePerGas: 8n, maxPriorityFeePerGas: 20n}, 10n),
  ).toEqual({
    maxFeePerGas: 9n,
    maxPriorityFeePerGas: 9n,
  })
})

test('a sweep moves what is final and present, less its fee, and never a negative amount', () => {
  expect(nativeSweep({balance: 100n, holding: 80n, fee: 30n})).toBe(50n)
  expect(nativeSweep({balance: 70n, holding: 80n, fee: 30n})).toBe(40n)
  expect(nativeSweep({balance: 100n, holding: 20n, fee: 30n})).toBe(0n)
})

test('an estimate gets a margin', () => {
  expect(withRoom(21_000n, 20n)).toBe(25_200n)
})

test('the priority fee is the median of what recent transactions paid, and no less than nodes take', () => {
  expect(tipOf([9n, 1n, 5n], 1n)).toBe(5n)
  expect(tipOf([9n, 1n, 5n], 6n)).toBe(6n)
  expect(tipOf([], 7n)).toBe(7n) // all blocks are empty, whatever the last busy one paid
})

test('the price per unit of gas is limited by what the whole transaction may cost', () => {
  expect(capOf(100n, 1000n, 20n)).toBe(50n)
  expect(capOf(100n, 1000n, 5n)).toBe(100n)
  expect(50n * 20n).toBeLessThanOrEqual(1000n)
})
