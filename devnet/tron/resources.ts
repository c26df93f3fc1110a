// Bandwidth and energy: what an account may use for nothing, and what it burns for the rest. Promises: what was used
// comes back in equal parts within a day, by the time of the blocks (java-tron's windows of other lengths, after uses
// that overlap, are left out).
import {parameters, stakedByOthers} from './constants.ts'
import {Rejected} from './rejected.ts'
import type {Account, Resource, Stake, State, Used} from './state.ts'

const dayMs = 86_400_000
const trx = 1_000_000n

export function usedAt({amount, at}: Used, now: number): number {
  return Math.ceil(amount * Math.max(0, 1 - (now - at) / dayMs))
}

export const use = (used: Used, amount: number, now: number): Used => ({amount: usedAt(used, now) + amount, at: now})

const totalLimits = {bandwidth: parameters.getTotalNetLimit, energy: parameters.getTotalEnergyCurrentLimit}

/** How much of a resource all have together each day, and the TRX that they staked for it. */
export function totals(state: State, resource: Resource): {limit: bigint; weight: bigint} {
  return {limit: totalLimits[resource], weight: stakedByOthers[resource] + state.staked(resource) / trx}
}

/** What a stake gives each day. */
export function dailyOf(state: State, resource: Resource, sun: bigint): number {
  const {limit, weight} = totals(state, resource)
  return Number((sun * limit) / (weight * trx))
}

/** The stake that gives so much each day. */
function stakeFor(state: State, resource: Resource, daily: number): bigint {
  const {limit, weight} = totals(state, resource)
  return (BigInt(daily) * weight * trx) / limit
}

export function leftOf(state: State, account: Account, {resource, now}: {resource: Resource; now: number}): number {
  const {own, borrowed, used} = account[resource]
  return Math.max(0, dailyOf(state, resource, own + borrowed) - usedAt(used, now))
}

/** The part of a stake that can be lent: not what was used and has not come back yet. */
export function lendable(state: State, stake: Stake, {resource, now}: {resource: Resource; now: number}): bigint {
  const inUse = stakeFor(state, resource, usedAt(stake.used, now)) - stake.borrowed
  const free = stake.own - (inUse > 0n ? inUse : 0n)
  return free > 0n ? free : 0n
}

export function pay(state: State, owner: string, amount: bigint, code: string): void {
  if (state.account(owner)!.balance < amount) throw new Rejected(code, `it cannot pay ${amount} sun`)
  state.add(owner, -amount)
}

export interface Bandwidth {
  /** The bytes that cost nothing. */
  usage: number
  /** What the others cost, in sun. */
  fee: bigint
}

/** Bytes are of staked bandwidth, or else free, or else paid for; those that make an account are never free. */
export function payBandwidth(
  state: State,
  owner: string,
  {bytes, isNew, now}: {bytes: number; isNew: boolean; now: number},
): Bandwidth {
  const account = state.account(owner)!
  if (leftOf(state, account, {resource: 'bandwidth', now}) >= bytes) {
    const {bandwidth} = account
    state.setAccount(owner, {...account, bandwidth: {...bandwidth, used: use(bandwidth.used, bytes, now)}})
    return {usage: bytes, fee: 0n}
  }
  if (!isNew && usedAt(account.free, now) + bytes <= Number(parameters.getFreeNetLimit)) {
    state.setAccount(owner, {...account, free: use(account.free, bytes, now)})
    return {usage: bytes, fee: 0n}
  }
  const fee = isNew ? parameters.getCreateAccountFee : BigInt(bytes) * parameters.getTransactionFee
  pay(state, owner, fee, 'BANDWITH_ERROR')
  return {usage: 0, fee}
}

/** Takes energy from an account: of its stake first. Returns how much of it was of the stake, and the sun burnt. */
export function payEnergy(
  state: State,
  owner: string,
  {energy, now}: {energy: number; now: number},
): {staked: number; fee: bigint} {
  const account = state.account(owner)!
  const staked = Math.min(energy, leftOf(state, account, {resource: 'energy', now}))
  const {used} = account.energy
  if (staked) state.setAccount(owner, {...account, energy: {...account.energy, used: use(used, staked, now)}})
  const fee = BigInt(energy - staked) * parameters.getEnergyFee
  pay(state, owner, fee, 'CONTRACT_VALIDATE_ERROR')
  return {staked, fee}
}

/** The most energy that an account can pay for. */
export function energyLimit(
  state: State,
  account: Account,
  {feeLimit, value, now}: {feeLimit: bigint; value: bigint; now: number},
): number {
  const price = parameters.getEnergyFee
  const burnable = account.balance > value ? (account.balance - value) / price : 0n
  const available = leftOf(state, account, {resource: 'energy', now}) + Number(burnable)
  return Math.min(available, Number(feeLimit / price))
}
