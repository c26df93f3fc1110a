// A Tron chain as its nodes show it: only whole blocks are believed, and what is in them is found. The node is a local
// chain behind a proxy that lies.

import {afterEach, beforeEach, describe, expect, test} from 'vitest'
import {settingsFrom} from '../../chains/settings.ts'
import {TronNodes} from '../../chains/tron/client.ts'
import {rawOf} from '../../chains/tron/transaction.ts'
import {answer} from '../../devnet/tron/api.ts'
import {TronLocalChain} from '../../devnet/tron/chain.ts'
import {dispersal, newAddress, payment} from '../../devnet/tron/client.ts'
import {contracts, faucet, faucetKey} from '../../devnet/tron/constants.ts'
import {TronJournal} from '../../devnet/tron/journal.ts'
import {type Call, faults, RpcProxy} from '../../test/support/rpc-proxy.ts'
import type {ReadBlock} from '../block.ts'
import {TronSource} from './source.ts'

const lag = 2
let chain: TronLocalChain
let proxies: RpcProxy[]
let source: TronSource
let on: {height: number; hash: string}
/** The heights that were noted. */
let unproven: number[]

beforeEach(async () => {
  chain = new TronLocalChain(new TronJournal(':memory:', 'TRON'), lag)
  const {hash} = chain.mine()
  on = {height: 1, hash}
  unproven = []
  proxies = await Promise.all([1, 2].map(() => RpcProxy.start({call: async (path, [body]) => answerOf(path, body)})))
  source = sourceOf(proxies.slice(0, 1))
})
afterEach(async () => {
  for (const proxy of proxies) await proxy.close()
  chain.journal.close()
})

const answerOf = (path: string, body: unknown) => answer(chain, path, JSON.stringify(body))

function sourceOf(of: RpcProxy[]): TronSource {
  const [first, second] = of.map(({httpUrl}) => httpUrl)
  const urls = {TRON_RPC_URL: first!, TRON_RPC_URL_2: second ?? ''}
  const settings = settingsFrom('TRON', {TRON_NETWORK: 'local', ...urls})
  if (settings.family !== 'tron') throw new Error('TRON is of another family')
  return new TronSource(
    new TronNodes(settings, {timeoutMs: 2000}),
    settings,
    async ({height}) => void unproven.push(height),
  )
}

const pay = (to: string, amount: bigint) => chain.submit(rawOf(payment({key: faucetKey, on}, to, amount)))

/** Changes what a node sends for a path. A response is a copy. */
function lie<T>(path: string, change: (response: T) => unknown, proxy = proxies[0]!): void {
  proxy.behave = async ({method}: Call, pass) => {
    const response = (await pass()) as T
    return method.endsWith(path) ? change(structuredClone(response)) : response
  }
}
interface Sent {
  block: {blockID: string; block_header: {raw_data: {timestamp: number}}; transactions?: SentTransaction[]}[]
}
interface SentTransaction {
  txID: string
  signature: string[]
  ret: {contractRet: string}[]
}
interface SentInfo {
  id: string
  blockNumber: number
  blockTimeStamp: number
  contract_address?: string
  internal_transactions?: {note: string; rejected?: boolean}[]
  log?: {address: string}[]
}

