// The operations of the virtual machine that stay within one call, with what each costs by java-tron's table. It
// differs from Ethereum's: there are no lists of accessed slots, SLOAD costs 50, copies and MLOAD have no cost of their
// own, and nothing is given back.
import {keccak256} from 'viem/utils'
import {addressOf} from '../../../chains/tron/address.ts'
import {Failure, type Frame} from './frame.ts'
import {addressIn, bytesOfWord, power, signed, slice, wordOf, wordOfAddress, wrap} from './words.ts'

export interface Operation {
  name: string
  /** How many words it takes from the stack, and puts there. */
  pops: number
  pushes: number
  energy(frame: Frame): number
  run(frame: Frame): void
  /** It gives energy to another call, and finds its own penalty. */
  isCall?: boolean
}

export type Table = Map<number, Operation>

const chainIdBytes = 4
const wordsIn = (length: bigint) => Math.ceil(Number(length) / 32)
const keccak = (bytes: Uint8Array) => keccak256(bytes, 'bytes')
const flag = (condition: boolean) => (condition ? 1n : 0n)

/** `chainId` is the id of the first block, in hex. */
export function localOperations(chainId: string): Table {
  const table: Table = new Map()
  addArithmetic(table)
  addReads(table, wordOf(Buffer.from(chainId, 'hex').subarray(-chainIdBytes)))
  addMemory(table)
  addStorage(table)
  addFlow(table)
  addStack(table)
  addLogs(table)
  return table
}

/** An operation on words alone. */
function pure(
  table: Table,
  code: number,
  [name, cost]: [string, number],
  compute: (...words: bigint[]) => bigint,
): void {
  const pops = compute.length
  table.set(code, {
    name,
    pops,
    pushes: 1,
    energy: () => cost,
    run(frame) {
      const words = Array.from({length: pops}, () => frame.pop())
      frame.push(compute(...words))
    },
  })
}

function addArithmetic(table: Table): void {
  pure(table, 0x01, ['ADD', 3], (a, b) => wrap(a + b))
  pure(table, 0x02, ['MUL', 5], (a, b) => wrap(a * b))
  pure(table, 0x03, ['SUB', 3], (a, b) => wrap(a - b))
  pure(table, 0x04, ['DIV', 5], (a, b) => (b === 0n ? 0n : a / b))
  pure(table, 0x05, ['SDIV', 5], (a, b) => (b === 0n ? 0n : wrap(signed(a) / signed(b))))
  pure(table, 0x06, ['MOD', 5], (a, b) => (b === 0n ? 0n : a % b))
  pure(table, 0x07, ['SMOD', 5], (a, b) => (b === 0n ? 0n : wrap(signed(a) % signed(b))))
  pure(table, 0x08, ['ADDMOD', 8], (a, b, n) => (n === 0n ? 0n : (a + b) % n))
  pure(table, 0x09, ['MULMOD', 8], (a, b, n) => (n === 0n ? 0n : (a * b) % n))
  pure(table, 0x0a, ['EXP', 0], power)
  table.get(0x0a)!.energy = frame => {
    const exponent = frame.peek(1)
    return 10 + 10 * (exponent === 0n ? 0 : Math.ceil(exponent.toString(16).length / 2))
  }
  pure(table, 0x0b, ['SIGNEXTEND', 5], (k, word) => (k > 30n ? word : wrap(BigInt.asIntN(8 * (Number(k) + 1), word))))
  pure(table, 0x10, ['LT', 3], (a, b) => flag(a < b))
  pure(table, 0x11, ['GT', 3], (a, b) => flag(a > b))
  pure(table, 0x12, ['SLT', 3], (a, b) => flag(signed(a) < signed(b)))
  pure(table, 0x13, ['SGT', 3], (a, b) => flag(signed(a) > signed(b)))
  pure(table, 0x14, ['EQ', 3], (a, b) => flag(a === b))
  pure(table, 0x15, ['ISZERO', 3], a => flag(a === 0n))
  pure(table, 0x16, ['AND', 3], (a, b) => a & b)
  pure(table, 0x17, ['OR', 3], (a, b) => a | b)
  pure(table, 0x18, ['XOR', 3], (a, b) => a ^ b)
  pure(table, 0x19, ['NOT', 3], a => wrap(~a))
  pure(table, 0x1a, ['BYTE', 3], (i, word) => (i > 31n ? 0n : (word >> (8n * (31n - i))) & 0xffn))
  pure(table, 0x1b, ['SHL', 3], (by, word) => (by > 255n ? 0n : wrap(word << by)))
  pure(table, 0x1c, ['SHR', 3], (by, word) => (by > 255n ? 0n : word >> by))
  pure(table, 0x1d, ['SAR', 3], (by, word) => wrap(signed(word) >> (by > 255n ? 255n : by)))
}

