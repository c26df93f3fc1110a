// A Solana chain as its nodes show it: heights are those of blocks, whatever slots are skipped; a node that lags and
// leaves blocks out causes no fork; a fork is seen by its hashes. The node is a local chain.
import {on, once} from 'node:events'
import {afterEach, beforeEach, describe, expect, test, vi} from 'vitest'
import {RetryableError} from '../../base/errors.ts'
import {silent} from '../../base/log.ts'
import {chain, type SolanaChain} from '../../chains/registry.ts'
import {SlotFeed, SolanaNodes} from '../../chains/solana/client.ts'
import {messageOf, rawOf} from '../../chains/solana/message.ts'
import {solanaVariables} from '../../chains/solana/settings.ts'
import type {Serving} from '../../devnet/family.ts'
import {newAddress, type SolanaClient} from '../../devnet/solana/client.ts'
import {faucet, faucetKey, finalLag} from '../../devnet/solana/constants.ts'
import {solana} from '../../devnet/solana/family.ts'
import {parseTransaction, payment} from '../../devnet/solana/transaction.ts'
import type {ReadBlock} from '../block.ts'
import type {BlockRef, Expired} from '../cursor.ts'
import type {ReaderOptions} from '../family.ts'
import {openHistory, openReader} from './family.ts'
import {SolanaSource} from './source.ts'

/** A payment by the faucet, as custody writes one; what is read of it is whose coins it moves. */
const ofFaucet = rawOf(
  messageOf({
    ...{from: faucet, feePayer: faucet, to: '5SHQQrjzHCMkZZJzYNhx9szLeYsVCYw4NNr8p7xT9BAY', amount: 1n},
    ...{blockhash: faucet, computeUnitLimit: 1000, priorityFee: 0n},
  }),
  [new Uint8Array(64)],
)

const solanaChain = chain('SOL') as SolanaChain

let client: SolanaClient
let serving: Serving
let source: SolanaSource
let close: () => Promise<void>

beforeEach(async () => {
  const {journal, serve} = await solana.open('SOL', ':memory:')
  serving = await serve({directory: '', blockIntervalMs: 0, log: silent()})
  client = await solana.connect(serving.where.url)
  source = newSource()
  await client.mine(2, {skip: 5})
  close = async () => {
    await serving.close()
    journal.close()
  }
})
afterEach(() => close())

function newSource(commitment: 'confirmed' | 'finalized' = 'confirmed', feed?: SlotFeed): SolanaSource {
  const nodes = new SolanaNodes({endpoints: [{url: client.url}]}, {timeoutMs: 2000})
  return new SolanaSource(nodes, {commitment, codes: {native: 'SOL', tokens: new Map()}, ...(feed && {feed})})
}

const pay = (to: string, amount: bigint) => client.rpc('devnet_pay', [to, String(amount)])
const settings = (environment: Record<string, string>) =>
  solanaVariables(solanaChain).read({SOL_NETWORK: 'local', ...environment}, [])!
const trouble = (wish: object = {}) => client.rpc('devnet_trouble', [wish])

/** Mines blocks, with a random number of skipped slots before each. */
async function mineWithSkips(blocks: number): Promise<void> {
  for (let i = 0; i < blocks; i++) await client.mine(1, {skip: (i * 7) % 5 === 0 ? 0 : (i * 13) % 4})
}

/**
 * Follows the source from a block until its head, as follow.ts does, and counts how often a block did not link to the
 * one below.
 */
async function followFrom(tip: BlockRef, to: number): Promise<{blocks: ReadBlock[]; forks: number}> {
  const blocks: ReadBlock[] = []
  let forks = 0
  for (let round = 0; round < 3000 && tip.height < to; round++) {
    const more = await source.blocksAbove(tip.height, 50).catch((error): ReadBlock[] => {
      expect(error).toBeInstanceOf(RetryableError)
      return []
    })
    for (const block of more) {
      if (block.parentHash !== tip.hash || block.height !== tip.height + 1) {
        forks += 1
        break
      }
      blocks.push(block)
      tip = block
    }
  }
  return {blocks, forks}
}

