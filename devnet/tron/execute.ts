// What a transaction does to the accounts of a local Tron chain, and what it costs. Promises: a transaction that a
// block must not hold throws Rejected, with the node's code, and changes nothing. The rules are java-tron's, as far as
// a wallet meets them:
//     the block that it names is on the chain (TAPOS), its expiration is after the parent's time and at most a day
//     ahead, the owner's key signed it;
//     its bytes are paid for with free bandwidth, which comes back within a day, or in sun; a payment to a new account
//     activates it, for a fee;
//     a failed call costs its fee and moves nothing.
// They differ in this: no staked bandwidth and no energy for nothing, no other permissions, contracts, tokens (TRC-10)
// and types of transactions than here; free bandwidth comes back linearly; fees of accounts and energy are constants.
import {addressOf} from '../../chains/tron/address.ts'
import {MalformedError} from '../../chains/tron/protobuf.ts'
import type {Internal, Log} from '../../chains/tron/responses.ts'
import {
  type ContractResult,
  contractTypes,
  encodeTransaction,
  parseRawData,
  type RawData,
  type Transaction,
  transactionOf,
} from '../../chains/tron/transaction.ts'
import type {Account, Accounts} from './accounts.ts'
import {isContractAddress} from './constants.ts'
import {type Call, callContract} from './contracts.ts'
import {signerOf} from './keys.ts'

/** As wallet/getchainparameters names them. */
export const parameters = {
  getCreateAccountFee: 100_000n,
  getTransactionFee: 1000n,
  getCreateNewAccountFeeInSystemContract: 1_000_000n,
  getEnergyFee: 100n,
  getMemoFee: 1_000_000n,
  getFreeNetLimit: 600n,
}
const dayMs = 86_400_000
/** Each transaction counts as many more bytes, for its result. */
const resultBytes = 64