/** An operation that puts a word on the stack. */
function read(table: Table, code: number, [name, cost]: [string, number], find: (frame: Frame) => bigint): void {
  table.set(code, {name, pops: 0, pushes: 1, energy: () => cost, run: frame => frame.push(find(frame))})
}

/** An operation that replaces a word. */
function lookUp(
  table: Table,
  code: number,
  [name, cost]: [string, number],
  find: (frame: Frame, word: bigint) => bigint,
): void {
  table.set(code, {
    name,
    pops: 1,
    pushes: 1,
    energy: () => cost,
    run: frame => frame.push(find(frame, frame.pop())),
  })
}

const balanceOf = ({state}: Frame, word: bigint) => state.account(addressIn(word))?.balance ?? 0n
const codeOf = ({state}: Frame, word: bigint) => state.contract(addressIn(word))?.code ?? new Uint8Array()

function addReads(table: Table, chainId: bigint): void {
  read(table, 0x30, ['ADDRESS', 2], ({message}) => message.address)
  lookUp(table, 0x31, ['BALANCE', 20], balanceOf)
  read(table, 0x32, ['ORIGIN', 2], ({execution}) => execution.origin)
  read(table, 0x33, ['CALLER', 2], ({message}) => message.caller)
  read(table, 0x34, ['CALLVALUE', 2], ({message}) => message.value)
  lookUp(table, 0x35, ['CALLDATALOAD', 3], ({message}, offset) => wordOf(slice(message.data, offset, 32)))
  read(table, 0x36, ['CALLDATASIZE', 2], ({message}) => BigInt(message.data.length))
  read(table, 0x38, ['CODESIZE', 2], ({message}) => BigInt(message.code.length))
  read(table, 0x3a, ['GASPRICE', 2], ({execution}) => execution.energyPrice)
  lookUp(table, 0x3b, ['EXTCODESIZE', 20], (frame, word) => BigInt(codeOf(frame, word).length))
  read(table, 0x3d, ['RETURNDATASIZE', 2], ({returned}) => BigInt(returned.length))
  lookUp(table, 0x3f, ['EXTCODEHASH', 400], (frame, word) =>
    frame.state.account(addressIn(word)) ? wordOf(keccak(codeOf(frame, word))) : 0n,
  )
  lookUp(table, 0x40, ['BLOCKHASH', 20], blockHash)
  read(table, 0x41, ['COINBASE', 2], ({execution: {surroundings}}) =>
    wordOfAddress(addressOf(Buffer.from(surroundings.witness, 'hex'))),
  )
  read(table, 0x42, ['TIMESTAMP', 2], ({execution}) => BigInt(Math.floor(execution.surroundings.time / 1000)))
  read(table, 0x43, ['NUMBER', 2], ({execution}) => BigInt(execution.surroundings.height))
  read(table, 0x44, ['DIFFICULTY', 2], () => 0n)
  read(table, 0x45, ['GASLIMIT', 2], () => 0n)
  read(table, 0x46, ['CHAINID', 2], () => chainId)
  read(table, 0x47, ['SELFBALANCE', 5], frame => balanceOf(frame, frame.message.address))
  read(table, 0x48, ['BASEFEE', 2], ({execution}) => execution.energyPrice)
  lookUp(table, 0x49, ['BLOBHASH', 3], () => 0n)
  read(table, 0x4a, ['BLOBBASEFEE', 2], () => 0n)
  // Tokens of Tron's own (TRC-10), of which a local chain has none.
  pure(table, 0xd1, ['TOKENBALANCE', 20], (_token, _address) => 0n)
  read(table, 0xd2, ['CALLTOKENVALUE', 2], () => 0n)
  read(table, 0xd3, ['CALLTOKENID', 2], () => 0n)
  lookUp(table, 0xd4, ['ISCONTRACT', 20], ({state}, word) => flag(state.contract(addressIn(word)) !== undefined))
}

function blockHash({execution: {surroundings}}: Frame, index: bigint): bigint {
  const height = BigInt(surroundings.height)
  if (index >= height || index < height - 256n) return 0n
  const hash = surroundings.hashAt(Number(index))
  return hash === undefined ? 0n : BigInt(`0x${hash}`)
}