describe('what a block has', () => {
  test('a payment is at position 0, with its sender and its fee', async () => {
    const to = newAddress()
    const txid = pay(to, 7n)
    chain.mine()
    const [block] = await source.blocksAbove(1, 5)
    expect(block).toMatchObject({height: 2, hash: chain.head.hash, parentHash: on.hash, spends: []})
    expect(block!.candidates).toEqual([
      {txid, outputIndex: 0, kind: 'native', token: 'TRX', amount: 7n, sender: faucet, recipientKey: to},
    ])
    expect(block!.sent).toEqual([{txid, senderKey: faucet, executed: true, fee: 1_100_000n}])
  })

  test('what a contract moves is at 1 + n; value that comes with a call is no payment to anybody else', async () => {
    const [a, b] = [newAddress(), newAddress()]
    const outputs = [
      {to: a, amount: 5n},
      {to: b, amount: 0n},
      {to: a, amount: 6n},
    ]
    const txid = chain.submit(rawOf(dispersal({key: faucetKey, on}, outputs, 20n)))
    chain.mine()
    const common = {txid, kind: 'internal', token: 'TRX', sender: contracts.disperse}
    const [block] = await source.blocksAbove(1, 5)
    expect(block!.candidates).toEqual([
      {...common, outputIndex: 1, amount: 5n, recipientKey: a},
      {...common, outputIndex: 3, amount: 6n, recipientKey: a},
    ])
    expect(block!.sent).toMatchObject([{senderKey: faucet, executed: true}])
  })

  test('a failed call moves nothing, and has its fee', async () => {
    chain.submit(rawOf(dispersal({key: faucetKey, on}, [{to: newAddress(), amount: 5n}], 4n)))
    chain.mine()
    const [block] = await source.blocksAbove(1, 5)
    expect(block!.candidates).toEqual([])
    expect(block!.sent).toMatchObject([{executed: false}])
    expect(block!.sent[0]!.fee).toBeGreaterThan(0n)
  })

  test('rejected internal transactions, and those that move nothing, are no payments, and keep the positions of others', async () => {
    const [a, b, c] = [newAddress(), newAddress(), newAddress()]
    chain.submit(
      rawOf(
        dispersal(
          {key: faucetKey, on},
          [a, b, c].map(to => ({to, amount: 5n})),
        ),
      ),
    )
    chain.mine()
    lie<SentInfo[]>('infobyblocknum', ([info]) => {
      const [first, second, third] = info!.internal_transactions!
      const freeze = {...first, note: Buffer.from('freezeBalanceV2ForEnergy').toString('hex')}
      const killed = {...third, note: Buffer.from('suicide').toString('hex')}
      return [{...info, internal_transactions: [freeze, {...second, rejected: true}, killed, first]}]
    })
    const [block] = await source.blocksAbove(1, 5)
    const found = block!.candidates.map(({outputIndex, recipientKey}) => [outputIndex, recipientKey])
    expect(found).toEqual([
      [2, c],
      [3, a],
    ])
  })

  test('many blocks are read, each in its place', async () => {
    for (let i = 0; i < 30; i++) {
      if (i % 3 === 0) pay(newAddress(), BigInt(i + 1))
      chain.mine()
    }
    const first = await source.blocksAbove(1, 100)
    expect(first.map(({height}) => height)).toEqual(Array.from({length: 20}, (_, i) => i + 2))
    const rest = await source.blocksAbove(21, 100)
    expect(rest.at(-1)!.hash).toBe(chain.head.hash)
    expect([...first, ...rest].flatMap(({candidates}) => candidates.map(({amount}) => amount))).toHaveLength(10)
    expect(await source.blocksAbove(31, 100)).toEqual([])
  })
})

