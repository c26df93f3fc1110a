// Protocol income of a block, without a node: amounts and ids. test/faults/protocol-income.test.ts compares the amounts
// with the balances of addresses.
import {describe, expect, test} from 'vitest'
import type {FetchedBlock} from './block.ts'
import {protocolIncome} from './protocol-income.ts'

const hash = `0x${'b1'.repeat(32)}`
const nobody = `0x${'0'.repeat(40)}`
const miner = `0x${'Aa'.repeat(20)}`
const validator = `0x${'Cc'.repeat(20)}`

interface Contents {
  miner?: string
  baseFeePerGas?: bigint
  /** Gas used and price of each transaction. */
  paid?: [gasUsed: bigint, price: bigint, status?: number][]
  logs?: {address: string; topics: string[]; data: string}[]
  withdrawals?: [address: string, gwei: bigint][]
}

function blockOf({
  miner: to = miner,
  baseFeePerGas = 10n,
  paid = [],
  logs = [],
  withdrawals = [],
}: Contents): FetchedBlock {
  return {
    header: {height: 7, hash, parentHash: '0x', timestamp: 0, receiptsRoot: '0x', miner: to, baseFeePerGas},
    transactions: paid.map(([gasUsed, effectiveGasPrice, status = 1], transactionIndex) => {
      const call = {hash: `0x${transactionIndex}`, from: nobody, to: nobody, value: 5n, nonce: 0}
      return {transactionIndex, ...call, type: 2, status, gasUsed, cumulativeGasUsed: 0n, effectiveGasPrice}
    }),
    logs: logs.map(log => ({transactionIndex: 0, ...log})),
    traces: [],
    withdrawals: withdrawals.map(([address, gwei], i) => ({index: BigInt(i), validatorIndex: 3n, address, gwei})),
  }
}

const income = (contents: Contents) => protocolIncome(blockOf(contents), 'ETH')
const at = (outputIndex: number, amount: bigint, recipientKey: string) => {
  return {txid: hash, outputIndex, kind: 'protocol', token: 'ETH', amount, sender: nobody, recipientKey}
}

describe('the fees of a block', () => {
  test('are what its transactions paid above the base fee, failed ones included, in one transfer of the block itself', () => {
    const paid: Contents['paid'] = [
      [21_000n, 12n],
      [50_000n, 11n, 0],
      [30_000n, 10n],
    ]
    expect(income({paid})).toEqual([at(2_000_000, 92_000n, miner.toLowerCase())])
  })

  test('are none without transactions, without tips, without a recipient, or in a block without a base fee', () => {
    const paid: Contents['paid'] = [[21_000n, 12n]]
    expect(income({})).toEqual([])
    expect(income({paid: [[21_000n, 10n]]})).toEqual([])
    expect(income({paid, miner: nobody})).toEqual([])
    expect(income({paid, baseFeePerGas: -1n})).toEqual([])
  })
})

describe('on Polygon', () => {
  const word = (value: bigint) => value.toString(16).padStart(64, '0')
  const topic = (address: string) => `0x${word(BigInt(address))}`
  const native = `0x${'1010'.padStart(40, '0')}`
  const feeTopic = '0x4dfe1bbbcf077ddc3e01291eea2d5c70c2b422b415d95645b9adcfd678cb1d63'
  const paidTo = (to: string, amount: bigint, more: {address?: string; event?: string} = {}) => {
    const {address = native, event = feeTopic} = more
    const data = `0x${[amount, 1n, 2n, 3n, 4n].map(word).join('')}`
    return {address, topics: [event, topic(native), topic(miner), topic(to)], data}
  }

  test('fees go to the recipient that logs of the native token name, whatever the header says', () => {
    const logs = [paidTo(validator, 5n), paidTo(validator, 8n)]
    const found = [at(2_000_000, 13n, validator.toLowerCase())]
    expect(income({logs, paid: [[21_000n, 12n]]})).toEqual(found)
    expect(income({logs, paid: [[21_000n, 12n]], miner: nobody})).toEqual(found)
  })

  test('a log of another contract, or another log of that contract, is no fee', () => {
    const logs = [paidTo(validator, 5n, {address: validator}), paidTo(validator, 8n, {event: `0x${'e6'.repeat(32)}`})]
    expect(income({logs, paid: [[21_000n, 12n]], miner: nobody})).toEqual([])
  })
})

test('each withdrawal is a transfer of its own, in gwei, with its place in the block', () => {
  const withdrawals: Contents['withdrawals'] = [
    [validator, 15_000_001n],
    [miner, 0n],
    [validator, 32_000_000_000n],
  ]
  expect(income({withdrawals, paid: [[21_000n, 11n]]})).toEqual([
    at(2_000_000, 21_000n, miner.toLowerCase()),
    at(3_000_000, 15_000_001_000_000_000n, validator.toLowerCase()),
    at(3_000_002, 32_000_000_000_000_000_000n, validator.toLowerCase()),
  ])
})
