// What a Tron block says about addresses, in cases that the local chain has not.
import {randomBytes} from 'node:crypto'
import {expect, test} from 'vitest'
import {addressOf, bytesOf, sha256} from '../../chains/tron/address.ts'
import {encode} from '../../chains/tron/protobuf.ts'
import type {Info} from '../../chains/tron/responses.ts'
import {type ContractResult, contractTypes, type Transaction, transactionOf} from '../../chains/tron/transaction.ts'
import {hidesInternals, readBlock} from './read-block.ts'

const someBytes = () => Uint8Array.of(0x41, ...randomBytes(20))
const [from, to, contract] = [someBytes(), someBytes(), someBytes()]
const names = {sender: addressOf(from), recipientKey: addressOf(to)}

function transaction(
  type: number,
  fields: Parameters<typeof encode>[0],
  result: ContractResult = 'SUCCESS',
): Transaction {
  const parameter = encode([[2, encode(fields)]])
  const raw = encode([
    [
      11,
      encode([
        [1, BigInt(type)],
        [2, parameter],
      ]),
    ],
  ])
  return transactionOf(raw, [], result)
}

function read(one: Transaction, more: Partial<Info> = {}) {
  const {txid} = one
  const nothing = {height: 5, time: 9, fee: 3n, hasFailed: false, contract: new Uint8Array(), internals: [], logs: []}
  const header = {height: 5, time: 9, parentHash: '', txTrieRoot: '', witness: '', witnessId: 0n, version: 0n}
  const block = {...header, accountStateRoot: '', hash: 'h', transactions: [one]}
  return readBlock(block, new Map([[txid, {...nothing, txid, ...more}]]), {native: 'TRX', tokens: new Map()})
}
const transfer = (amount: bigint, result?: ContractResult) =>
  transaction(
    contractTypes.transfer,
    [
      [1, from],
      [2, to],
      [3, amount],
    ],
    result,
  )

test('a payment of a TRC-10 token is no TRX', () => {
  const one = transaction(contractTypes.transferAsset, [
    [1, Buffer.from('1002000')],
    [2, from],
    [3, to],
    [4, 7n],
  ])
  const {candidates, sent} = read(one)
  expect(candidates).toEqual([
    {txid: one.txid, outputIndex: 0, kind: 'token', token: 'TRC10:1002000', amount: 7n, ...names},
  ])
  expect(sent).toMatchObject([{senderKey: names.sender}])
  const named = transaction(contractTypes.transferAsset, [
    [1, Buffer.from('a\0')],
    [2, from],
    [3, to],
    [4, 7n],
  ])
  expect(read(named).candidates).toMatchObject([{token: 'TRC10:6100'}])
})

test('a token and TRX that a contract moves have positions of their own', () => {
  const internal = (values: Info['internals'][number]['values']) => ({
    from,
    to,
    note: 'call',
    isRejected: false,
    values,
  })
  const internals = [
    internal([
      {amount: 5n, token: ''},
      {amount: 6n, token: '1002000'},
    ]),
    internal([]),
  ]
  const {candidates} = read(
    transaction(contractTypes.trigger, [
      [1, from],
      [2, contract],
      [3, 11n],
    ]),
    {internals},
  )
  expect(candidates).toMatchObject([
    {outputIndex: 1, kind: 'internal', token: 'TRX', amount: 5n, ...names},
    {outputIndex: 2_000_000, kind: 'token', token: 'TRC10:1002000', amount: 6n, ...names},
  ])
})

test('a log of a TRC-20 token is a payment of that token, if it has the form of one', () => {
  const word = (bytes: Uint8Array) => Buffer.concat([new Uint8Array(12), bytes.subarray(1)])
  const topic = Buffer.from('ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef', 'hex')
  const good = {address: contract.subarray(1), topics: [topic, word(from), word(to)], data: Buffer.alloc(32, 0xff)}
  const logs = [
    {...good, topics: [sha256(topic), word(from), word(to)]},
    {...good, topics: [topic, word(from)]},
    {...good, topics: [topic, word(from), word(to), word(to)]}, // a token of which each is one (TRC-721)
    {...good, data: new Uint8Array()},
    {...good, address: new Uint8Array()},
    {...good, data: new Uint8Array(32)},
    good,
  ]
  const {candidates} = read(
    transaction(contractTypes.trigger, [
      [1, from],
      [2, contract],
    ]),
    {contract, logs},
  )
  const amount = 2n ** 256n - 1n
  expect(candidates).toMatchObject([
    {outputIndex: 1_000_006, kind: 'token', token: addressOf(contract), amount, ...names},
  ])
})

test.each<[ContractResult, boolean, boolean]>([
  ['SUCCESS', false, true],
  ['DEFAULT', false, true], // as in the first blocks of the main network
  ['SUCCESS', true, false],
  ['REVERT', false, false],
  ['OUT_OF_ENERGY', true, false],
])('a transaction with the result %s (failed: %s) moves something: %s', (result, hasFailed, executed) => {
  const {candidates, sent} = read(transfer(5n, result), {hasFailed})
  expect([candidates.length === 1, sent[0]!.executed]).toEqual([executed, executed])
})

test('nothing, and less, is no payment; nor is one to no address', () => {
  expect([0n, -5n].flatMap(amount => read(transfer(amount)).candidates)).toEqual([])
  const nowhere = transaction(contractTypes.transfer, [
    [1, from],
    [2, to.subarray(1)],
    [3, 1n],
  ])
  expect(read(nowhere).candidates).toEqual([])
})

test('an account whose permissions others changed is seen to act', () => {
  const byAnotherKey = encode([
    [1, 1n],
    [2, encode([[2, encode([[1, from]])]])],
    [5, 2n], // the permission whose key signed it
  ])
  for (const one of [transaction(46, [[1, bytesOf(names.sender)]]), transactionOf(encode([[11, byAnotherKey]]), [])])
    expect(read(one).sent).toMatchObject([{senderKey: names.sender, executed: true, fee: 3n}])
})

test('a log of another contract, without a call of it, was hidden', () => {
  const log = (address: Uint8Array) => ({address: address.subarray(1), topics: [], data: new Uint8Array()})
  const info: Info = {
    txid: '',
    height: 1,
    time: 1,
    fee: 0n,
    hasFailed: false,
    contract,
    internals: [],
    logs: [log(contract)],
  }
  expect(hidesInternals(info)).toBe(false)
  const hidden = {...info, logs: [log(contract), log(to)]}
  expect(hidesInternals(hidden)).toBe(true)
  expect(hidesInternals({...hidden, hasFailed: true})).toBe(false)
  const internals = [{from: contract, to, note: 'call', isRejected: false, values: []}]
  expect(hidesInternals({...hidden, internals})).toBe(false)
})