describe('what is read', () => {
  test('blocks link by height; a payment is found at the place of its account', async () => {
    const to = newAddress()
    const txid = await pay(to, 10n ** 9n)
    await client.mine(1, {skip: 3})
    const {height, hash} = await client.head()
    expect(await source.head()).toMatchObject({height: 3, hash})
    const blocks = await source.blocksAbove(1, 10)
    expect(blocks.map(block => block.height)).toEqual([2, 3])
    expect(blocks[1]).toMatchObject({height, hash, parentHash: blocks[0]!.hash})
    expect(blocks[1]!.candidates).toMatchObject([
      {txid, token: 'SOL', amount: 10n ** 9n, sender: faucet, recipientKey: to},
    ])
    expect(blocks[1]!.sent).toEqual([{txid, senderKey: faucet, executed: true, fee: 5000n}])
    expect(await source.blocksAbove(3, 10)).toEqual([])
  })

  test('the network is named by its first block, as in the settings', async () => {
    expect(await source.network()).toBe(`solana:${solanaChain.networks.local.genesis.slice(0, 32)}`)
    const reader = openReader(settings({SOL_RPC_URL: client.url}), {} as ReaderOptions)
    expect(reader.network).toBe(await reader.source.network())
  })

  test('any block is found by its height, by a source that knows none', async () => {
    await mineWithSkips(120)
    const blocks = [...(await source.blocksAbove(0, 200))]
    while (blocks.at(-1)!.height < 122) blocks.push(...(await source.blocksAbove(blocks.at(-1)!.height, 200)))
    for (const height of [1, 2, 40, 77, 121, 122]) {
      expect(await newSource().hashAt(height)).toBe(blocks[height - 1]!.hash)
      expect(await newSource().blockAt(height)).toMatchObject({height, hash: blocks[height - 1]!.hash})
    }
    expect(await newSource().hashAt(123)).toBeUndefined()
    const heights = [130, 122, 60, 61, 62, 5]
    const hashes = heights.map(height => blocks[height - 1]?.hash)
    expect(await newSource().hashesAt(heights)).toEqual(hashes)
    expect(await newSource().links([59, 60, 61])).toEqual(
      [59, 60, 61].map(height => ({height, hash: blocks[height - 1]!.hash, parentHash: blocks[height - 2]!.hash})),
    )
  })

  test('a slot that is told wakes the follower', async () => {
    const over = new AbortController()
    const fed = newSource('confirmed', new SlotFeed(client.url.replace('http', 'ws'), over.signal))
    expect(fed.changed!(over.signal)).toBeUndefined() // no slot was told yet: it is polled as often as without
    let next: Promise<void> | undefined
    for (let i = 0; i < 100 && !next; i++) {
      await client.mine()
      next = fed.changed!(over.signal)
    }
    expect(next).toBeDefined()
    await client.mine()
    await next
    over.abort()
  })

  test('a ping, which client libraries send on a quiet connection, does not end the subscription', async () => {
    const socket = new WebSocket(client.url.replace('http', 'ws'))
    await once(socket, 'open')
    const said = on(socket, 'message', {close: ['close']})
    const next = async () => JSON.parse((await said.next()).value?.[0].data ?? 'null')
    socket.send('{"jsonrpc":"2.0","id":1,"method":"slotSubscribe"}')
    expect(await next()).toMatchObject({id: 1, result: 1})
    socket.send('{"jsonrpc":"2.0","method":"ping"}')
    await client.mine()
    expect(await next()).toMatchObject({method: 'slotNotification'})
    socket.send('{"jsonrpc":"2.0","id":2,"method":"slotUnsubscribe","params":[1]}')
    expect(await next()).toMatchObject({id: 2, result: true})
    socket.close()
  })
})

