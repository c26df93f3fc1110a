// Accounts, what they may use, and what they lent, as java-tron shows them.
import {bytesOf} from '../../../chains/tron/address.ts'
import {parameters} from '../constants.ts'
import {dailyOf, lendable, totals, usedAt} from '../resources.ts'
import type {Account, Resource, Stake, State} from '../state.ts'

const hexOf = (address: string) => Buffer.from(bytesOf(address)).toString('hex')

/** The fields that are not zero. */
function fields(values: Record<string, bigint | number>): object {
  return Object.fromEntries(Object.entries(values).flatMap(([name, value]) => (value ? [[name, Number(value)]] : [])))
}

const lentIn = ({lent}: Stake) => [...lent.values()].reduce((sum, amount) => sum + amount, 0n)

export function accountJson(state: State, address: string): object {
  const account = state.account(address)
  if (!account) return {}
  const {balance, free, bandwidth, energy, unstaking} = account
  const ofEnergy = fields({
    energy_usage: energy.used.amount,
    latest_consume_time_for_energy: energy.used.at,
    delegated_frozenV2_balance_for_energy: lentIn(energy),
    acquired_delegated_frozenV2_balance_for_energy: energy.borrowed,
  })
  return {
    address: hexOf(address),
    ...(state.contract(address) && {type: 'Contract'}),
    ...fields({
      balance,
      net_usage: bandwidth.used.amount,
      latest_consume_time: bandwidth.used.at,
      free_net_usage: free.amount,
      latest_consume_free_time: free.at,
      delegated_frozenV2_balance_for_bandwidth: lentIn(bandwidth),
      acquired_delegated_frozenV2_balance_for_bandwidth: bandwidth.borrowed,
    }),
    account_resource: ofEnergy,
    frozenV2: [
      fields({amount: bandwidth.own}),
      {...fields({amount: energy.own}), type: 'ENERGY'},
      {type: 'TRON_POWER'},
    ],
    ...(unstaking.length && {unfrozenV2: unstaking.map(unstakingJson)}),
  }
}

function unstakingJson({resource, amount, at}: Account['unstaking'][number]): object {
  const type = resource === 'energy' && {type: 'ENERGY'}
  return {...type, ...fields({unfreeze_amount: amount, unfreeze_expire_time: at})}
}

export function resourcesJson(state: State, address: string, now: number): object {
  const account = state.account(address)
  if (!account) return {}
  const {free, bandwidth, energy} = account
  const [net, all] = [totals(state, 'bandwidth'), totals(state, 'energy')]
  return fields({
    freeNetUsed: usedAt(free, now),
    freeNetLimit: parameters.getFreeNetLimit,
    NetUsed: usedAt(bandwidth.used, now),
    NetLimit: dailyOf(state, 'bandwidth', bandwidth.own + bandwidth.borrowed),
    TotalNetLimit: net.limit,
    TotalNetWeight: net.weight,
    EnergyUsed: usedAt(energy.used, now),
    EnergyLimit: dailyOf(state, 'energy', energy.own + energy.borrowed),
    TotalEnergyLimit: all.limit,
    TotalEnergyWeight: all.weight,
  })
}

export function loanJson(state: State, {from, to}: {from: string; to: string}): object {
  const lender = state.account(from)
  const loan = fields({
    frozen_balance_for_bandwidth: lender?.bandwidth.lent.get(to) ?? 0n,
    frozen_balance_for_energy: lender?.energy.lent.get(to) ?? 0n,
  })
  return Object.keys(loan).length ? {delegatedResource: [{from: hexOf(from), to: hexOf(to), ...loan}]} : {}
}

/** Whom an account lends to. (java-tron also names who lends to it.) */
export function borrowersJson(state: State, address: string): object {
  const account = state.account(address)
  const to = new Set([...(account?.bandwidth.lent.keys() ?? []), ...(account?.energy.lent.keys() ?? [])])
  return to.size ? {account: hexOf(address), toAccounts: [...to].map(hexOf)} : {}
}

export function lendableJson(
  state: State,
  address: string,
  {resource, now}: {resource: Resource; now: number},
): object {
  const account = state.account(address)
  return account ? fields({max_size: lendable(state, account[resource], {resource, now})}) : {}
}
