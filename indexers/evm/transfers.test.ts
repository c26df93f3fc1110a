// The rules for transfers in an EVM block and their output indexes, without a node. test/faults/deposits.test.ts checks
// that real nodes return blocks of this shape.
import fc from 'fast-check'
import {describe, expect, test} from 'vitest'
import {
  type EvmBlock,
  type EvmFrame,
  type EvmLog,
  type EvmTransaction,
  sentIn,
  transfersOf,
  transferTopic,
} from './transfers.ts'

const usdc = '0x00000000000000000000000000000000000000aa'
const fake = '0x00000000000000000000000000000000000000ff'
const tokens = new Map([[usdc, 'USDC']])
const ours = '0x1111111111111111111111111111111111111111'
const other = '0x2222222222222222222222222222222222222222'
const payer = '0x3333333333333333333333333333333333333333'
const contract = '0x4444444444444444444444444444444444444444'

const word = (value: bigint) => `0x${value.toString(16).padStart(64, '0')}`
const topic = (address: string) => word(BigInt(address))

/** A transaction with its logs and frames; `index` is its place in the block. */
interface Content {
  hash: string
  transaction?: Partial<EvmTransaction>
  logs?: Omit<EvmLog, 'transactionIndex'>[]
  frames?: Omit<EvmFrame, 'transactionIndex'>[]
}

function blockOf(...contents: Content[]): EvmBlock {
  return {
    transactions: contents.map(({hash, transaction}, transactionIndex) => {
      const receipt = {status: 1, gasUsed: 21_000n, effectiveGasPrice: 7n}
      return {transactionIndex, hash, from: payer, to: contract, value: 0n, nonce: 0, ...receipt, ...transaction}
    }),
    logs: contents.flatMap(({logs = []}, transactionIndex) => logs.map(log => ({transactionIndex, ...log}))),
    traces: contents.flatMap(({frames = []}, transactionIndex) => frames.map(frame => ({transactionIndex, ...frame}))),
  }
}

const read = (...contents: Content[]) => transfersOf(blockOf(...contents), 'ETH', tokens)

const erc20 = (amount: bigint, {token = usdc, to = ours} = {}) => {
  return {address: token, topics: [transferTopic, topic(payer), topic(to)], data: word(amount)}
}

type Frame = Omit<EvmFrame, 'transactionIndex'>
const call = (path: number[], value: bigint, more: {callType?: string; to?: string; error?: string} = {}): Frame => {
  const {callType = 'call', to = ours, error} = more
  return {traceAddress: path, error, type: 'call', action: {callType, from: contract, to, value}}
}
const create = (path: number[], value: bigint, address: string): Frame => {
  return {traceAddress: path, type: 'create', action: {from: contract, value}, result: {address}}
}
const selfdestruct = (path: number[], balance: bigint): Frame => {
  return {traceAddress: path, type: 'suicide', action: {address: contract, refundAddress: ours, balance}}
}
const root = call([], 9n, {to: contract})

describe('the value of a transaction itself', () => {
  test('is output 0, in the native token, from the sender of the transaction', () => {
    expect(read({hash: '0xa', transaction: {to: ours, value: 5n}})).toEqual([
      {txid: '0xa', outputIndex: 0, kind: 'native', token: 'ETH', amount: 5n, sender: payer, recipientKey: ours},
    ])
  })

  test('is no transfer when it is zero, or when the transaction creates a contract', () => {
    expect(read({hash: '0xa', transaction: {to: ours, value: 0n}})).toEqual([])
    expect(read({hash: '0xa', transaction: {to: null, value: 5n}})).toEqual([])
    expect(read({hash: '0xa', transaction: {to: undefined, value: 5n}})).toEqual([])
  })

  test('may exceed the whole supply: amounts never pass through floating point', () => {
    const amount = 2n ** 256n - 1n
    expect(read({hash: '0xa', transaction: {to: ours, value: amount}})[0]!.amount).toBe(amount)
    expect(read({hash: '0xa', logs: [erc20(amount)]})[0]!.amount).toBe(amount)
  })

  test('is one transfer where the chain also logs it (EIP-7708), and those logs count in positions', () => {
    const logged = {...erc20(5n), address: '0xffffFFFfFFffffffffffffffFfFFFfffFFFfFFfE'}
    expect(read({hash: '0xa', transaction: {to: ours, value: 5n}, logs: [logged, erc20(7n)]})).toMatchObject([
      {outputIndex: 0, token: 'ETH', amount: 5n},
      {outputIndex: 2, token: 'USDC', amount: 7n},
    ])
  })
})