describe('a node that lags and leaves blocks out', () => {
  const flaky = {lag: {share: 0.35, blocks: 6}, omit: 0.25, hide: 0.2}

  test.each([1, 2, 3])('causes no fork, and all blocks are read (seed %i)', async seed => {
    await mineWithSkips(150)
    const [first] = await source.blocksAbove(1, 1)
    await trouble({...flaky, seed})
    const {blocks, forks} = await followFrom(first!, 152)
    expect(forks).toBe(0)
    expect(blocks.map(({height}) => height)).toEqual(Array.from({length: 150}, (_, i) => i + 3))
  })

  test('names no hash that is not on its chain', async () => {
    await mineWithSkips(60)
    const heights = Array.from({length: 30}, (_, i) => 20 + i)
    const right = await source.hashesAt(heights)
    await trouble({...flaky, hide: 0.05, seed: 7})
    let answers = 0
    for (let i = 0; i < 40; i++) {
      const found = await newSource()
        .hashesAt(heights)
        .catch(error => {
          expect(error).toBeInstanceOf(RetryableError)
        })
      if (!found) continue
      answers += 1
      expect(found).toEqual(right)
    }
    expect(answers).toBeGreaterThan(0)
  })

  test.each([-32004, -32007, -32009, -32014])('%i for a listed block is no fork', async code => {
    await mineWithSkips(5)
    const [tip] = await source.blocksAbove(1, 1)
    await trouble({fail: [{method: 'getBlock', code, times: 3}]})
    const {blocks, forks} = await followFrom(tip!, 7)
    expect([blocks.length, forks]).toEqual([5, 0])
  })
})

describe('forks', () => {
  test('the blocks above a height are those of the new fork, which does not link to the old one', async () => {
    await client.mine(5)
    const before = await source.blocksAbove(1, 20)
    await client.reorg(3)
    const after = await source.blocksAbove(4, 20)
    expect(after.map(({height}) => height)).toEqual([5, 6, 7, 8])
    expect(after[0]!.parentHash).toBe(before.find(({height}) => height === 4)!.hash)
    const replaced = await source.blocksAbove(7, 20)
    expect(replaced).toMatchObject([{height: 8, parentHash: after[2]!.hash}])
    const heights = [3, 4, 5, 6, 7]
    expect(await source.hashesAt(heights)).toEqual([
      before[1]!.hash,
      before[2]!.hash,
      after[0]!.hash,
      after[1]!.hash,
      after[2]!.hash,
    ])
  })

  test('our own blocks answer for the node only while they lead to its final block', async () => {
    await client.mine(finalLag + 3)
    let tip = 0
    for (let more = await source.blocksAbove(0, 99); more.length; more = await source.blocksAbove(tip, 99))
      tip = more.at(-1)!.height
    const final = await source.finalBlock()
    expect(final).toMatchObject({height: 5})
    const ours = await source.hashAt(4)
    await trouble({fail: [{method: 'getBlock', code: -32005, times: 1}]})
    expect(await source.hashAt(4)).toBe(ours) // without a request for it
    await trouble()
    await client.reorg(finalLag + 2)
    await source.finalBlock()
    expect(await source.hashAt(4)).not.toBe(ours)
  })
})

describe('what was pruned', () => {
  beforeEach(async () => {
    await mineWithSkips(finalLag + 20)
  })

  test('is read again from an archive, which is named where it is missing', async () => {
    const history = await openHistory(settings({SOL_RPC_URL: client.url}))
    expect(await history.lacks(3)).toBeUndefined()
    await client.rpc('devnet_prune', [10])
    const again = await openHistory(settings({SOL_RPC_URL: client.url}))
    expect(await again.lacks(3)).toMatch('SOL_ARCHIVE_RPC_URL')
    expect(await again.lacks(10)).toBeUndefined()
    expect(await again.hashAt(3)).toBeUndefined()
    const archive = await openHistory(settings({SOL_RPC_URL: 'http://127.0.0.1:1', SOL_ARCHIVE_RPC_URL: client.url}))
    const heights: number[] = []
    for await (const blocks of archive.blocks(10, 21)) heights.push(...blocks.map(({height}) => height))
    expect(heights).toEqual(Array.from({length: 12}, (_, i) => 10 + i))
    const links = []
    for await (const step of archive.links(10, 21)) links.push(...step)
    expect(links.map(({height}) => height)).toEqual(heights)
    expect(await archive.again(12)).toMatchObject({height: 12, hash: links[2]!.hash})
  })

  test('only final blocks are read again', async () => {
    const history = await openHistory(settings({SOL_RPC_URL: client.url}))
    const {height} = await client.head()
    expect(await history.hashAt(height - finalLag)).toBeDefined()
    expect(await history.hashAt(height - finalLag + 1)).toBeUndefined()
  })
})

