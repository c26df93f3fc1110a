// Transactions that call or create contracts, and calls that only ask. Promises: what a contract may use is bounded by
// the fee limit, by staked energy and by the balance, as java-tron bounds it; what failed costs its energy (all of it,
// unless it reverted or a transfer was refused) and moves nothing. It differs from java-tron in this: the caller pays
// for all energy, also where a contract's creator would share it.
import {keccak256} from 'viem/utils'
import {addressOf, bytesOf} from '../../chains/tron/address.ts'
import {Message} from '../../chains/tron/protobuf.ts'
import type {Log} from '../../chains/tron/responses.ts'
import type {ContractResult} from '../../chains/tron/transaction.ts'
import {parameters} from './constants.ts'
import {invalid} from './rejected.ts'
import {energyLimit, payEnergy} from './resources.ts'
import type {State} from './state.ts'
import {saveCode} from './vm/calls.ts'
import {hasFailed, type Internal, type Outcome, type Surroundings} from './vm/frame.ts'
import {Machine} from './vm/machine.ts'
import {wordOfAddress} from './vm/words.ts'

/** What calls that only ask may use. */
const mostAskedEnergy = 100_000_000
const noBytes = new Uint8Array()

export interface Invocation {
  state: State
  owner: string
  /** The hash of the transaction. */
  txid: Uint8Array
  feeLimit: bigint
  /** The time of the block below, in ms. */
  now: number
  surroundings: Surroundings
}

export interface Invoked {
  contract: string
  result: ContractResult
  /** Why it failed, in a node's words. */
  message?: string
  /** What it returned; of a creation the code. */
  data: Uint8Array
  energy: bigint
  /** The part that a busy contract costs more, and the part that was staked for. */
  penalty: bigint
  staked: bigint
  /** What the rest cost, in sun. */
  energyFee: bigint
  internals: Internal[]
  logs: Log[]
}

export function trigger(
  invocation: Invocation,
  {contract, value, data}: {contract: string; value: bigint; data: Uint8Array},
): Invoked {
  const {state} = invocation
  if (!state.contract(contract)) throw invalid('No contract or not a smart contract')
  const energy = limitOf(invocation, value)
  const tried = state.forkForTransaction()
  bring(tried, {from: invocation.owner, contract, value})
  const outcome = run(invocation, tried, {contract, code: tried.contract(contract)!.code, value, data, energy})
  return settle(invocation, {contract, tried, outcome})
}

/** `message` is the transaction's. */
export function create(invocation: Invocation, message: Message): Invoked {
  const {state, owner, txid} = invocation
  const made = new Message(message.bytes(2))
  const [bytecode, value, percent, most] = [made.bytes(4), made.integer(5), made.integer(6), made.integer(8)]
  if (!Buffer.from(made.bytes(1)).equals(bytesOf(owner))) throw invalid('OwnerAddress is not equals OriginAddress')
  if (percent < 0n || percent > 100n) throw invalid('percent must be >= 0 and <= 100')
  if (most <= 0n) throw invalid('The originEnergyLimit must be > 0')
  const contract = createdAddress(txid, owner)
  const energy = limitOf(invocation, value)
  const tried = state.forkForTransaction()
  const name = Buffer.from(made.bytes(7)).toString()
  const created = {bytecode, abi: made.bytes(3), name, percent: Number(percent), energyLimit: Number(most)}
  tried.setContract(contract, {code: noBytes, created, creator: owner})
  bring(tried, {from: owner, contract, value})
  const ran = run(invocation, tried, {contract, code: bytecode, value, data: noBytes, energy})
  return settle(invocation, {contract, tried, outcome: saveCode(ran, {state: tried, address: contract, energy})})
}

/** The address of the contract that a transaction creates. */
export function createdAddress(txid: Uint8Array, owner: string): string {
  const hash = keccak256(Buffer.concat([txid, bytesOf(owner)]), 'bytes')
  return addressOf(Uint8Array.of(0x41, ...hash.subarray(12)))
}

/** What a call would give: nothing of it stays. Throws Rejected if it could not be a call. */
export function ask(
  invocation: Omit<Invocation, 'feeLimit' | 'now'>,
  {contract, value, data}: {contract: string; value: bigint; data: Uint8Array},
): Outcome {
  const tried = invocation.state.forkForTransaction()
  const code = tried.contract(contract)?.code
  if (!code) throw invalid('Smart contract is not exist.')
  bring(tried, {from: invocation.owner, contract, value})
  return run(invocation, tried, {contract, code, value, data, energy: mostAskedEnergy})
}

function limitOf({state, owner, feeLimit, now}: Invocation, value: bigint): number {
  if (feeLimit < 0n || feeLimit > parameters.getMaxFeeLimit)
    throw invalid(`feeLimit must be >= 0 and <= ${parameters.getMaxFeeLimit}`)
  if (value < 0n) throw invalid('callValue must be >= 0')
  return energyLimit(state, state.account(owner)!, {feeLimit, value, now})
}

function bring(state: State, {from, contract, value}: {from: string; contract: string; value: bigint}): void {
  if (value > 0n) {
    const account = state.account(from)
    if (!account) throw invalid('Validate InternalTransfer error, no OwnerAccount.')
    if (account.balance < value) throw invalid('Validate InternalTransfer error, balance is not sufficient.')
    state.add(from, -value)
  }
  state.add(contract, value)
}

function run(
  {owner, txid, surroundings}: Pick<Invocation, 'owner' | 'txid' | 'surroundings'>,
  state: State,
  {contract, ...call}: {contract: string; code: Uint8Array; value: bigint; data: Uint8Array; energy: number},
): Outcome {
  const origin = wordOfAddress(owner)
  const machine = new Machine({txid, origin, surroundings, energyPrice: parameters.getEnergyFee})
  const message = {...call, caller: origin, address: wordOfAddress(contract), isStatic: false, depth: 0, hash: txid}
  return machine.run(message, state)
}

function settle(
  {state, owner, now}: Invocation,
  {contract, tried, outcome}: {contract: string; tried: State; outcome: Outcome},
): Invoked {
  const {failure, isReverted, data, used, penalty, internals, logs, removed} = outcome
  const failed = hasFailed(outcome)
  if (!failed) {
    for (const address of removed) tried.remove(address)
    tried.dropTransient()
    state.take(tried)
  }
  const {staked, fee} = payEnergy(state, owner, {energy: used, now})
  return {
    contract,
    result: failure?.result ?? (isReverted ? 'REVERT' : 'SUCCESS'),
    ...(failed && {message: failure?.message ?? 'REVERT opcode executed'}),
    data,
    energy: BigInt(used),
    penalty: BigInt(penalty),
    staked: BigInt(staked),
    energyFee: fee,
    internals: internals.map(internal => ({...internal, isRejected: internal.isRejected || failed})),
    logs: failed ? [] : logs,
  }
}