/** Copies bytes into memory: `before` words are on the stack before the place in memory. */
function copy(
  table: Table,
  code: number,
  {name, before = 0, cost = 0}: {name: string; before?: number; cost?: number},
  from: (frame: Frame, word: bigint) => Uint8Array,
): void {
  table.set(code, {
    name,
    pops: before + 3,
    pushes: 0,
    energy(frame) {
      const [to, length] = [frame.peek(before), frame.peek(before + 2)]
      return cost + frame.memoryEnergy(name, [to, length]) + 3 * wordsIn(length)
    },
    run(frame) {
      const source = from(frame, before ? frame.pop() : 0n)
      const [to, offset, length] = [frame.pop(), frame.pop(), frame.pop()]
      if (length > 0n) frame.memory.write(Number(to), slice(source, offset, Number(length)))
    },
  })
}

function addMemory(table: Table): void {
  copy(table, 0x37, {name: 'CALLDATACOPY'}, ({message}) => message.data)
  copy(table, 0x39, {name: 'CODECOPY'}, ({message}) => message.code)
  copy(table, 0x3c, {name: 'EXTCODECOPY', before: 1, cost: 20}, codeOf)
  copy(table, 0x3e, {name: 'RETURNDATACOPY'}, frame => {
    const [offset, length] = [frame.peek(1), frame.peek(2)]
    if (offset + length <= BigInt(frame.returned.length)) return frame.returned
    throw new Failure('UNKNOWN', `cannot copy ${length} bytes from ${offset} of what was returned`)
  })
  table.set(0x20, {
    name: 'SHA3',
    pops: 2,
    pushes: 1,
    energy: frame => 30 + frame.memoryEnergy('SHA3', [frame.peek(0), frame.peek(1)]) + 6 * wordsIn(frame.peek(1)),
    run: frame => frame.push(wordOf(keccak(frame.read(frame.pop(), frame.pop())))),
  })
  table.set(0x51, {
    name: 'MLOAD',
    pops: 1,
    pushes: 1,
    energy: frame => frame.memoryEnergy('MLOAD', [frame.peek(0), 32n]),
    run: frame => frame.push(wordOf(frame.read(frame.pop(), 32n))),
  })
  addStore(table, 0x52, 'MSTORE', 32)
  addStore(table, 0x53, 'MSTORE8', 1)
  table.set(0x5e, {
    name: 'MCOPY',
    pops: 3,
    pushes: 0,
    energy(frame) {
      const [to, from, length] = [frame.peek(0), frame.peek(1), frame.peek(2)]
      return 3 + frame.memoryEnergy('MCOPY', [to, length], [from, length]) + 3 * wordsIn(length)
    },
    run(frame) {
      const [to, from, length] = [frame.pop(), frame.pop(), frame.pop()]
      if (length > 0n) frame.memory.write(Number(to), frame.read(from, length))
    },
  })
}

function addStore(table: Table, code: number, name: string, length: number): void {
  table.set(code, {
    name,
    pops: 2,
    pushes: 0,
    energy: frame => frame.memoryEnergy(name, [frame.peek(0), BigInt(length)]),
    run(frame) {
      const [offset, word] = [frame.pop(), frame.pop()]
      frame.memory.write(Number(offset), bytesOfWord(word, length))
    },
  })
}

const own = ({message}: Frame) => addressIn(message.address)

function addStorage(table: Table): void {
  lookUp(table, 0x54, ['SLOAD', 50], (frame, key) => frame.state.stored(own(frame), key) ?? 0n)
  table.set(0x55, {
    name: 'SSTORE',
    pops: 2,
    pushes: 0,
    energy(frame) {
      const isNew = frame.state.stored(own(frame), frame.peek(0)) === undefined
      return isNew && frame.peek(1) !== 0n ? 20_000 : 5000
    },
    run(frame) {
      frame.assertMayChange()
      frame.state.store(own(frame), frame.pop(), frame.pop())
    },
  })
  lookUp(table, 0x5c, ['TLOAD', 100], (frame, key) => frame.state.transient(own(frame), key))
  table.set(0x5d, {
    name: 'TSTORE',
    pops: 2,
    pushes: 0,
    energy: () => 100,
    run(frame) {
      frame.assertMayChange()
      frame.state.setTransient(own(frame), frame.pop(), frame.pop())
    },
  })
}