describe('a block is refused', () => {
  beforeEach(() => {
    for (const amount of [1n, 2n, 3n]) pay(newAddress(), amount)
    chain.mine()
  })
  const refused = (message: string) => expect(source.blocksAbove(1, 5)).rejects.toThrow(message)

  test.each<[string, string, (sent: Sent) => unknown]>([
    ['that lacks a transaction', 'does not say of each', sent => sent.block[0]!.transactions!.pop()],
    ['that lacks all', 'shows no transactions of block 2', sent => delete sent.block[0]!.transactions],
    ['whose id is of another', 'has not the id', sent => (sent.block[0]!.blockID = '0'.repeat(64))],
    ['whose header is changed', 'has not the id', sent => sent.block[0]!.block_header.raw_data.timestamp++],
    [
      'whose transaction has the id of another',
      'has another id',
      sent => (sent.block[0]!.transactions![0]!.txID = '0'.repeat(64)),
    ],
  ])('%s', async (_, message, change) => {
    lie<Sent>('limitnext', sent => {
      change(sent)
      return sent
    })
    await refused(message)
    proxies[0]!.behave = undefined
    expect(await source.blocksAbove(1, 5)).toHaveLength(1)
  })

  test.each<[string, (infos: SentInfo[]) => unknown]>([
    ['nothing at all', () => []],
    ['an empty object', () => ({})],
    ['less', infos => infos.slice(1)],
    ['one twice', infos => [infos[0], infos[0], infos[1]]],
    ['that of another transaction', ([first, ...others]) => [{...first, id: '0'.repeat(64)}, ...others]],
    ['more', infos => [...infos, {...infos[0], id: '0'.repeat(64)}]],
    ['the same of another block', infos => infos.map(info => ({...info, blockNumber: 9}))],
    ['the same of a block that it replaced', infos => infos.map(info => ({...info, blockTimeStamp: 9}))],
  ])('of which the node says %s', async (_, change) => {
    lie('infobyblocknum', change)
    await refused('does not say of each transaction of block 2 what came of it')
    expect(await source.lacks(2)).toMatch('does not say of each')
  })

  test('that is not the next one', async () => {
    chain.mine(2)
    lie<Sent>('limitnext', sent => ({block: sent.block.slice(1)}))
    await refused('left out a block')
  })

  test('that is answered with an error and status 200', async () => {
    proxies[0]!.behave = () => faults.error('busy')
    await refused('refused wallet/getblockbylimitnext: busy')
  })

  test('by a node that saves no internal transactions: others wrote logs than who was called', async () => {
    const log = {address: '11'.repeat(20), topics: [], data: ''}
    const contract_address = `41${'22'.repeat(20)}`
    lie<SentInfo[]>('infobyblocknum', infos => infos.map(info => ({...info, contract_address, log: [log]})))
    await refused('vm.saveInternalTx')
    chain.mine(lag)
    await expect(source.refusal()).rejects.toMatchObject({reason: 'blocks_missing'})
    proxies[0]!.behave = undefined
    expect(await source.refusal()).toBeUndefined()
  })
})

describe('where only the root is wrong', () => {
  const to = newAddress()
  beforeEach(() => {
    pay(to, 5n)
    pay(newAddress(), 6n)
    chain.mine()
  })

  test.each<[string, (transactions: SentTransaction[]) => unknown]>([
    ['another order', transactions => transactions.reverse()],
    ['another signature', ([first]) => first!.signature.push('00')],
    ['no result', ([first]) => first!.ret.pop()],
  ])('(%s) the block is believed if no node has a better one, and noted', async (_, change) => {
    lie<Sent>('limitnext', sent => {
      change(sent.block[0]!.transactions!)
      return sent
    })
    const both = sourceOf(proxies)
    const isThere = ({candidates}: ReadBlock) => candidates.some(({recipientKey}) => recipientKey === to)
    expect((await both.blocksAbove(1, 1)).every(isThere)).toBe(true)
    expect(unproven).toEqual([])
    expect((await source.blocksAbove(1, 1)).every(isThere)).toBe(true)
    expect(unproven).toEqual([2])
    proxies[1]!.behave = () => faults.status(500)
    expect((await both.blocksAbove(1, 1)).every(isThere)).toBe(true)
    expect(unproven).toEqual([2, 2])
  })

  test('a node is asked once more, and may send the right block then', async () => {
    let asked = 0
    lie<Sent>('limitnext', sent => {
      if (!asked++) sent.block[0]!.transactions!.reverse()
      return sent
    })
    expect((await source.blocksAbove(1, 1))[0]!.candidates).toHaveLength(2)
    expect([asked, unproven]).toEqual([2, []])
  })

  test('the other node cannot put another block in its place', async () => {
    pay(newAddress(), 7n)
    const {hash} = chain.mine()
    lie<Sent>('limitnext', sent => {
      sent.block[0]!.transactions!.reverse()
      return sent
    })
    lie('limitnext', () => answerOf('/wallet/getblockbylimitnext', {startNum: 3, endNum: 4}), proxies[1]!)
    const [block] = await sourceOf(proxies).blocksAbove(1, 1)
    expect([block!.height, block!.hash === hash, unproven]).toEqual([2, false, [2]])
  })

  test('a block of the other node is not believed if it shows what the first left out of its infos', async () => {
    lie<Sent>('limitnext', ({block: [block]}) => ({block: [{...block!, transactions: block!.transactions!.slice(1)}]}))
    const both = sourceOf(proxies)
    expect((await both.blocksAbove(1, 1))[0]!.candidates).toHaveLength(2)
    const infos = answerOf('/wallet/gettransactioninfobyblocknum', {num: 2}) as SentInfo[]
    const behave = proxies[0]!.behave!
    proxies[0]!.behave = (call, pass) => (call.method.endsWith('infobyblocknum') ? infos.slice(1) : behave(call, pass))
    await expect(both.blocksAbove(1, 1)).rejects.toThrow('does not say of each')
    expect(unproven).toEqual([])
    await source.blocksAbove(1, 1) // one node that leaves it out everywhere is believed
    expect(unproven).toEqual([2])
  })
})

