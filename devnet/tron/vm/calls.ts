// The operations of the virtual machine that reach other accounts: calls, creations, and a contract's end. Each is
// noted as an internal transaction, as java-tron notes them, with the same hashes.
import {keccak256} from 'viem/utils'
import {bytesOf} from '../../../chains/tron/address.ts'
import {largestAmount} from '../../../chains/tron/transaction.ts'
import type {State} from '../state.ts'
import {builtIn} from './built-in.ts'
import {Failure, type Frame, hasFailed, type Internal, type Message, type Outcome, wholeFactor} from './frame.ts'
import type {Operation, Table} from './operations.ts'
import {addressIn, bytesOfWord, wordOf, wordOfAddress} from './words.ts'

const callEnergy = 40
const valueEnergy = 9000
const newAccountEnergy = 25_000
/** What a call that brings value gets for nothing. */
const stipend = 2300
const creationEnergy = 32_000
const codeByteEnergy = 200
const mostDepth = 64
const noBytes = new Uint8Array()

type Kind = 'CALL' | 'CALLCODE' | 'DELEGATECALL' | 'STATICCALL'

export function callOperations(): Table {
  return new Map([
    [0xf0, creation('CREATE')],
    [0xf1, callOf('CALL')],
    [0xf2, callOf('CALLCODE')],
    [0xf4, callOf('DELEGATECALL')],
    [0xf5, creation('CREATE2')],
    [0xfa, callOf('STATICCALL')],
    [0xff, {name: 'SUICIDE', pops: 1, pushes: 0, energy: () => 0, run: end}],
  ])
}

// Calls
// ---------------------------------------------------------------------------------------------------------------------

function callOf(kind: Kind): Operation {
  const hasValue = kind === 'CALL' || kind === 'CALLCODE'
  return {
    name: kind,
    pops: hasValue ? 7 : 6,
    pushes: 1,
    isCall: true,
    energy: frame => energyOfCall(frame, kind, hasValue),
    run(frame) {
      frame.pop() // the energy that it asked for
      const to = frame.pop()
      const value = hasValue ? frame.pop() : 0n
      const [offset, length, intoOffset, intoLength] = [frame.pop(), frame.pop(), frame.pop(), frame.pop()]
      if (kind === 'CALL' && value !== 0n) frame.assertMayChange()
      if (intoLength > 0n) frame.memory.extend(Number(intoOffset), Number(intoLength))
      const energy = frame.forwarded + (value === 0n ? 0 : stipend)
      frame.returned = noBytes
      const data = frame.read(offset, length)
      const outcome = call(frame, {kind, to: BigInt.asUintN(160, to), value, data, energy})
      frame.push(hasFailed(outcome) ? 0n : 1n)
      if (outcome.failure) return // it used all of its energy
      frame.returned = outcome.data
      const shown = outcome.data.subarray(0, Number(intoLength))
      if (shown.length) frame.memory.write(Number(intoOffset), shown)
      frame.used -= energy - outcome.used
    },
  }
}

function energyOfCall(frame: Frame, kind: Kind, hasValue: boolean): number {
  const first = hasValue ? 3 : 2
  const value = hasValue ? frame.peek(2) : 0n
  const isNew = kind === 'CALL' && value !== 0n && !frame.state.account(addressIn(frame.peek(1)))
  const memory = frame.memoryEnergy(
    kind,
    [frame.peek(first), frame.peek(first + 1)],
    [frame.peek(first + 2), frame.peek(first + 3)],
  )
  const plain = callEnergy + (value === 0n ? 0 : valueEnergy) + (isNew ? newAccountEnergy : 0) + memory
  frame.callPenalty = Math.floor((plain * frame.factor) / wholeFactor) - plain
  const own = plain + frame.callPenalty
  if (own > frame.left)
    throw new Failure(
      'OUT_OF_ENERGY',
      `Not enough energy for '${kind}' operation executing: opEnergy[${own}], programEnergy[${frame.left}]`,
    )
  const available = frame.left - own
  const most = available - Math.floor(available / 64)
  frame.forwarded = frame.peek(0) > BigInt(most) ? most : Number(frame.peek(0))
  return own + frame.forwarded
}