function addFlow(table: Table): void {
  const plain = (code: number, [name, cost]: [string, number], run: (frame: Frame) => void) =>
    table.set(code, {name, pops: 0, pushes: 0, energy: () => cost, run})
  plain(0x00, ['STOP', 0], frame => {
    frame.isStopped = true
  })
  plain(0x5b, ['JUMPDEST', 1], () => {})
  table.set(0x56, {name: 'JUMP', pops: 1, pushes: 0, energy: () => 8, run: frame => jump(frame, frame.pop())})
  table.set(0x57, {
    name: 'JUMPI',
    pops: 2,
    pushes: 0,
    energy: () => 10,
    run(frame) {
      const [to, condition] = [frame.pop(), frame.pop()]
      if (condition !== 0n) jump(frame, to)
    },
  })
  read(table, 0x58, ['PC', 2], ({pc}) => BigInt(pc - 1))
  read(table, 0x59, ['MSIZE', 2], ({memory}) => BigInt(memory.size))
  read(table, 0x5a, ['GAS', 2], ({left}) => BigInt(left))
  addEnd(table, 0xf3, 'RETURN')
  addEnd(table, 0xfd, 'REVERT')
}

function addEnd(table: Table, code: number, name: 'RETURN' | 'REVERT'): void {
  table.set(code, {
    name,
    pops: 2,
    pushes: 0,
    energy: frame => frame.memoryEnergy(name, [frame.peek(0), frame.peek(1)]),
    run(frame) {
      frame.data = frame.read(frame.pop(), frame.pop())
      frame.isReverted = name === 'REVERT'
      frame.isStopped = true
    },
  })
}

/** The places in a code where jumps may end. */
const destinations = new WeakMap<Uint8Array, Set<number>>()

function destinationsIn(code: Uint8Array): Set<number> {
  const known = destinations.get(code)
  if (known) return known
  const found = new Set<number>()
  for (let i = 0; i < code.length; i++) {
    const operation = code[i]!
    if (operation === 0x5b) found.add(i)
    if (operation >= 0x60 && operation <= 0x7f) i += operation - 0x5f
  }
  destinations.set(code, found)
  return found
}

function jump(frame: Frame, to: bigint): void {
  if (to > 0xffff_ffffn || !destinationsIn(frame.message.code).has(Number(to)))
    throw new Failure('BAD_JUMP_DESTINATION', `Operation with pc isn't 'JUMPDEST': PC[${BigInt.asIntN(32, to)}];`)
  frame.pc = Number(to)
}

function addStack(table: Table): void {
  table.set(0x50, {name: 'POP', pops: 1, pushes: 0, energy: () => 2, run: frame => void frame.pop()})
  for (let length = 0; length <= 32; length++)
    table.set(0x5f + length, {
      name: `PUSH${length}`,
      pops: 0,
      pushes: 1,
      energy: () => (length ? 3 : 2),
      run(frame) {
        frame.push(wordOf(slice(frame.message.code, BigInt(frame.pc), length)))
        frame.pc += length
      },
    })
  for (let depth = 1; depth <= 16; depth++) {
    table.set(0x7f + depth, {
      name: `DUP${depth}`,
      pops: depth,
      pushes: depth + 1,
      energy: () => 3,
      run: frame => frame.push(frame.peek(depth - 1)),
    })
    table.set(0x8f + depth, {
      name: `SWAP${depth}`,
      pops: depth + 1,
      pushes: depth + 1,
      energy: () => 3,
      run({stack}) {
        const [top, other] = [stack.length - 1, stack.length - 1 - depth]
        const word = stack[top]!
        stack[top] = stack[other]!
        stack[other] = word
      },
    })
  }
}

function addLogs(table: Table): void {
  for (let topics = 0; topics <= 4; topics++)
    table.set(0xa0 + topics, {
      name: `LOG${topics}`,
      pops: 2 + topics,
      pushes: 0,
      energy(frame) {
        const length = frame.peek(1)
        const memory = frame.memoryEnergy(`LOG${topics}`, [frame.peek(0), length])
        return 375 + 375 * topics + 8 * Number(length) + memory
      },
      run(frame) {
        frame.assertMayChange()
        const data = frame.read(frame.pop(), frame.pop())
        const words = Array.from({length: topics}, () => bytesOfWord(frame.pop()))
        frame.logs.push({address: bytesOfWord(frame.message.address, 20), topics: words, data})
      },
    })
}