export class Rejected extends Error {
  override name = 'Rejected'
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

const invalid = (message: string) => new Rejected('CONTRACT_VALIDATE_ERROR', message)

/** Where a transaction is executed. */
export interface Place {
  /** The time of the block below, in ms. */
  parentTime: number
  /** Whether the newest block whose height has these low two bytes has these eight bytes in its hash. */
  isOnChain(refBytes: Uint8Array, refHash: Uint8Array): boolean
}

export interface Executed {
  result: ContractResult
  fee: bigint
  /** The bytes that were free. */
  freeBytes: number
  energy: bigint
  contract?: string
  internals: Internal[]
  logs: Log[]
}

export function execute(transaction: Transaction, accounts: Accounts, place: Place): Executed {
  const raw = read(transaction)
  const owner = check(transaction, raw, place)
  const changed = accounts.fork()
  const executed = run(transaction, raw, {owner, accounts: changed, now: place.parentTime})
  accounts.take(changed)
  return executed
}

function read({rawData}: Transaction): RawData {
  try {
    return parseRawData(rawData)
  } catch (error) {
    if (error instanceof MalformedError) throw new Rejected('OTHER_ERROR', error.message)
    throw error
  }
}

/** Returns the owner. */
function check(transaction: Transaction, {refBytes, refHash, expiration, contract}: RawData, place: Place): string {
  if (!place.isOnChain(refBytes, refHash))
    throw new Rejected('TAPOS_ERROR', 'the block that it names is not on the chain')
  const latest = place.parentTime ? place.parentTime + dayMs : Number.POSITIVE_INFINITY // the first block has no time
  if (expiration <= place.parentTime || expiration > latest)
    throw new Rejected('TRANSACTION_EXPIRATION_ERROR', 'it has expired, or expires too late')
  if (!contract.owner || contract.permission !== 0 || signerOf(transaction) !== contract.owner)
    throw new Rejected('SIGERROR', 'it is not signed by its owner')
  return contract.owner
}

interface Run {
  owner: string
  accounts: Accounts
  now: number
}

function run(transaction: Transaction, raw: RawData, {owner, accounts, now}: Run): Executed {
  const {type, message} = raw.contract
  if (!accounts.find(owner)) throw invalid('its owner has no account')
  const isTransfer = type === contractTypes.transfer
  const to = isTransfer ? addressIn(message.bytes(2)) : undefined
  const isNew = to !== undefined && !accounts.find(to)
  const memoFee = raw.memo.length ? parameters.getMemoFee : 0n
  const {freeBytes, fee: bandwidthFee} = payBandwidth(accounts, owner, {bytes: bytesOf(transaction), isNew, now})
  pay(accounts, owner, memoFee, 'BANDWITH_ERROR')
  if (isTransfer) {
    const activation = isNew ? parameters.getCreateNewAccountFeeInSystemContract : 0n
    transfer(accounts, {from: owner, to: to!, amount: message.integer(3), activation})
    const fee = bandwidthFee + memoFee + activation
    return {result: 'SUCCESS', fee, freeBytes, energy: 0n, internals: [], logs: []}
  }
  if (type !== contractTypes.trigger) throw invalid(`the local chain has no transactions of type ${type}`)
  const contract = addressIn(message.bytes(2))
  const call = {from: owner, contract, value: message.integer(3), data: message.bytes(4)}
  const called = trigger(accounts, call, raw.feeLimit)
  return {...called, contract, fee: bandwidthFee + memoFee + called.energy * parameters.getEnergyFee, freeBytes}
}

function addressIn(bytes: Uint8Array): string {
  try {
    return addressOf(bytes)
  } catch {
    throw invalid('it names no address')
  }
}

/** A block's result is no part of what is paid for. */
function bytesOf({rawData, signatures}: Transaction): number {
  return encodeTransaction(transactionOf(rawData, signatures)).length + resultBytes
}

function payBandwidth(
  accounts: Accounts,
  owner: string,
  {bytes, isNew, now}: {bytes: number; isNew: boolean; now: number},
): {freeBytes: number; fee: bigint} {
  const account = accounts.find(owner)!
  const used = usedBandwidth(account, now)
  if (!isNew && used + bytes <= Number(parameters.getFreeNetLimit)) {
    accounts.set(owner, {...account, used: used + bytes, usedAt: now})
    return {freeBytes: bytes, fee: 0n}
  }
  const fee = isNew ? parameters.getCreateAccountFee : BigInt(bytes) * parameters.getTransactionFee
  pay(accounts, owner, fee, 'BANDWITH_ERROR')
  return {freeBytes: 0, fee}
}

export function usedBandwidth({used, usedAt}: Account, now: number): number {
  return Math.ceil(used * Math.max(0, 1 - (now - usedAt) / dayMs))
}

function pay(accounts: Accounts, owner: string, amount: bigint, code: string): void {
  if (accounts.find(owner)!.balance < amount) throw new Rejected(code, `it cannot pay ${amount} sun`)
  accounts.add(owner, -amount)
}

interface Transfer {
  from: string
  to: string
  amount: bigint
  activation: bigint
}

function transfer(accounts: Accounts, {from, to, amount, activation}: Transfer): void {
  if (amount <= 0n) throw invalid('it pays nothing')
  if (from === to) throw invalid('it pays its owner')
  if (isContractAddress(to)) throw invalid('it pays a contract')
  pay(accounts, from, amount + activation, 'CONTRACT_VALIDATE_ERROR')
  accounts.add(to, amount)
}

type Called = Pick<Executed, 'result' | 'energy' | 'internals' | 'logs'>

/** A call that fails costs its energy, and changes nothing else. */
function trigger(accounts: Accounts, call: Call, feeLimit: bigint): Called {
  const tried = accounts.fork()
  pay(tried, call.from, call.value, 'CONTRACT_VALIDATE_ERROR')
  tried.add(call.contract, call.value)
  const called = callContract(tried, call)
  if (!called) throw invalid('there is no contract at this address')
  const most = feeLimit / parameters.getEnergyFee
  const result = called.energy > most ? 'OUT_OF_ENERGY' : called.reverted ? 'REVERT' : 'SUCCESS'
  const hasFailed = result !== 'SUCCESS'
  if (!hasFailed) accounts.take(tried)
  const energy = called.energy > most ? most : called.energy
  pay(accounts, call.from, energy * parameters.getEnergyFee, 'CONTRACT_VALIDATE_ERROR')
  const internals = called.internals.map(internal => ({...internal, isRejected: hasFailed}))
  return {result, energy, internals, logs: hasFailed ? [] : called.logs}
}
