// What Solana's transactions offer for their place in a block.
import {expect, test} from 'vitest'
import {highestFee, type Moved, priorityFee} from './fees.ts'

const settings = {maxPriorityFee: 100_000n}
const fee = (prices: bigint[], attempts = 0, moved: Moved = 'coins') => priorityFee(settings, prices, {attempts, moved})

test('the first offer is what three quarters of the recent prices do not exceed', () => {
  expect(fee([])).toBe(0n)
  expect(fee([0n, 0n, 0n, 0n])).toBe(0n)
  expect(fee([400n, 100n, 300n, 200n])).toBe(6n) // 300 micro-lamports for each of 20,000 units
  expect(fee([1n])).toBe(1n) // rounded up
  expect([fee([300n], 0, 'token'), fee([300n], 0, 'madeAccount')]).toEqual([18n, 51n])
})

test('each further transaction of a payment offers twice as much, and at least something', () => {
  expect([1, 2, 3].map(attempts => fee([], attempts))).toEqual([1000n, 2000n, 4000n])
  expect([0, 1, 2].map(attempts => fee([50_000n], attempts))).toEqual([1000n, 2000n, 4000n])
})

test('no offer is above the bound, which is what a payment reserves', () => {
  expect([fee([10n ** 12n]), fee([], 7), fee([], 8), fee([], 99)]).toEqual([100_000n, 64_000n, 100_000n, 100_000n])
  expect(highestFee(settings)).toBe(105_000n)
})