test('blocks are found by their height; the solidified one is final', async () => {
  chain.mine(5)
  expect(await source.network()).toBe(`tron:0x${chain.block(0).hash.slice(-8)}`)
  expect(await source.head()).toMatchObject({height: 6, hash: chain.head.hash})
  expect(await source.finalBlock()).toMatchObject({height: 4, hash: chain.block(4).hash})
  expect(await source.hashesAt([3, 7, 0])).toEqual([chain.block(3).hash, undefined, chain.block(0).hash])
  expect((await source.blockAt(3))!.time.getTime()).toBe(chain.block(3).header.time)
  expect(await source.links([2, 3])).toMatchObject([{height: 2}, {parentHash: chain.block(2).hash}])
  expect(await source.lacks(9)).toBe('it has no such block')
  await expect(source.block(9)).rejects.toThrow('no block 9')
  lie('getblock', () => answerOf('/wallet/getblock', {id_or_num: '2'}))
  await expect(source.hashAt(3)).rejects.toThrow('another block than 3')
})

describe('a transaction that expired', () => {
  const expired = (txid: string, end: number) => ({
    txid,
    raw: '',
    source: faucet,
    lifetimeFrom: 1,
    lifetimeEnd: end,
    notFollowed: null,
  })
  const absent = '11'.repeat(32)
  let end: number
  beforeEach(() => {
    end = chain.block(1).header.time + 1
    chain.mine(1 + lag)
  })

  test('is absent if every node is past its end, and none has it', async () => {
    const {hash, header} = chain.block(2)
    const solid = {height: 2, hash, time: header.time}
    expect(await source.proveAbsent(expired(absent, end))).toEqual({solid: [solid]})
    expect(await sourceOf(proxies).proveAbsent(expired(absent, end))).toEqual({solid: [solid, solid]})
  })

  test('is not proven by a node of another network, which is refused at the start', async () => {
    const both = sourceOf(proxies)
    proxies[1]!.behave = ({method, params: [body]}, pass) => {
      const isFirst = method.endsWith('wallet/getblock') && (body as {id_or_num?: string}).id_or_num === '0'
      return isFirst ? pass([{id_or_num: '1', detail: false}]) : pass()
    }
    await expect(both.refusal()).rejects.toMatchObject({reason: 'wrong_network'})
    expect(await both.proveAbsent(expired(absent, end))).toMatch('a node is on another network')
    proxies[1]!.behave = () => faults.status(500)
    await both.refusal()
  })

  test('is not, if a node is before its end, has it, or is away', async () => {
    expect(await source.proveAbsent(expired(absent, chain.block(2).header.time + 1))).toMatch('not past the end')
    const txid = pay(newAddress(), 1n)
    chain.mine(1 + lag)
    expect(await source.proveAbsent(expired(txid, end))).toMatch('which Sluice has not')
    const both = sourceOf(proxies)
    lie('transactionbyid', () => ({txID: absent}), proxies[1]!)
    expect(await both.proveAbsent(expired(absent, end))).toMatch('which Sluice has not')
    proxies[1]!.behave = () => faults.status(500)
    await expect(both.proveAbsent(expired(absent, end))).rejects.toThrow('status 500')
  })
})