describe('a transaction that expired', () => {
  /** A payment whose blockhash is too old now, and which no block holds. */
  let expired: Expired

  beforeEach(async () => {
    await pay(newAddress(), 10n ** 9n)
    const {height: lifetimeFrom, hash} = await client.mine()
    const raw = payment({key: faucetKey, on: hash}, newAddress(), 10n ** 9n)
    const {txid} = parseTransaction(raw, () => undefined)
    expired = {txid, raw: ofFaucet, source: faucet, lifetimeFrom, lifetimeEnd: lifetimeFrom + 151, notFollowed: null}
    for (let i = 0; i < 5; i++) {
      await pay(newAddress(), 10n ** 9n)
      if (i % 2) await client.mine(2)
    }
    await client.mine(150 + finalLag)
  })

  /** By two endpoints. */
  const proveAbsent = (expired: Expired) => {
    const endpoints = [{url: client.url}, {url: client.url}]
    return new SolanaSource(new SolanaNodes({endpoints}), {
      commitment: 'confirmed',
      codes: {native: 'SOL', tokens: new Map()},
    }).proveAbsent(expired)
  }

  test('is proven by the balances of its sender, and by nodes with history that do not know it', async () => {
    const {lamports} = await new SolanaNodes({endpoints: [{url: client.url}]}).ask(node =>
      node.balance(faucet, 'finalized'),
    )
    const final = {height: expect.any(Number), hash: expect.any(String)}
    expect(await proveAbsent(expired)).toMatchObject({
      final: [final, final],
      account: {transactions: 6, balance: String(lamports)},
    })
  })

  test('is proven by a single node three minutes after the block of its end, not before', async () => {
    const {time} = (await source.blockAt(expired.lifetimeEnd))!
    const now = vi.spyOn(Date, 'now')
    now.mockReturnValue(time.getTime() + 179_000)
    expect(await source.proveAbsent(expired)).toBe('only one node is asked, which is believed in 1 s')
    now.mockReturnValue(time.getTime() + 180_000)
    expect(await source.proveAbsent(expired)).toMatchObject({final: [{}]})
    now.mockRestore()
  })

  test('is not proven before its end is final', async () => {
    const {height} = await client.head()
    const late = {...expired, lifetimeEnd: height - finalLag + 1}
    expect(await proveAbsent(late)).toMatch('not past the end')
  })

  test('is not proven if a node leaves out a transaction of its sender', async () => {
    const txid = String(await pay(newAddress(), 10n ** 9n))
    await client.mine(1 + finalLag)
    await trouble({without: [txid]})
    expect(await proveAbsent(expired)).toMatch('have a gap')
    await trouble()
    expect(await proveAbsent(expired)).toMatchObject({account: {transactions: 7}})
  })

  test('is not proven if a node knows it after all', async () => {
    const txid = String(await pay(newAddress(), 10n ** 9n))
    await client.mine(1 + finalLag)
    expect(await proveAbsent({...expired, txid})).toMatch('a node knows the transaction')
  })

  test('is not proven by a node that fails, or keeps no history', async () => {
    await trouble({fail: [{method: 'getSignatureStatuses', code: -32011}]})
    await expect(proveAbsent(expired)).rejects.toThrow('-32011')
    const {account} = (await proveAbsent(expired)) as {account: {after: string}}
    await trouble({without: [account.after]})
    expect(await proveAbsent(expired)).toMatch(/gap|does not know any older transaction/)
  })
})