interface Call {
  kind: Kind
  to: bigint
  value: bigint
  data: Uint8Array
  energy: number
}

const none = {data: noBytes, used: 0, penalty: 0, logs: [], internals: [], removed: []}
const untried: Outcome = {...none, isReverted: true}

function call(frame: Frame, {kind, to, value, data, energy}: Call): Outcome {
  const {message, execution} = frame
  if (message.depth === mostDepth) return untried
  if (value > largestAmount) throw refusedTransfer('endowment out of long range')
  if ((frame.state.account(addressIn(message.address))?.balance ?? 0n) < value) return untried
  const state = frame.state.fork()
  const isHere = kind === 'CALLCODE' || kind === 'DELEGATECALL'
  const address = isHere ? message.address : to
  if (value > 0n && !isHere) move(state, {from: message.address, to, value})
  const found = builtIn(to, data)
  if (found) return takeBuiltIn(frame, {state, energy, ...found})
  const internal = note(frame, {to: address, value, data, note: 'call'})
  const code = state.contract(addressIn(to))?.code ?? noBytes
  const called: Message = {
    caller: kind === 'DELEGATECALL' ? message.caller : message.address,
    address,
    code,
    value: kind === 'DELEGATECALL' ? message.value : value,
    data,
    energy,
    isStatic: message.isStatic || kind === 'STATICCALL',
    depth: message.depth + 1,
    hash: internal.hash,
  }
  return take(frame, internal, {state, outcome: execution.run(called, state)})
}

function move(state: State, {from, to, value}: {from: bigint; to: bigint; value: bigint}): void {
  if (from === to) throw refusedTransfer('transfer trx failed: Cannot transfer TRX to yourself.')
  state.add(addressIn(from), -value)
  state.add(addressIn(to), value)
}

const refusedTransfer = (message: string) => new Failure('TRANSFER_FAILED', message, {keepsEnergy: true})

function takeBuiltIn(
  frame: Frame,
  {state, energy, cost, data}: {state: State; energy: number; cost: number; data: Uint8Array},
): Outcome {
  if (cost > energy) {
    const failure = new Failure('OUT_OF_ENERGY', 'Not enough energy for a built-in contract')
    return {...none, failure, isReverted: false, used: energy}
  }
  frame.state.take(state)
  return {...none, isReverted: false, data, used: cost}
}

/** Takes what a call or a creation did; what a failed one did is noted as rejected, and nothing else. */
function take(frame: Frame, internal: Internal, {state, outcome}: {state: State; outcome: Outcome}): Outcome {
  const failed = hasFailed(outcome)
  internal.isRejected = failed
  frame.internals.push(...outcome.internals.map(inside => ({...inside, isRejected: inside.isRejected || failed})))
  frame.penalty += outcome.penalty
  if (failed) return outcome
  frame.logs.push(...outcome.logs)
  frame.removed.push(...outcome.removed)
  frame.state.take(state)
  return outcome
}

interface Noted {
  from?: bigint
  to: bigint
  value: bigint
  data: Uint8Array
  note: 'call' | 'create' | 'suicide'
}

function note({message, execution, internals}: Frame, {to, value, data, note}: Noted): Internal {
  execution.internalCount += 1
  const receiver = bytesOf(addressIn(to))
  const parts = [
    message.hash,
    note === 'create' ? noBytes : receiver,
    data,
    bytesOfWord(value, 8),
    bytesOfWord(BigInt(execution.internalCount), 8),
  ]
  const internal: Internal = {
    hash: keccak256(Buffer.concat(parts), 'bytes'),
    from: bytesOf(addressIn(message.address)),
    to: receiver,
    note,
    isRejected: false,
    values: [{amount: value, token: ''}],
  }
  internals.push(internal)
  return internal
}

// Creations
// ---------------------------------------------------------------------------------------------------------------------

