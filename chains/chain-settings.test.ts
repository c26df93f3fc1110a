// What is worth sweeping from an address that pays for it.
import {expect, test} from 'vitest'
import {isWorthItsFee, worthSweeping} from './chain-settings.ts'

test('the least amount that is swept is one that custody signs, whatever the sweep costs', () => {
  for (const sweepFeePercent of [1, 33, 50, 100])
    for (const fee of [1n, 5000n, 300_000n]) {
      const signs = (moved: bigint) => fee * 100n <= BigInt(sweepFeePercent) * moved
      const least = worthSweeping({sweepFeePercent}, fee)
      expect([signs(least - fee), signs(least - fee - 1n)]).toEqual([true, false])
    }
})

test('an amount of at most twice the cost of moving it is left alone', () => {
  const isWorth = (amount: bigint, maxFee: bigint) => isWorthItsFee({sweepFeePercent: 50}, {amount, maxFee})
  expect([isWorth(60n, 30n), isWorth(59n, 30n), isWorth(0n, 0n)]).toEqual([true, false, false])
})
