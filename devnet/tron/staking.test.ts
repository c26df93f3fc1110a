// Staked and lent energy and bandwidth on a local Tron chain: who pays with them, when they come back, and what a node
// shows of them.
import {afterEach, beforeEach, expect, test} from 'vitest'
import {z} from 'zod'
import {bytesOf} from '../../chains/tron/address.ts'
import {blockId} from '../../chains/tron/block.ts'
import {rawOf, type Transaction} from '../../chains/tron/transaction.ts'
import {recorded} from '../../test/support/recorded.ts'
import {answer} from './api.ts'
import {TronLocalChain} from './chain.ts'
import {call, newAddress, payment, type Signing, type Staking, staking} from './client.ts'
import {contracts, faucetKey, genesis} from './constants.ts'
import {tokenTransferData} from './contracts.ts'
import {TronJournal} from './journal.ts'
import {addressOfKey, newKey} from './keys.ts'

const dayMs = 86_400_000
const trx = 1_000_000n
const stake = 100_000n * trx

const Resources = z.object({
  EnergyLimit: z.int().default(0),
  EnergyUsed: z.int().default(0),
  NetLimit: z.int().default(0),
  NetUsed: z.int().default(0),
  freeNetUsed: z.int().default(0),
})

let chain: TronLocalChain
let laterMs: number
let owner: Uint8Array
beforeEach(() => {
  chain = new TronLocalChain(new TronJournal(':memory:', 'TRON'))
  laterMs = 0
  owner = newKey()
  chain.mine()
  mine(payment(on(faucetKey), addressOfKey(owner), 2n * stake))
})
afterEach(() => chain.journal.close())

const on = (key: Uint8Array): Signing => ({
  key,
  on: {height: 0, hash: blockId(genesis)},
  expiration: Date.now() + laterMs + dayMs / 2,
})
const hexOf = (address: string) => Buffer.from(bytesOf(address)).toString('hex')
const ask = (method: string, question: object) => answer(chain, `/wallet/${method}`, JSON.stringify(question))
function mine(transaction: Transaction) {
  chain.submit(rawOf(transaction))
  chain.mine(1, {laterMs})
  return ask('gettransactioninfobyid', {value: transaction.txid})
}
function wait(ms: number) {
  laterMs += ms
  chain.mine(1, {laterMs})
}
const act = (action: Staking, key = owner) => mine(staking(on(key), action))
const account = (key = owner) => ask('getaccount', {address: hexOf(addressOfKey(key))})
const resources = (key = owner) => Resources.parse(ask('getaccountresource', {address: hexOf(addressOfKey(key))}))
const pay = (key: Uint8Array) =>
  mine(call(on(key), {contract: contracts.usdt, data: tokenTransferData(addressOfKey(owner), 0n)}))
/** A key whose account has a little TRX. */
function another(): Uint8Array {
  const key = newKey()
  mine(payment(on(faucetKey), addressOfKey(key), 100n * trx))
  return key
}

test('staked energy pays for calls, and comes back within a day; what it lacks is burnt', () => {
  act({action: 'freeze', resource: 'energy', amount: stake})
  expect(account()).toMatchObject({
    balance: Number(stake),
    frozenV2: [{}, {amount: Number(stake), type: 'ENERGY'}, {type: 'TRON_POWER'}],
  })
  const {EnergyLimit} = resources()
  expect(EnergyLimit).toBe(947_363) // 100,000 of 19,000,100,000 TRX of 180,000,000,000
  const {energy_usage: used} = z
    .object({receipt: z.object({energy_usage: z.int(), energy_fee: z.undefined().optional()})})
    .parse(pay(owner)).receipt
  expect(resources().EnergyUsed).toBe(used)
  wait(dayMs / 2)
  expect(resources().EnergyUsed / used).toBeCloseTo(0.5, 2)
  wait(dayMs / 2)
  expect(resources().EnergyUsed).toBe(0)
  act({action: 'unfreeze', resource: 'energy', amount: stake - 1000n * trx})
  expect(resources().EnergyLimit).toBe(9473)
  expect(pay(owner)).toMatchObject({receipt: {energy_usage: 9473, energy_fee: (used - 9473) * 100}})
})

test('staked bandwidth pays before the free one, also for a payment that makes an account', () => {
  act({action: 'freeze', resource: 'bandwidth', amount: stake})
  const {freeNetUsed} = resources()
  expect(mine(payment(on(owner), newAddress(), 1n))).toMatchObject({fee: 1_000_000, receipt: {net_usage: 265}})
  expect(resources()).toMatchObject({freeNetUsed, NetUsed: 265, NetLimit: 159_999})
})

