// Incomplete and changed blocks are refused: blocks of anvil, which computes their roots itself, and blocks in the form
// of Polygon's bridge.
import {RpcClient} from '@subsquid/rpc-client'
import {concat, keccak256, numberToHex, stringToHex, zeroAddress} from 'viem'
import {beforeAll, describe, expect, test} from 'vitest'
import {accounts} from '../../devnet/evm/constants.ts'
import {Anvil, localChainId} from '../../test/support/evm/anvil.ts'
import type {FetchedBlock} from './block.ts'
import {fetchRange} from './catch-up.ts'
import {orderedTrieRoot} from './trie.ts'
import {bridgeHash, encodedReceipts, verifyBlock} from './verify-block.ts'

let block: FetchedBlock

const somebody = `0x${'77'.repeat(20)}`

/**
 * One transaction of each type that anvil takes without blobs, one that fails, and so many that indexes have two bytes.
 */
async function mineEveryType(anvil: Anvil): Promise<number> {
  const signer = accounts[3]!
  const fees = {maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 10n ** 9n}
  const base = {chainId: localChainId, gas: 100_000n, to: somebody as `0x${string}`, value: 5n}
  const authorization = await signer.signAuthorization!({address: zeroAddress, chainId: localChainId, nonce: 99})
  const signed = [
    await signer.signTransaction({...base, type: 'legacy', nonce: 0, gasPrice: 10n ** 11n}),
    await signer.signTransaction({...base, type: 'eip2930', nonce: 1, gasPrice: 10n ** 11n, accessList: []}),
    await signer.signTransaction({...base, ...fees, type: 'eip1559', nonce: 2}),
    await signer.signTransaction({...base, ...fees, type: 'eip7702', nonce: 3, authorizationList: [authorization]}),
  ]
  for (const raw of signed) await anvil.resend(raw)
  await anvil.sendUsdc(somebody, 7n)
  await anvil.multi('payThenRevert', [somebody], 5n)
  await anvil.sendUsdc(somebody, 8n)
  for (let nonce = 0; nonce < 130; nonce++) await anvil.send({by: 4, nonce, to: somebody, value: 1n, gas: 21_000})
  await anvil.sendUsdc(somebody, 9n)
  return (await anvil.mine()).height
}

beforeAll(async () => {
  const anvil = await Anvil.start({hardfork: 'prague'})
  const client = new RpcClient({url: anvil.httpUrl, log: null})
  try {
    const height = await mineEveryType(anvil)
    for await (const [fetched] of fetchRange(client, height, height)) block = fetched!
  } finally {
    client.close()
    await anvil.stop()
  }
})

const check =
  (changed: FetchedBlock, isTraced = false) =>
  () =>
    verifyBlock(changed, isTraced)
const without = <T>(list: T[], at: number): T[] => list.toSpliced(at, 1)

test('a block with receipts of every type, failed ones, and many of them is complete', () => {
  expect(new Set(block.transactions.map(({type}) => type))).toEqual(new Set([0, 1, 2, 4]))
  expect(new Set(block.transactions.map(({status}) => status))).toEqual(new Set([0, 1]))
  expect(block.transactions.length).toBeGreaterThan(128)
  expect(block.logs.length).toBe(3)
  expect(check(block)).not.toThrow()
})

test('the filters of receipts are computed when the node does not return them', () => {
  const transactions = block.transactions.map(({logsBloom: _, ...transaction}) => transaction)
  expect(check({...block, transactions})).not.toThrow()
  expect(check({...block, transactions, logs: without(block.logs, 1)})).toThrow('wrong receipts of block')
})

const lies: [what: string, lie: (block: FetchedBlock) => Partial<FetchedBlock>][] = [
  ['leaves out the first log', ({logs}) => ({logs: without(logs, 0)})],
  ['leaves out the last log', ({logs}) => ({logs: without(logs, 2)})],
  ['leaves out every log', () => ({logs: []})],
  ['tells a log twice', ({logs}) => ({logs: [logs[0]!, ...logs]})],
  ['adds a log at the end', ({logs}) => ({logs: [...logs, logs[0]!]})],
  ['adds a log of no transaction', ({logs}) => ({logs: [...logs, {...logs[0]!, transactionIndex: 1000}]})],
  ['changes an amount', ({logs}) => ({logs: logs.map(log => ({...log, data: `${log.data.slice(0, -1)}f`}))})],
  ['changes a contract', ({logs}) => ({logs: logs.map(log => ({...log, address: somebody}))})],
  [
    'gives a log to another transaction',
    ({logs: [log, ...logs]}) => ({logs: [{...log!, transactionIndex: 0}, ...logs]}),
  ],
  [
    'swaps two logs',
    ({logs: [a, b, c]}) => ({
      logs: [{...b!, transactionIndex: a!.transactionIndex}, {...a!, transactionIndex: b!.transactionIndex}, c!],
    }),
  ],
  [
    'says that what failed succeeded',
    ({transactions}) => ({transactions: transactions.map(one => ({...one, status: 1}))}),
  ],
  [
    'says that what succeeded failed',
    ({transactions}) => ({transactions: transactions.map((one, i) => (i ? one : {...one, status: 0}))}),
  ],
  [
    'leaves out the last transaction',
    ({transactions, logs}) => ({transactions: transactions.slice(0, -1), logs: logs.slice(0, 2)}),
  ],
  ['leaves out all transactions', () => ({transactions: [], logs: []})],
  ['leaves out withdrawals', ({header}) => ({header: {...header, withdrawalsRoot: `0x${'12'.repeat(32)}`}})],
  ['makes withdrawals up', () => ({withdrawals: [{index: 0n, validatorIndex: 0n, address: somebody, gwei: 1n}]})],
]
test.each(lies)('a node that %s is refused', (_, lie) => {
  expect(check({...block, ...lie(block)})).toThrow(`of block ${block.header.height}`)
})

