// The virtual machine against anvil, which others wrote: where Tron's rules are Ethereum's, both must find the same.
import {mkdtemp, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {signRecoverable} from 'tiny-secp256k1'
import {decodeFunctionResult, encodeFunctionData, type Hex, numberToHex} from 'viem'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {z} from 'zod'
import {sha256} from '../../../chains/tron/address.ts'
import {Anvil} from '../../evm/anvil.ts'
import {faucetKey} from '../constants.ts'
import compiled from '../contracts.json' with {type: 'json'}
import {newAccount, State} from '../state.ts'
import type {Outcome} from './frame.ts'
import {Machine} from './machine.ts'
import {addressIn, bytesOfWord, wrap} from './words.ts'

const [caller, contract] = [0x1111n, 0x222_2222_2222n]
const energy = 100_000_000
const address = (word: bigint) => numberToHex(word, {size: 20})
const bytes = (hex: string) => Buffer.from(hex.replace('0x', ''), 'hex')
const hex = (found: Uint8Array): Hex => `0x${Buffer.from(found).toString('hex')}`

let directory: string
let anvil: Anvil
beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'sluice-machine-'))
  anvil = await Anvil.start(directory, {chainId: 1, genesis: 1})
})
afterAll(async () => {
  await anvil.kill()
  await rm(directory, {recursive: true, force: true})
})

interface Program {
  code: Uint8Array
  data?: Uint8Array
  value?: bigint
}

async function onAnvil({code, data = new Uint8Array(), value = 0n}: Program): Promise<string> {
  const call = {
    from: address(caller),
    to: address(contract),
    data: hex(data),
    value: numberToHex(value),
    gas: numberToHex(energy),
    gasPrice: '0x0',
  }
  const overrides = {
    [address(caller)]: {balance: numberToHex(10n ** 20n)},
    [address(contract)]: {code: hex(code)},
  }
  return z.string().parse(await anvil.call('eth_call', [call, 'latest', overrides]))
}

function here({code, data = new Uint8Array(), value = 0n}: Program, limit = energy): Outcome {
  const state = new State({account: () => undefined, other: () => undefined})
  state.setAccount(addressIn(contract), {...newAccount, balance: value})
  state.setContract(addressIn(contract), {code, creator: addressIn(caller)})
  const surroundings = {height: 9, time: 9000, witness: '', hashAt: () => undefined, energyFactor: () => 0}
  const machine = new Machine({txid: new Uint8Array(32), origin: caller, surroundings, energyPrice: 1n})
  const message = {caller, address: contract, code, data, value, energy: limit, isStatic: false, depth: 0}
  return machine.run({...message, hash: new Uint8Array(32)}, state)
}

const push = (word: bigint) => [0x7f, ...bytesOfWord(word)]
const store = (place: number) => [...push(BigInt(32 * place)), 0x52]
const giveBack = (words: number) => [...push(BigInt(32 * words)), 0x5f, 0xf3]

const words = [
  0n,
  1n,
  2n,
  5n,
  30n,
  31n,
  32n,
  255n,
  256n,
  2n ** 128n - 1n,
  2n ** 255n,
  2n ** 256n - 1n,
  wrap(-2n),
  3n ** 160n,
]
const few = [0n, 1n, 7n, 2n ** 255n + 3n, 2n ** 256n - 1n]

/** One program that applies an operation to each list of words. */
function applied(operation: number, lists: bigint[][]): Uint8Array {
  const each = lists.flatMap((list, i) => [...list.toReversed().flatMap(push), operation, ...store(i)])
  return Uint8Array.from([...each, ...giveBack(lists.length)])
}

const unary = [0x15, 0x19, 0x35]
const binary = [
  0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x0a, 0x0b, 0x10, 0x11, 0x12, 0x13, 0x14, 0x16, 0x17, 0x18, 0x1a, 0x1b,
  0x1c, 0x1d,
]
const ternary = [0x08, 0x09]

test.each([
  ...unary.map(operation => [operation, words.map(a => [a])] as const),
  ...binary.map(operation => [operation, words.flatMap(a => words.map(b => [a, b]))] as const),
  ...ternary.map(operation => [operation, few.flatMap(a => few.flatMap(b => few.map(c => [a, b, c])))] as const),
])('operation %s of words gives the same', async (operation, lists) => {
  const program = {code: applied(operation, lists), data: sha256(Buffer.from('some data'))}
  expect(hex(here(program).data)).toBe(await onAnvil(program))
})

/** A random number below a limit, the same in every run. */
function random(seed: number): (limit: number) => number {
  let state = seed
  return limit => {
    state = Number((BigInt(state) * 6364136223846793005n + 1442695040888963407n) & 0x7fff_ffff_ffffn)
    return Math.floor(state / 65_536) % limit
  }
}