test.each([
  ['failed', 0],
  ['without a status', undefined],
])('a transaction that %s moves nothing: neither its value, nor its logs, nor its calls', (_, status) => {
  const transaction = {to: ours, value: 5n, status}
  expect(read({hash: '0xa', transaction, logs: [erc20(1n)], frames: [root, call([0], 3n)]})).toEqual([])
})

describe('a token transfer', () => {
  test('has output index 1 + its log index in its transaction, whatever the other logs are', () => {
    const approval = {address: usdc, topics: [`0x${'8c'.repeat(32)}`, topic(payer), topic(ours)], data: word(1n)}
    expect(read({hash: '0xa', logs: [approval, erc20(7n), approval, erc20(8n, {to: other})]})).toEqual([
      {txid: '0xa', outputIndex: 2, kind: 'token', token: 'USDC', amount: 7n, sender: payer, recipientKey: ours},
      {txid: '0xa', outputIndex: 4, kind: 'token', token: 'USDC', amount: 8n, sender: payer, recipientKey: other},
    ])
  })

  test('of an unsupported contract keeps the contract as its token, so that it is never credited as another token', () => {
    expect(read({hash: '0xa', logs: [erc20(7n, {token: fake})]})).toMatchObject([{token: fake, amount: 7n}])
  })

  test('of zero is ignored: address poisoning uses it', () => {
    expect(read({hash: '0xa', logs: [erc20(0n)]})).toEqual([])
  })

  test('with a fourth topic is an ERC-721 token, and is ignored', () => {
    const {address, topics} = erc20(0n)
    expect(read({hash: '0xa', logs: [{address, topics: [...topics, word(7n)], data: '0x'}]})).toEqual([])
    expect(read({hash: '0xa', logs: [{address, topics: [...topics, word(7n)], data: word(7n)}]})).toEqual([])
  })

  test.each([
    ['no topic at all', [], word(7n)],
    ['another event', [`0x${'8c'.repeat(32)}`, topic(payer), topic(ours)], word(7n)],
    ['addresses that are not indexed', [transferTopic], word(7n)],
    ['no amount', [transferTopic, topic(payer), topic(ours)], '0x'],
    ['more data than an amount', [transferTopic, topic(payer), topic(ours)], `${word(7n)}00`],
  ])('is none with %s', (_, topics, data) => {
    expect(read({hash: '0xa', logs: [{address: usdc, topics, data}]})).toEqual([])
  })

  test('to the sender itself is still a transfer', () => {
    const log = {address: usdc, topics: [transferTopic, topic(ours), topic(ours)], data: word(7n)}
    expect(read({hash: '0xa', logs: [log]})).toMatchObject([{sender: ours, recipientKey: ours}])
  })
})

describe('value moved by a contract', () => {
  test('has output index 1000000 + its position among all calls of its transaction, which itself is the first', () => {
    const frames = [root, call([0], 0n), call([0, 0], 3n), call([1], 4n, {to: other})]
    expect(read({hash: '0xa', frames})).toEqual([
      {
        txid: '0xa',
        outputIndex: 1_000_002,
        kind: 'internal',
        token: 'ETH',
        amount: 3n,
        sender: contract,
        recipientKey: ours,
      },
      {
        txid: '0xa',
        outputIndex: 1_000_003,
        kind: 'internal',
        token: 'ETH',
        amount: 4n,
        sender: contract,
        recipientKey: other,
      },
    ])
  })

  test('counts for calls, contract creation and selfdestruct', () => {
    const frames = [root, call([0], 1n), create([1], 2n, other), selfdestruct([1, 0], 3n)]
    expect(read({hash: '0xa', frames}).map(({amount, sender, recipientKey}) => [amount, sender, recipientKey])).toEqual(
      [
        [1n, contract, ours],
        [2n, contract, other],
        [3n, contract, ours],
      ],
    )
  })

  test.each(['delegatecall', 'staticcall', 'callcode', 'invalid'])(
    'does not count for %s, which moves no value',
    callType => {
      expect(read({hash: '0xa', frames: [root, call([0], 5n, {callType})]})).toEqual([])
    },
  )

  test('is no transfer when it is zero, when a creation failed, or for the outermost call, which is the transaction itself', () => {
    const failed: Frame = {traceAddress: [1], type: 'create', action: {from: contract, value: 5n}, error: 'out of gas'}
    expect(read({hash: '0xa', frames: [call([], 5n), call([0], 0n), failed]})).toEqual([])
  })

  test('does not count inside a reverted call, at any depth, and counts again after it', () => {
    const frames = [
      root,
      call([0], 1n),
      call([1], 2n, {error: 'execution reverted'}),
      call([1, 0], 3n),
      call([1, 0, 0], 4n),
      call([1, 1], 5n, {error: 'out of gas'}),
      call([1, 2], 6n),
      call([2], 7n),
      call([2, 0], 8n, {error: 'execution reverted'}),
      call([2, 0, 0], 9n),
      call([2, 1], 10n),
      call([10], 11n),
    ]
    expect(read({hash: '0xa', frames}).map(({amount}) => amount)).toEqual([1n, 7n, 10n, 11n])
  })

  test('does not count anywhere in a transaction whose outermost call was reverted', () => {
    const frames = [{...root, error: 'execution reverted'}, call([0], 1n), call([0, 0], 1n)]
    expect(read({hash: '0xa', frames}, {hash: '0xb', frames: [root, call([0], 2n)]})).toMatchObject([{txid: '0xb'}])
  })
})

