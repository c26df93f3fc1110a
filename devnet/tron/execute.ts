// What a transaction does to the state of a local Tron chain, and what it costs. Promises: a transaction that a block
// must not hold throws Rejected, with the node's code, and changes nothing. The rules are java-tron's, as far as a
// wallet meets them:
//     the block that it names is on the chain (TAPOS), its expiration is after the parent's time and at most a day
//     ahead, the owner's key signed it;
//     its bytes are paid for with bandwidth, which comes back within a day, or in sun; a payment to a new account
//     activates it, for a fee;
//     contracts run (invoke.ts, vm/machine.ts); a failed call costs its fee and moves nothing;
//     TRX can be staked for bandwidth and energy, and what that gives can be lent (staking.ts).
// They differ in this: no other permissions, tokens (TRC-10) and types of transactions than in transaction-types.ts;
// fees are constants.
import {addressOf} from '../../chains/tron/address.ts'
import {MalformedError} from '../../chains/tron/protobuf.ts'
import {
  encodeTransaction,
  parseRawData,
  type RawData,
  type Transaction,
  transactionOf,
} from '../../chains/tron/transaction.ts'
import {parameters} from './constants.ts'
import {create, type Invocation, type Invoked, trigger} from './invoke.ts'
import {signerOf} from './keys.ts'
import {invalid, Rejected} from './rejected.ts'
import {type Bandwidth, pay, payBandwidth} from './resources.ts'
import {stakings} from './staking.ts'
import type {State} from './state.ts'
import {types} from './transaction-types.ts'
import type {Surroundings} from './vm/frame.ts'

const dayMs = 86_400_000
/** Each transaction counts as many more bytes, for its result. */
const resultBytes = 64

/** Where a transaction is executed. */
export interface Place {
  /** The time of the block below, in ms. */
  parentTime: number
  /** Whether the newest block whose height has these low two bytes has these eight bytes in its hash. */
  isOnChain(refBytes: Uint8Array, refHash: Uint8Array): boolean
  surroundings: Surroundings
}

export interface Executed {
  /** All that it cost, in sun. */
  fee: bigint
  bandwidth: Bandwidth
  /** What a contract did; absent if none was asked for anything. */
  invoked?: Invoked
  /** What was no longer staked and is in the balance again. */
  withdrawn?: bigint
}

export function execute(transaction: Transaction, state: State, place: Place): Executed {
  const raw = read(transaction)
  const owner = check(transaction, raw, place)
  const changed = state.fork()
  const executed = run(transaction, raw, {owner, state: changed, place})
  state.take(changed)
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
  state: State
  place: Place
}

function run(transaction: Transaction, raw: RawData, {owner, state, place}: Run): Executed {
  const {type, message} = raw.contract
  const now = place.parentTime
  if (!state.account(owner)) throw invalid(`account [${owner}] does not exist`)
  const to = type === types.transfer ? addressIn(message.bytes(2)) : undefined
  const isNew = to !== undefined && !state.account(to)
  const bandwidth = payBandwidth(state, owner, {bytes: bytesOf(transaction), isNew, now})
  const memoFee = raw.memo.length ? parameters.getMemoFee : 0n
  pay(state, owner, memoFee, 'BANDWITH_ERROR')
  const fee = bandwidth.fee + memoFee
  if (to !== undefined) {
    const activation = isNew ? parameters.getCreateNewAccountFeeInSystemContract : 0n
    transfer(state, {from: owner, to, amount: message.integer(3), activation})
    return {fee: fee + activation, bandwidth}
  }
  const stake = stakings.get(type)
  if (stake) {
    const withdrawn = stake({state, owner, message, now})
    return {fee, bandwidth, ...(withdrawn && {withdrawn})}
  }
  const txid = Buffer.from(transaction.txid, 'hex')
  const {surroundings} = place
  const invoked = invoke(raw, {state, owner, txid, feeLimit: raw.feeLimit, now, surroundings})
  return {fee: fee + invoked.energyFee, bandwidth, invoked}
}

function invoke({contract: {type, message}}: RawData, invocation: Invocation): Invoked {
  if (type === types.create) return create(invocation, message)
  if (type !== types.trigger) throw invalid(`the local chain has no transactions of type ${type}`)
  const contract = addressIn(message.bytes(2))
  return trigger(invocation, {contract, value: message.integer(3), data: message.bytes(4)})
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

interface Transfer {
  from: string
  to: string
  amount: bigint
  activation: bigint
}

function transfer(state: State, {from, to, amount, activation}: Transfer): void {
  if (amount <= 0n) throw invalid('it pays nothing')
  if (from === to) throw invalid('it pays its owner')
  if (state.contract(to)) throw invalid('it pays a contract')
  pay(state, from, amount + activation, 'CONTRACT_VALIDATE_ERROR')
  state.add(to, amount)
}