test('a block counts as traced when each of its transactions is', () => {
  const traces = block.transactions.map(({transactionIndex}) => ({transactionIndex, traceAddress: [], type: 'call'}))
  expect(check({...block, traces}, true)).not.toThrow()
  expect(check({...block, traces: without(traces, 3)}, true)).toThrow('wrong call traces of block')
})

// Computed by ethereumjs (its tests of EIP-4895).
test('withdrawals match the root in the header', () => {
  const first = {index: 0n, validatorIndex: 0n, address: `0x${'20'.repeat(20)}`, gwei: 1000n}
  const second = {index: 1n, validatorIndex: 11n, address: `0x${'30'.repeat(20)}`, gwei: 2000n}
  const withRoot = (withdrawalsRoot: string, ...withdrawals: (typeof first)[]) => {
    return {...block, withdrawals, header: {...block.header, withdrawalsRoot}}
  }
  const one = '0x897ca49edcb278aecab2688bcc2b7b7ee43524cc489672534fee332a172f1718'
  const both = '0x3b514862c42008079d461392e29d5b6775dd5ed370a6c4441ccb8ab742bf2436'
  expect(check(withRoot(one, first))).not.toThrow()
  expect(check(withRoot(both, first, second))).not.toThrow()
  expect(check(withRoot(both, second, first))).toThrow('wrong withdrawals of block')
  expect(check(withRoot(both, first))).toThrow('wrong withdrawals of block')
})

describe('logs of the bridge to Polygon', () => {
  // In Bor's form: a last transaction from and to the zero address, without gas, with this hash.
  const bridged = (hash: string, type: number): FetchedBlock => {
    const transactionIndex = block.transactions.length
    const {cumulativeGasUsed} = block.transactions.at(-1)!
    const nothing = {value: 0n, nonce: 0, status: 1, gasUsed: 0n, effectiveGasPrice: 0n}
    const transaction = {
      transactionIndex,
      hash,
      from: zeroAddress,
      to: zeroAddress,
      type,
      cumulativeGasUsed,
      ...nothing,
    }
    const logs = [0, 1].map(i => ({...block.logs[i]!, transactionIndex}))
    return {...block, transactions: [...block.transactions, transaction], logs: [...block.logs, ...logs]}
  }

  describe('before PIP-74', () => {
    const older = () => bridged(bridgeHash(block.header), 0)

    test('are in a transaction whose hash is derived from the block', () => {
      const {height, hash} = block.header
      const key = concat([stringToHex('matic-bor-receipt-'), numberToHex(height, {size: 8}), hash as `0x${string}`])
      expect(bridgeHash(block.header)).toBe(keccak256(key))
    })

    test('are not under the receipts root, while the others are', () => {
      expect(check(older())).not.toThrow()
      const {logs} = older()
      expect(check({...older(), logs: without(logs, 0)})).toThrow('wrong receipts of block')
    })

    test('are not accepted in a transaction with another hash, nor in one that is not the last', () => {
      expect(check(bridged(`0x${'12'.repeat(32)}`, 0))).toThrow('wrong receipts of block')
      const [last, ...others] = older().transactions.toReversed()
      const transactions = [last!, ...others.reverse()].map((one, transactionIndex) => ({...one, transactionIndex}))
      expect(check({...older(), transactions, logs: []})).toThrow('wrong receipts of block')
    })
  })

  describe('since PIP-74', () => {
    const newer = () => {
      const made = bridged(`0x${'34'.repeat(32)}`, 0x7f)
      const receiptsRoot = `0x${orderedTrieRoot(encodedReceipts(made)!)}`
      return {...made, header: {...made.header, receiptsRoot}}
    }

    test('are under the root, in a receipt of type 0x7f', () => {
      expect(check(newer())).not.toThrow()
      expect(encodedReceipts(newer())!.at(-1)).toMatch(/^7ff9/)
    })

    test.each([
      ['lacks one of them', (made: FetchedBlock) => ({...made, logs: made.logs.slice(0, -1)})],
      ['lacks all of them', (made: FetchedBlock) => ({...made, logs: made.logs.slice(0, -2)})],
      [
        'lacks the transaction',
        (made: FetchedBlock) => ({...made, transactions: made.transactions.slice(0, -1), logs: block.logs}),
      ],
      ['lacks another log', (made: FetchedBlock) => ({...made, logs: without(made.logs, 0)})],
    ])('are refused in a response that %s, whatever hash the transaction has', (_, lie) => {
      const lied = lie(newer())
      expect(check(lied)).toThrow('wrong receipts of block')
      const hash = bridgeHash(lied.header)
      const transactions = lied.transactions.map((one, i) =>
        i === block.transactions.length ? {...one, hash, type: 0} : one,
      )
      expect(check({...lied, transactions})).toThrow('wrong receipts of block')
    })
  })
})