test('one transaction may make several transfers in every way at once, each with its own output index', () => {
  const found = read({
    hash: '0xa',
    transaction: {to: ours, value: 1n},
    logs: [erc20(2n), erc20(2n), erc20(3n, {token: fake})],
    frames: [call([], 1n), call([0], 4n), call([1], 4n), selfdestruct([2], 5n)],
  })
  expect(found.map(({outputIndex, token, amount}) => [outputIndex, token, amount])).toEqual([
    [0, 'ETH', 1n],
    [1, 'USDC', 2n],
    [2, 'USDC', 2n],
    [3, fake, 3n],
    [1_000_001, 'ETH', 4n],
    [1_000_002, 'ETH', 4n],
    [1_000_003, 'ETH', 5n],
  ])
})

test('the fee of each transaction is its gas at the price paid, reverted or not', () => {
  const block = blockOf(
    {hash: '0xa', transaction: {nonce: 3, gasUsed: 50_000n, effectiveGasPrice: 2n}},
    {hash: '0xb', transaction: {from: '0xABCD', status: 0}},
  )
  expect(sentIn(block)).toEqual([
    {txid: '0xa', senderKey: payer, nonce: 3, executed: true, fee: 100_000n},
    {txid: '0xb', senderKey: '0xabcd', nonce: 0, executed: false, fee: 147_000n},
  ])
})

test('a block without transactions moves nothing', () => {
  expect(read()).toEqual([])
})

test('the transfers of a transaction, and their output indexes, do not depend on the rest of the block', () => {
  const log = fc.constantFrom(erc20(1n), erc20(0n), erc20(2n, {token: fake}), {address: fake, topics: [], data: '0x'})
  const error = fc.constantFrom(undefined, undefined, 'execution reverted')
  // Frames as a depth-first walk over a random tree gives them: the depth of each is at most one more than that of the
  // one before.
  const frames = fc.array(fc.record({depth: fc.nat(3), value: fc.bigInt(0n, 2n), error}), {maxLength: 8}).map(list => {
    const path: number[] = []
    return [
      root,
      ...list.map(({depth, value, error}) => {
        const length = Math.min(depth, path.length)
        const next = (path[length] ?? -1) + 1
        path.splice(length, path.length, next)
        return call([...path], value, {error})
      }),
    ]
  })
  const transaction = fc.record({
    value: fc.bigInt(0n, 2n),
    to: fc.constantFrom(ours, other),
    status: fc.constantFrom(0, 1),
  })
  const content = fc.record({transaction, logs: fc.array(log, {maxLength: 4}), frames})
  fc.assert(
    fc.property(
      content,
      fc.array(content, {maxLength: 3}),
      fc.array(content, {maxLength: 3}),
      (mine, before, after) => {
        const it = {hash: '0xmine', ...mine}
        const around = (contents: typeof before, name: string) =>
          contents.map((one, i) => ({hash: `0x${name}${i}`, ...one}))
        const alone = read(it)
        const within = read(...around(before, 'before'), it, ...around(after, 'after'))
        expect(within.filter(({txid}) => txid === '0xmine')).toEqual(alone)
        expect(new Set(within.map(({txid, outputIndex}) => `${txid} ${outputIndex}`)).size).toBe(within.length)
      },
    ),
  )
})
