// One call in the virtual machine while it runs: its stack and memory, the energy that it used, and what it did. What
// it changed counts when its outcome is taken.
import type {Log, Internal as ShownInternal} from '../../../chains/tron/responses.ts'
import type {ContractResult} from '../../../chains/tron/transaction.ts'
import type {State} from '../state.ts'
import {Memory} from './memory.ts'

const mostStack = 1024
const mostMemory = 3n * 1024n * 1024n
/** Factors of energy are ten-thousandths. */
export const wholeFactor = 10_000

export interface Internal extends ShownInternal {
  hash: Uint8Array
}

/** What a contract can see of the chain. */
export interface Surroundings {
  height: number
  /** In ms. */
  time: number
  /** Of the witness, in hex. */
  witness: string
  /** Of the block at a height, in hex; undefined if there is none. */
  hashAt(height: number): string | undefined
  /** What its energy costs more, in ten-thousandths. */
  energyFactor(contract: string): number
}

/** A call, or a creation: addresses are words. */
export interface Message {
  caller: bigint
  /** Whose state and balance it has. */
  address: bigint
  code: Uint8Array
  value: bigint
  data: Uint8Array
  energy: number
  isStatic: boolean
  depth: number
  /** The hash of the transaction, or of the internal one, that it is. */
  hash: Uint8Array
}

export interface Outcome {
  /** Undefined unless it failed in another way than by REVERT. */
  failure?: Failure
  isReverted: boolean
  data: Uint8Array
  used: number
  /** The part of it that a busy contract costs more. */
  penalty: number
  logs: Log[]
  internals: Internal[]
  /** Contracts that ended themselves. */
  removed: string[]
}

export const hasFailed = ({failure, isReverted}: Outcome): boolean => failure !== undefined || isReverted

/** Ends a call that uses up its energy, unless it keeps the rest. */
export class Failure extends Error {
  override name = 'Failure'
  readonly result: ContractResult
  readonly keepsEnergy: boolean

  constructor(result: ContractResult, message: string, {keepsEnergy} = {keepsEnergy: false}) {
    super(message)
    this.result = result
    this.keepsEnergy = keepsEnergy
  }
}

/** What a call needs of the transaction that it belongs to. */
export interface Execution {
  readonly txid: Uint8Array
  readonly origin: bigint
  readonly surroundings: Surroundings
  readonly energyPrice: bigint
  /** How many internal transactions there were. */
  internalCount: number
  run(message: Message, state: State): Outcome
}

export class Frame {
  readonly message: Message
  readonly state: State
  readonly execution: Execution
  readonly memory = new Memory()
  readonly stack: bigint[] = []
  /** In ten-thousandths. */
  readonly factor: number
  pc = 0
  isStopped = false
  isReverted = false
  used = 0
  penalty = 0
  /** What it returns. */
  data: Uint8Array = new Uint8Array()
  /** What the last call that it made returned. */
  returned: Uint8Array = new Uint8Array()
  /** Of the call that it makes now: the energy that goes with it, and the penalty on the rest. */
  forwarded = 0
  callPenalty = 0
  readonly logs: Log[] = []
  readonly internals: Internal[] = []
  readonly removed: string[] = []

  constructor(message: Message, {state, execution, factor}: {state: State; execution: Execution; factor: number}) {
    this.message = message
    this.state = state
    this.execution = execution
    this.factor = factor
  }

  get left(): number {
    return this.message.energy - this.used
  }

  pop(): bigint {
    return this.stack.pop()!
  }

  push(word: bigint): void {
    this.stack.push(word)
  }

  /** The word so far below the top. */
  peek(below: number): bigint {
    return this.stack[this.stack.length - 1 - below]!
  }

  checkStack(pops: number, pushes: number): void {
    const {length} = this.stack
    if (length < pops) throw new Failure('STACK_TOO_SMALL', `Expected stack size ${pops} but actual ${length};`)
    if (length - pops + pushes > mostStack)
      throw new Failure('STACK_TOO_LARGE', `Expected: overflow ${mostStack} elements stack limit`)
  }

  spend(energy: number, penalty: number, operation: string): void {
    if (this.left < energy) {
      const penalised = this.factor > wholeFactor ? ` penaltyEnergy[${penalty}],` : ''
      throw new Failure(
        'OUT_OF_ENERGY',
        `Not enough energy for '${operation}' operation executing: curInvokeEnergyLimit[${this.message.energy}], curOpEnergy[${energy - penalty}],${penalised} usedEnergy[${this.used}]`,
      )
    }
    this.used += energy
    this.penalty += penalty
  }

  /** What it costs to have memory up to the end of each of these ranges. */
  memoryEnergy(operation: string, ...ranges: [offset: bigint, length: bigint][]): number {
    const ends = ranges.map(([offset, length]) => (length === 0n ? 0n : offset + length))
    if (ends.some(end => end > mostMemory))
      throw new Failure('OUT_OF_MEMORY', `Out of Memory when '${operation}' operation executing`)
    const words = Math.max(...ends.map(end => Math.ceil(Number(end) / 32)))
    const had = this.memory.size / 32
    return words > had ? memoryEnergy(words) - memoryEnergy(had) : 0
  }

  /** Reads a range that was paid for. */
  read(offset: bigint, length: bigint): Uint8Array {
    return length === 0n ? new Uint8Array() : this.memory.read(Number(offset), Number(length))
  }

  assertMayChange(): void {
    if (this.message.isStatic)
      throw new Failure('UNKNOWN', 'Attempt to call a state modifying opcode inside STATICCALL')
  }

  outcome(): Outcome {
    const {isReverted, data, used, penalty, logs, internals, removed} = this
    return {isReverted, data, used, penalty, logs, internals, removed}
  }
}

function memoryEnergy(words: number): number {
  return 3 * words + Math.floor((words * words) / 512)
}