test('lent energy pays at once for who has it, and is used up for the lender until it has come back', () => {
  const user = another()
  act({action: 'freeze', resource: 'energy', amount: stake})
  const loan = {resource: 'energy', amount: stake, with: addressOfKey(user)} as const
  expect(act({action: 'delegate', ...loan})).toMatchObject({receipt: {net_usage: 280}, contractResult: ['']})
  expect(account()).toMatchObject({account_resource: {delegated_frozenV2_balance_for_energy: Number(stake)}})
  expect(account(user)).toMatchObject({
    account_resource: {acquired_delegated_frozenV2_balance_for_energy: Number(stake)},
  })
  expect([resources().EnergyLimit, resources(user).EnergyLimit]).toEqual([0, 947_363])
  const between = {fromAddress: hexOf(addressOfKey(owner)), toAddress: hexOf(addressOfKey(user))}
  expect(ask('getdelegatedresourcev2', between)).toMatchObject({
    delegatedResource: [{frozen_balance_for_energy: Number(stake)}],
  })
  const {receipt} = z
    .object({receipt: z.object({energy_usage: z.int()}), fee: z.undefined().optional()})
    .parse(pay(user))
  act({action: 'undelegate', ...loan})
  expect([resources().EnergyUsed, resources(user).EnergyUsed]).toEqual([receipt.energy_usage, 0])
  expect(ask('getdelegatedresourcev2', between)).toEqual({})
  const {max_size} = z
    .object({max_size: z.int()})
    .parse(ask('getcandelegatedmaxsize', {owner_address: hexOf(addressOfKey(owner)), type: 1}))
  expect(max_size).toBeLessThan(Number(stake))
  expect(() => act({action: 'delegate', ...loan})).toThrow('less than or equal to available FreezeEnergyV2 balance')
  act({action: 'delegate', ...loan, amount: BigInt(max_size)})
})

test('what is no longer staked can be withdrawn after 14 days', () => {
  act({action: 'freeze', resource: 'energy', amount: stake})
  act({action: 'unfreeze', resource: 'energy', amount: stake})
  expect(account()).toMatchObject({unfrozenV2: [{type: 'ENERGY', unfreeze_amount: Number(stake)}]})
  wait(14 * dayMs - 60_000)
  expect(() => act({action: 'withdraw'})).toThrow('no unFreeze balance to withdraw')
  wait(120_000)
  expect(act({action: 'withdraw'})).toMatchObject({withdraw_expire_amount: Number(stake)})
  expect(account()).toMatchObject({balance: Number(2n * stake)})
  expect(account()).not.toHaveProperty('unfrozenV2')
})

test('an account with stakes is shown as on java-tron', () => {
  const user = another()
  mine(payment(on(faucetKey), addressOfKey(owner), 2_000_000n * trx))
  act({action: 'freeze', resource: 'bandwidth', amount: 1000n * trx})
  act({action: 'freeze', resource: 'energy', amount: 1_000_000n * trx})
  act({action: 'delegate', resource: 'energy', amount: 100n * trx, with: addressOfKey(user)})
  act({action: 'unfreeze', resource: 'bandwidth', amount: 10n * trx})
  const Loan = z.object({delegated_frozenV2_balance_for_energy: z.int()})
  const Unstaking = z.object({unfreeze_amount: z.int(), type: z.string().optional()})
  const Staked = z.object({account_resource: Loan, frozenV2: z.unknown(), unfrozenV2: z.array(Unstaking)})
  const theirs = recorded('tron/account', z.object({response: Staked})).response
  expect(Staked.parse(account())).toEqual(theirs)
  const Shown = z.object({response: z.record(z.string(), z.int().or(z.array(z.unknown())))})
  const names = Object.keys(recorded('tron/account-resource', Shown).response).filter(name => !name.startsWith('asset'))
  const ours = Object.keys(ask('getaccountresource', {address: hexOf(addressOfKey(owner))}) as object)
  expect(ours).toEqual(names)
})

test('nobody stakes, lends or takes back more than there is', () => {
  const user = another()
  const all = {resource: 'energy', amount: stake} as const
  expect(() => act({action: 'freeze', ...all, amount: 3n * stake})).toThrow('accountBalance')
  expect(() => act({action: 'freeze', ...all, amount: trx - 1n})).toThrow('1 TRX')
  expect(() => act({action: 'unfreeze', ...all})).toThrow('no frozenBalance')
  act({action: 'freeze', ...all})
  expect(() => act({action: 'delegate', ...all, with: newAddress()})).toThrow('does not exist')
  expect(() => act({action: 'delegate', ...all, with: contracts.usdt})).toThrow('contract addresses')
  expect(() => act({action: 'delegate', ...all, with: addressOfKey(owner)})).toThrow('same as ownerAddress')
  expect(() => act({action: 'undelegate', ...all, with: addressOfKey(user)})).toThrow('does not exist')
  act({action: 'delegate', ...all, with: addressOfKey(user)})
  expect(() => act({action: 'unfreeze', ...all})).toThrow('no frozenBalance')
  expect(() => act({action: 'undelegate', ...all, amount: stake + 1n, with: addressOfKey(user)})).toThrow(
    'insufficient',
  )
})

test('a reorganisation takes a stake back', () => {
  act({action: 'freeze', resource: 'energy', amount: stake})
  chain.reorg(1)
  expect(account()).toMatchObject({balance: Number(2n * stake)})
  expect(resources().EnergyLimit).toBe(0)
})