/** A program of random operations on the stack and memory that returns both. */
function randomProgram(seed: number): Uint8Array {
  const next = random(seed)
  const depth = 12
  const code = Array.from({length: depth}, () => push(words[next(words.length)]!)).flat()
  const place = () => [0x61, next(3), next(256)] // PUSH2, below 768
  const short = () => [0x60, next(100)]
  const moves: (() => number[])[] = [
    () => [0x80 + next(depth), binary[next(binary.length)]!], // DUP, and two words become one
    () => [0x90 + next(depth - 1)],
    () => [...place(), 0x52, ...place(), 0x51],
    () => [0x80 + next(depth), ...place(), 0x53],
    () => [...short(), ...place(), 0x20, 0x90 + next(depth - 1), 0x50],
    () => [...short(), ...place(), ...place(), 0x5e],
    () => [...short(), ...short(), ...place(), 0x37],
    () => [...short(), ...short(), ...place(), 0x39],
    () => [[0x59, 0x36, 0x38, 0x58][next(4)]!, 0x90 + next(depth - 1), 0x50],
  ]
  for (let i = 0; i < 60; i++) code.push(...moves[next(moves.length)]!())
  for (let i = 0; i < depth; i++) code.push(0x61, 4 + (i >> 3), (32 * i) & 255, 0x52) // from 1024 on
  return Uint8Array.from([...code, 0x61, 5, 128, 0x5f, 0xf3])
}

test('random programs return the same', async () => {
  const data = sha256(Buffer.from('calldata'))
  for (let seed = 1; seed <= 200; seed++) {
    const program = {code: randomProgram(seed), data}
    const {failure, data: found} = here(program)
    expect(failure, `seed ${seed}`).toBeUndefined()
    expect(hex(found), `seed ${seed}`).toBe(await onAnvil(program))
  }
})

test('contracts that create and call each other, and fail, find the same', async () => {
  const {abi, bytecode} = compiled.Probe
  const text = Buffer.from('What two machines must agree on, in more than thirty-two bytes.')
  const digest = sha256(text)
  const {signature, recoveryId} = signRecoverable(digest, faucetKey)
  const [r, s] = [signature.subarray(0, 32), signature.subarray(32)]
  const args = [hex(text), hex(digest), 27 + recoveryId, hex(r), hex(s)]
  const data = bytes(encodeFunctionData({abi, functionName: 'probe', args}))
  const {data: code} = here({code: bytes(bytecode)})
  const program = {code, data, value: 100n}
  const outcome = here(program)
  const shown = (found: Hex) => decodeFunctionResult({abi, functionName: 'probe', data: found})
  expect(shown(hex(outcome.data))).toEqual(shown((await onAnvil(program)) as Hex))
})

test('operations that Tron alone has see no tokens, and know contracts', () => {
  const ask = (operation: number, ...words: number[]) => {
    const code = Uint8Array.from([...words.flatMap(word => [0x60, word]), operation, ...store(0), ...giveBack(1)])
    return BigInt(hex(here({code}).data))
  }
  const isContract = Uint8Array.from([0x30, 0xd4, ...store(0), ...giveBack(1)])
  expect([ask(0xd2), ask(0xd3), ask(0xd1, 1, 1), ask(0xd4, 9)]).toEqual([0n, 0n, 0n, 0n])
  expect(BigInt(hex(here({code: isContract}).data))).toBe(1n)
})

test.each<[string, number[], string, boolean]>([
  ['an unknown operation', [0x0c], 'ILLEGAL_OPERATION', true],
  ['a jump to nowhere', [0x60, 1, 0x56], 'BAD_JUMP_DESTINATION', true],
  ['a jump into a constant', [0x60, 4, 0x56, 0x60, 0x5b], 'BAD_JUMP_DESTINATION', true],
  ['too few words', [0x01], 'STACK_TOO_SMALL', true],
  ['too many words', [0x5b, 0x5f, 0x5f, 0x56], 'STACK_TOO_LARGE', true],
  ['too much memory', [0x62, 0x40, 0, 0, 0x51], 'OUT_OF_MEMORY', true],
  ['no end', [0x5b, 0x5f, 0x56], 'OUT_OF_TIME', true],
  [
    'a built-in contract that is not here',
    [0x5f, 0x5f, 0x5f, 0x5f, 0x5f, 0x60, 8, 0x5a, 0xf1],
    'PRECOMPILED_CONTRACT',
    true,
  ],
  ['a payment to itself', [0x5f, 0x5f, 0x5f, 0x5f, 0x60, 1, 0x30, 0x5a, 0xf1], 'TRANSFER_FAILED', false],
])('%s ends a call as it is named on Tron', (_, code, result, usesAll) => {
  const {failure, used} = here({code: Uint8Array.from(code), value: 5n})
  expect(failure?.result).toBe(result)
  expect(used === energy).toBe(usesAll)
})