function creation(name: 'CREATE' | 'CREATE2'): Operation {
  const isSalted = name === 'CREATE2'
  return {
    name,
    pops: isSalted ? 4 : 3,
    pushes: 1,
    energy(frame) {
      const length = frame.peek(2)
      const memory = frame.memoryEnergy(name, [frame.peek(1), length])
      return creationEnergy + memory + (isSalted ? 6 * Math.ceil(Number(length) / 32) : 0)
    },
    run(frame) {
      frame.assertMayChange()
      const value = frame.pop()
      const code = frame.read(frame.pop(), frame.pop())
      const salt = isSalted ? bytesOfWord(frame.pop()) : undefined
      frame.returned = noBytes
      frame.push(create(frame, {value, code, salt}))
    },
  }
}

/** The address of a contract that another contract creates. */
function newAddress({message, execution}: Frame, code: Uint8Array, salt: Uint8Array | undefined): bigint {
  const seed = salt
    ? [bytesOf(addressIn(message.address)), salt, keccak256(code, 'bytes')]
    : [execution.txid, bytesOfWord(BigInt(execution.internalCount), 8)]
  return wordOf(keccak256(Buffer.concat(seed), 'bytes').subarray(12))
}

/** Returns its address; zero if there is none. */
function create(
  frame: Frame,
  {value, code, salt}: {value: bigint; code: Uint8Array; salt: Uint8Array | undefined},
): bigint {
  const {message, execution} = frame
  const creator = addressIn(message.address)
  if (value > largestAmount) throw new Failure('UNKNOWN', 'BigInteger out of long range')
  const isPayable = (frame.state.account(creator)?.balance ?? 0n) >= value
  if (message.depth === mostDepth || !isPayable) return 0n
  const address = newAddress(frame, code, salt)
  const state = frame.state.fork()
  const exists = state.contract(addressIn(address)) !== undefined
  state.add(addressIn(address), 0n)
  if (!exists) state.setContract(addressIn(address), {code: noBytes, creator})
  if (value > 0n) move(state, {from: message.address, to: address, value})
  const energy = frame.left - Math.floor(frame.left / 64)
  frame.spend(energy, 0, 'internal call')
  const internal = note(frame, {to: address, value, data: code, note: 'create'})
  const {isStatic, depth} = message
  const inside = {caller: message.address, address, value, data: noBytes, isStatic, depth: depth + 1}
  const run = () => execution.run({...inside, code, energy, hash: internal.hash}, state)
  const outcome = exists ? taken(energy) : saveCode(run(), {state, address: addressIn(address), energy})
  take(frame, internal, {state, outcome})
  if (outcome.failure) return 0n // it used all of its energy
  if (outcome.isReverted) frame.returned = outcome.data
  frame.used -= energy - outcome.used
  return outcome.isReverted ? 0n : address
}

/** Of a creation where there is a contract already. */
function taken(energy: number): Outcome {
  const failure = new Failure('UNKNOWN', 'Trying to create a contract with existing contract address')
  return {...none, failure, isReverted: false, used: energy}
}

/** Makes what a creation returned the code of the contract. */
export function saveCode(
  outcome: Outcome,
  {state, address, energy}: {state: State; address: string; energy: number},
): Outcome {
  if (hasFailed(outcome)) return outcome
  const {data: code, used} = outcome
  const cost = code.length * codeByteEnergy
  const fail = (failure: Failure) => ({...outcome, failure, data: noBytes, used: energy})
  if (code[0] === 0xef) return fail(new Failure('INVALID_CODE', 'invalid code: must not begin with 0xef'))
  if (used + cost > energy)
    return fail(
      new Failure(
        'OUT_OF_ENERGY',
        `Not enough energy for 'save just created contract code' executing: needEnergy[${cost}], leftEnergy[${energy - used}];`,
      ),
    )
  state.setContract(address, {...state.contract(address)!, code})
  return {...outcome, used: used + cost}
}

// Ends
// ---------------------------------------------------------------------------------------------------------------------

function end(frame: Frame): void {
  frame.assertMayChange()
  const {state, message} = frame
  const own = addressIn(message.address)
  const heir = addressIn(frame.pop())
  const balance = state.account(own)?.balance ?? 0n
  note(frame, {to: wordOfAddress(heir), value: balance, data: noBytes, note: 'suicide'})
  state.add(own, -balance)
  if (heir !== own) state.add(heir, balance) // else it is burnt
  frame.removed.push(own)
  frame.isStopped = true
}
