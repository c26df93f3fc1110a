// How a sweep of a token gets its energy: by the cheaper way, within what is free of the stake.
import {expect, test} from 'vitest'
import {settingsFrom} from '../../../chains/settings.ts'
import {stakingBytes} from '../../../chains/tron/bytes.ts'
import {tronSettings} from '../../../chains/tron/settings.ts'
import {chooseWay, energyOf, Lending, likelyFee, stakeFor} from './lending.ts'

const trx = 1_000_000n
const settings = (way: string, more = {}) => tronSettings(settingsFrom('TRON', {TRON_SWEEP_ENERGY: way, ...more}))
const prices = (energy = 100n) => ({energy})
/** As on the main network: some 9.5 energy a day for 1 TRX. */
const rate = {network: 180_000_000_000n, staked: 19_000_000_000n}
const fee = 2n * stakingBytes * 1000n
const lending = (free: bigint, freeBytes = 0n) => new Lending({rate, byte: 1000n, free, freeBytes})
const energy = 65_000n
const none = {burnt: 0n, delegated: 0n}
/** With room for a contract that needs a quarter more, and for others who stake meanwhile. */
const stake = lending(0n).stakeFor(energy)

test('a stake gives the energy that it is lent for, also after others have staked 1 % more', () => {
  for (const needs of [1n, 13_317n, 65_000n, 130_285n, 10n ** 9n]) {
    const lent = stakeFor(rate, needs)
    const diluted = {...rate, staked: (rate.staked * 101n) / 100n}
    expect(energyOf(diluted, lent)).toBeGreaterThanOrEqual(needs)
    expect(lent).toBeGreaterThanOrEqual(trx) // the network lends no less
  }
  expect(stake / trx).toBe(8747n)
})

test('energy is lent where that costs less than burning, with the gas that each way needs', () => {
  const way = (gasFee = none, price = 100n) =>
    chooseWay(settings('cheapest'), prices(price), lending(stake), {energy, gasFee})
  const lent = {lends: stake}
  expect(way()).toEqual(lent)
  expect(way(none, fee / energy)).toBe('burnt') // burning costs as much
  expect(way(none, fee / energy + 1n)).toEqual(lent)
  expect(way({burnt: 0n, delegated: energy * 100n - fee})).toBe('burnt')
  expect(way({burnt: 1n, delegated: energy * 100n - fee})).toEqual(lent)
})

test('sweeps share what is free, in order, however many are asked about at a time', () => {
  const all = lending(2n * stake)
  const next = (needs = energy) => chooseWay(settings('cheapest'), prices(), all, {energy: needs, gasFee: none})
  expect([next(), next(200_000n), next(), next()]).toEqual([{lends: stake}, 'burnt', {lends: stake}, 'burnt'])
  expect(all.free).toBe(0n)
})

test('free bytes of the treasury make lending free as often as they are enough for', () => {
  const all = lending(10n * stake, 4n * stakingBytes + 1n)
  const fees = [0, 1, 2].map(() => {
    const now = all.fee
    chooseWay(settings('cheapest'), prices(), all, {energy, gasFee: none})
    return now
  })
  expect(fees).toEqual([0n, 0n, fee])
})

test('where an operator wants only lent energy, it is lent also if burning is cheaper, and a sweep waits for it', () => {
  const way = (of: Lending | undefined, price = 1n) =>
    chooseWay(settings('delegated'), prices(price), of, {energy, gasFee: none})
  expect(way(lending(stake))).toEqual({lends: stake})
  expect(way(lending(stake - 1n))).toMatchObject({
    reason: 'energy_short',
    detail: `TRON_SWEEP_ENERGY is delegated, so no sweep burns energy: it needs ${stake} sun of the stake, and ${stake - 1n} are free`,
  })
  expect(way(undefined)).toMatchObject({reason: 'energy_short', detail: expect.stringContaining('nothing is staked')})
})

test('where burning costs more than is allowed, a sweep waits for energy, and says so; without a stake its price is the reason', () => {
  const of = settings('cheapest', {TRON_TOKEN_SWEEP_FEE: '8'})
  const way = (free: Lending | undefined) => chooseWay(of, prices(), free, {energy, gasFee: none})
  expect(way(lending(stake))).toEqual({lends: stake})
  expect(way(lending(stake - 1n))).toMatchObject({
    reason: 'energy_short',
    detail: expect.stringContaining('burning its energy costs more than TRON_TOKEN_SWEEP_FEE allows'),
  })
  expect(way(undefined)).toBe('burnt') // the flow waits: fee_above_cap
})

test('a sweep is likely to cost what the cheaper way costs, while something is staked', () => {
  expect(likelyFee(prices(), undefined, energy)).toBe(6_500_000n)
  expect(likelyFee(prices(), lending(0n), energy)).toBe(fee) // others give theirs back soon
  expect(likelyFee(prices(1n), lending(0n), energy)).toBe(energy)
})
