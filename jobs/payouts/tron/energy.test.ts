// How a sweep of a token gets its energy: by the cheaper way, within what is free of the stake.
import {expect, test} from 'vitest'
import {settingsFrom} from '../../../chains/settings.ts'
import {stakingBytes} from '../../../chains/tron/bytes.ts'
import {tronSettings} from '../../../chains/tron/settings.ts'
import {chooseWays, energyOf, energyShort, likelyFee, stakeFor} from './energy.ts'

const trx = 1_000_000n
const settings = (way: string) => tronSettings(settingsFrom('TRON', {TRON_SWEEP_ENERGY: way}))
const prices = {energy: 100n}
/** As on the main network: some 9.5 energy a day for 1 TRX. */
const rate = {network: 180_000_000_000n, staked: 19_000_000_000n}
const fee = 2n * stakingBytes * 1000n
const lending = (free: bigint) => ({free, fee, rate})
const energy = 65_000n
const usual = {energy, gasFee: {burnt: 0n, delegated: 0n}}
/** With room for a contract that needs a quarter more, and for others who stake meanwhile. */
const stake = stakeFor(lending(0n), 81_250n)

test('a stake gives the energy that it is lent for, also after others have staked 1 % more', () => {
  for (const needs of [1n, 13_317n, 65_000n, 130_285n, 10n ** 9n]) {
    const lent = stakeFor(lending(0n), needs)
    const diluted = {...rate, staked: (rate.staked * 101n) / 100n}
    expect(energyOf({rate: diluted}, lent)).toBeGreaterThanOrEqual(needs)
    expect(lent).toBeGreaterThanOrEqual(trx) // the network lends no less
  }
  expect(stake / trx).toBe(8747n)
})

test('energy is lent where that costs less than burning, with the gas that each way needs', () => {
  const ways = (more: object, price = 100n) =>
    chooseWays(settings('cheapest'), {energy: price}, lending(stake), [{...usual, ...more}])
  expect(ways({})).toEqual([stake])
  expect(ways({}, fee / energy)).toEqual(['burnt']) // burning costs as much
  expect(ways({}, fee / energy + 1n)).toEqual([stake])
  expect(ways({gasFee: {burnt: 0n, delegated: energy * 100n - fee}})).toEqual(['burnt'])
  expect(ways({gasFee: {burnt: 1n, delegated: energy * 100n - fee}})).toEqual([stake])
})

test('sweeps share what is free, in order; the others burn, or wait if the operator wants no burning', () => {
  const three = [usual, {...usual, energy: 300_000n}, usual]
  const free = lending(2n * stake)
  expect(chooseWays(settings('cheapest'), prices, free, three)).toEqual([stake, 'burnt', stake])
  expect(chooseWays(settings('delegated'), prices, free, three)).toEqual([stake, 'short', stake])
  expect(chooseWays(settings('cheapest'), prices, lending(stake - 1n), [usual])).toEqual(['burnt'])
  expect(chooseWays(settings('cheapest'), prices, undefined, [usual])).toEqual(['burnt'])
  expect(chooseWays(settings('delegated'), prices, undefined, [usual])).toEqual(['short'])
})

test('an operator who wants only lent energy gets it also where burning is cheaper', () => {
  expect(chooseWays(settings('delegated'), {energy: 1n}, lending(stake), [usual])).toEqual([stake])
})

test('a sweep is likely to cost what its way costs', () => {
  expect(likelyFee(settings('cheapest'), prices, undefined, energy)).toBe(6_500_000n)
  expect(likelyFee(settings('cheapest'), prices, lending(stake), energy)).toBe(fee)
  expect(likelyFee(settings('cheapest'), prices, lending(stake - 1n), energy)).toBe(6_500_000n)
})

test('while too little of the stake is free, a sweep that may not burn waits, and says for what', () => {
  expect(energyShort(settings('cheapest'), undefined, energy)).toBeUndefined()
  expect(energyShort(settings('delegated'), lending(stake), energy)).toBeUndefined()
  expect(energyShort(settings('delegated'), undefined, energy)).toMatchObject({
    reason: 'energy_short',
    detail: 'TRON_SWEEP_ENERGY is delegated, so no sweep burns energy: nothing is staked for energy',
  })
  expect(energyShort(settings('delegated'), lending(5n), energy)?.detail).toContain(
    `it needs ${stake} sun of the stake, of which 5 are free`,
  )
})
