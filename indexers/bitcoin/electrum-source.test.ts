// Wrong and late responses of an Electrum server, with the source and the loop, on a real chain and a real database.
import {createHash} from 'node:crypto'
import type pg from 'pg'
import pino from 'pino'
import {afterAll, afterEach, beforeAll, beforeEach, expect, test, vi} from 'vitest'
import {Electrum} from '../../chains/bitcoin/electrum.ts'
import {addressOfScript, scripthashOf, scriptOfAddress} from '../../chains/bitcoin/script.ts'
import {chain} from '../../chains/registry.ts'
import {openPool} from '../../db/client/pool.ts'
import {lie as lieLike} from '../../test/support/bitcoin/electrum-lies.ts'
import {faults, LyingElectrum} from '../../test/support/bitcoin/lying-electrum.ts'
import {startBitcoin, type TestBitcoin} from '../../test/support/bitcoin/node.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {makeMerchant, watchAddress} from '../../test/support/people.ts'
import {until} from '../../test/support/until.ts'
import {ChainCursor} from '../cursor.ts'
import {advanceFinality} from '../finality.ts'
import {Follower} from '../follow.ts'
import {writeBlocks} from '../match.ts'
import {ChainDatabase} from '../subsquid/store.ts'
import {AddressFeed} from './addresses.ts'
import {ElectrumSource} from './electrum-source.ts'

const bitcoin = chain('BTC')
if (bitcoin.family !== 'bitcoin') throw new Error('BTC is of another family')
const format = bitcoin.networks.regtest
const settings = {chain: bitcoin, network: 'regtest', confirmations: 2} as const
const log = pino({level: 'silent'})

let node: TestBitcoin
let db: TestDatabase
let merchant: string
let lying: LyingElectrum
let source: ElectrumSource
let electrum: Electrum
let follower: Follower
let cursor: ChainCursor
let addresses: AddressFeed
let pool: pg.Pool

beforeAll(async () => {
  node = await startBitcoin()
  db = await testDatabase()
  merchant = await makeMerchant(db, ['BTC'])
  lying = await LyingElectrum.start(node.electrumUrl)
  pool = openPool(db.url('sluice_indexer'), {name: 'test', max: 3})
  cursor = new ChainCursor(pool, 'BTC')
})
afterAll(async () => {
  await Promise.all([pool.end(), lying.close(), node.stop()])
  await db.drop()
})

/** Simulates a new process: new connections, and nothing in memory. */
beforeEach(async () => {
  lying.behave = undefined
  const url = db.url('sluice_indexer')
  electrum = new Electrum({urls: [lying.url], genesis: format.genesis, log, timeoutMs: 5000})
  addresses = new AddressFeed(pool, url, 'BTC')
  source = new ElectrumSource({electrum, cursor, db: pool, addresses, settings, log})
  const {height} = await node.client.head()
  const network = await source.network()
  const anchor = await source.blockAt(height)
  await cursor.anchor(network, height, anchor!.hash, anchor!.time)
  const write = {chain: 'BTC', display: (address: string) => address}
  follower = new Follower({
    database: new ChainDatabase(url, 'BTC'),
    cursor,
    source,
    network,
    log,
    pollMs: 1,
    horizon: 3,
    write: (store, blocks) => writeBlocks(store, blocks, write),
  })
  await catchUp()
})
afterEach(async () => {
  await Promise.all([follower.forget(), addresses.close()])
  electrum.close()
})

let program = 0
function newAddress(): string {
  const script = Buffer.concat([Uint8Array.of(0, 20), Buffer.from(`${++program}`.padStart(20, 'x'))])
  return addressOfScript(script, format)!
}

const watch = (address: string) =>
  watchAddress(db, merchant, {address, family: 'bitcoin', watched: ['BTC'], chains: ['BTC']})

/** Runs rounds until the loop has the head and nothing is left to do. */
async function catchUp(): Promise<void> {
  const rest = async () => {
    try {
      while (await follower.round());
    } catch (error) {
      await follower.forget()
      throw error
    }
    await advanceFinality(source, cursor)
    return follower.tip?.hash === (await node.client.head()).hash
  }
  await until(rest, {timeoutMs: 20_000, what: 'the loop at the head'})
}

async function rowOf(txid: string) {
  const [row] = await db.rows<{status: string; events: string; hash: string}>(
    `select status, block_hash as hash, (select string_agg(substr(type, 9), ' ' order by position) from app.event where subject_id = d.id) as events
     from app.deposit d where chain = 'BTC' and txid = $1`,
    [txid],
  )
  return row
}

/** Changes the response to one call, a number of times. */
function lie(method: string, change: (right: unknown) => unknown, times = Number.POSITIVE_INFINITY): {lies: number} {
  const count = {lies: 0}
  lying.behave = async (call, right) => {
    if (call.method !== method || count.lies >= times) return right()
    count.lies++
    return change(await right())
  }
  return count
}

test.each<[string, string, (right: never) => unknown]>([
  ['another position', 'blockchain.transaction.get_merkle', (proof: {pos: number}) => ({...proof, pos: proof.pos + 2})],
  ['other siblings', 'blockchain.transaction.get_merkle', (proof: object) => ({...proof, merkle: ['11'.repeat(32)]})],
  ['no siblings', 'blockchain.transaction.get_merkle', (proof: object) => ({...proof, merkle: []})],
  ['another transaction', 'blockchain.transaction.get', (raw: string) => raw.replace(/.{8}$/, 'ffffffff')],
  ['a history without it', 'blockchain.scripthash.get_history', () => []],
  [
    'a history with one more',
    'blockchain.scripthash.get_history',
    (all: object[]) => [...all, {tx_hash: '22'.repeat(32), height: 1}],
  ],
])(
  'a server that responds with %s is dropped, and nothing is written until one is honest',
  async (_, method, change) => {
    const address = newAddress()
    await watch(address)
    await catchUp()
    const {txid} = await node.client.pay([{to: address, amount: 5000n}])
    const {generation} = electrum
    const count = lie(method, change as (right: unknown) => unknown)
    await node.client.mine()
    await until(
      async () => {
        await follower.round().catch(() => follower.forget())
        return count.lies > 0 && electrum.generation !== generation
      },
      {timeoutMs: 20_000, what: 'the liar to be dropped'},
    )
    expect(await rowOf(txid)).toBeUndefined()
    lying.behave = undefined
    await catchUp()
    expect(await rowOf(txid)).toMatchObject({status: 'pending', events: 'pending'})
  },
)

test('payments to an address from before it was watched are found, in recent blocks, in final blocks, and below', async () => {
  const addresses = Array.from({length: 8}, newAddress)
  const paid: string[] = []
  for (const to of addresses) {
    paid.push((await node.client.pay([{to, amount: 5000n}])).txid)
    await node.client.mine()
    await catchUp()
  }
  for (const txid of paid) expect(await rowOf(txid)).toBeUndefined()
  const {n: blocks} = (await db.rows('select count(*) as n from chain.block where chain = $1', ['BTC']))[0]!
  for (const address of addresses) await watch(address)
  await catchUp()
  for (const txid of paid.slice(0, -1))
    expect(await rowOf(txid)).toMatchObject({status: 'final', events: 'pending confirmed'})
  expect(await rowOf(paid.at(-1)!)).toMatchObject({status: 'pending', events: 'pending'})
  expect((await db.rows('select count(*) as n from chain.block where chain = $1', ['BTC']))[0]!.n).toBe(blocks)
  expect((await cursor.read())!.halted).toBeNull()
})

test('a transaction that is mined again at the same height without a notification is found in its new block', async () => {
  const address = newAddress()
  await watch(address)
  const {txid} = await node.client.pay([{to: address, amount: 5000n}])
  await node.client.mine()
  await catchUp()
  const before = await rowOf(txid)
  lying.tells = false
  await node.client.reorg(1, {transactions: 'same-height'})
  await catchUp()
  lying.tells = true
  const after = await rowOf(txid)
  expect(after).toMatchObject({status: 'final', events: 'pending confirmed'}) // the new branch is one block longer
  expect(after!.hash).not.toBe(before!.hash)
})

test('a history that was forged while its status changed and changed back is requested again', async () => {
  const address = newAddress()
  await watch(address)
  const {txid} = await node.client.pay([{to: address, amount: 5000n}])
  await node.client.mine()
  await catchUp()
  await node.client.reorg(1, {transactions: 'same-height'}) // the history is requested, and its status is unchanged
  const {generation} = electrum
  await lieLike(lying, 'forges histories')
  const forge = lying.behave!
  lying.behave = (call, pass) => (electrum.generation === generation ? forge(call, pass) : pass()) // the next one is honest
  await until(
    async () => {
      await follower.round().catch(() => follower.forget())
      return electrum.generation !== generation
    },
    {timeoutMs: 20_000, what: 'the forger to be dropped'},
  )
  await catchUp()
  expect(await rowOf(txid)).toMatchObject({status: 'final', events: 'pending confirmed'})
})

/** The history of an address has an entry more, and the status of that one, too. */
function addToHistory(address: string, entry: {tx_hash: string; height: number}): void {
  const scripthash = scripthashOf(scriptOfAddress(address, format))
  lying.behave = async ({method, params}, right) => {
    if (params[0] !== scripthash || !method.startsWith('blockchain.scripthash.')) return right()
    await right()
    const history = await lying.honestly(ask => ask('blockchain.scripthash.get_history', scripthash))
    const all = [...(history as (typeof entry)[]), entry]
    if (method.endsWith('get_history')) return all
    const text = all.map(({tx_hash, height}) => `${tx_hash}:${height}:`).join('')
    return createHash('sha256').update(text).digest('hex')
  }
}

test('an unconfirmed transaction that the server lacks is absent, and the server is not dropped for it', async () => {
  const address = newAddress()
  await watch(address)
  addToHistory(address, {tx_hash: '33'.repeat(32), height: 0})
  await catchUp()
  const {generation} = electrum
  const {txid} = await node.client.pay([{to: address, amount: 5000n}])
  const shown = async () => {
    await follower.round()
    return (await source.unconfirmed())?.transactions.map(({transaction}) => transaction.txid)
  }
  await until(async () => (await shown())?.includes(txid), {timeoutMs: 20_000, what: 'what is there to be shown'})
  expect(await shown()).toEqual([txid])
  const honest = lying.behave!
  lying.behave = (call, right) =>
    call.method === 'blockchain.transaction.get' ? faults.error('excessive resource usage') : honest(call, right)
  expect(await shown()).toBeUndefined() // a refusal is no proof
  expect(electrum.generation).toBe(generation)
})

test('a transaction in a block that is not read yet is not absent, although the server lacks it', async () => {
  const address = newAddress()
  await watch(address)
  const {height} = await node.client.head()
  addToHistory(address, {tx_hash: '55'.repeat(32), height: height + 1})
  const waits = async () => {
    await catchUp()
    return (await source.unconfirmed()) === undefined
  }
  await until(waits, {timeoutMs: 20_000, what: 'the source to wait for the block'})
})

test('a payment whose notification was lost is found, because statuses are asked for again', async () => {
  const address = newAddress()
  await watch(address)
  const scripthash = scripthashOf(scriptOfAddress(address, format))
  const isSubscribed = async () => {
    await catchUp()
    return lying.scripthashes.has(scripthash)
  }
  await until(isSubscribed, {timeoutMs: 20_000, what: 'the address to be subscribed'})
  lying.tells = false
  const {txid} = await node.client.pay([{to: address, amount: 5000n}])
  await node.client.mine()
  await catchUp()
  expect(await rowOf(txid)).toBeUndefined()
  const now = Date.now.bind(Date)
  let laterMs = 0
  const later = vi.spyOn(Date, 'now').mockImplementation(() => now() + laterMs)
  for (let round = 0; round < 20 && !(await rowOf(txid)); round++) {
    laterMs += 600_000 // the server may need a while to know, too
    await catchUp()
  }
  later.mockRestore()
  lying.tells = true
  expect(await rowOf(txid)).toMatchObject({status: 'pending'})
})

/** The server denies that anything ever paid the address. */
function hideHistory(address: string): void {
  const scripthash = scripthashOf(scriptOfAddress(address, format))
  lying.behave = async ({method, params}, right) => {
    const answer = await right()
    if (params[0] !== scripthash) return answer
    return method === 'blockchain.scripthash.get_history'
      ? []
      : method === 'blockchain.scripthash.subscribe'
        ? null
        : answer
  }
}

test('a payment that was proven stays when its block is written again, whatever a server hides', async () => {
  const [address, late] = [newAddress(), newAddress()]
  await watch(address)
  const {txid} = await node.client.pay([
    {to: address, amount: 5000n},
    {to: late, amount: 6000n},
  ])
  await node.client.mine()
  await catchUp()
  hideHistory(address)
  electrum.drop('the next server hides it')
  await watch(late) // found late: the block is written again
  const isWritten = async () => {
    await catchUp()
    return (await db.rows('select from chain.transfer where txid = $1', [txid])).length === 2
  }
  await until(isWritten, {timeoutMs: 20_000, what: 'the late payment'})
  expect(await rowOf(txid)).toMatchObject({events: expect.not.stringContaining('reorged')})
})

test('a stored payment is missing from a block only if the whole block is proven', async () => {
  const address = newAddress()
  await watch(address)
  const {txid} = await node.client.pay([{to: address, amount: 5000n}])
  const {height} = await node.client.mine()
  await catchUp()
  const below = {height: height - 1, hash: (await source.hashAt(height - 1))!}
  const open = () => new ElectrumSource({electrum, cursor, db: pool, addresses, settings, log, readsAgainAbove: below})
  hideHistory(address)
  const hides = lying.behave!
  const honest = open()
  await honest.head()
  expect((await honest.blocksAbove(height - 1, 1))[0]!.candidates.map(one => one.txid)).toContain(txid)
  lying.behave = (call, right) => {
    const leavesOut = call.method === 'blockchain.transaction.id_from_pos' && Number(call.params[1]) > 0
    return leavesOut ? faults.error('no such transaction') : hides(call, right)
  }
  const lied = open()
  await lied.head()
  await expect(lied.blocksAbove(height - 1, 1)).rejects.toThrow()
})

test('a chain that stops because its servers contradict themselves reports the transaction, and continues with an honest server', async () => {
  const reported = () => db.rows<{txid: string}>('select chain, txid, message from chain.standing_contradiction')
  const address = newAddress()
  await watch(address)
  const {height} = await node.client.mine()
  const invented = '44'.repeat(32)
  addToHistory(address, {tx_hash: invented, height})
  await until(
    async () => {
      await follower.round().catch(() => follower.forget())
      return (await reported()).length > 0
    },
    {timeoutMs: 20_000, what: 'the contradiction to be reported'},
  )
  const message = `a history names ${invented}, and there is no such transaction`
  expect(await reported()).toEqual([{chain: 'BTC', txid: invented, message}])
  lying.behave = undefined
  await catchUp()
  expect(await reported()).toEqual([])
})

test('headers without work, or without a link to ours, are refused', async () => {
  const {headHeight} = (await cursor.read())!
  const count = lie('blockchain.block.headers', right => {
    const {hex, ...rest} = right as {hex: string}
    return {...rest, hex: `${'f'.repeat(8)}${hex.slice(8, 144)}01000003${hex.slice(152)}`}
  })
  await node.client.mine()
  await until(
    async () => {
      await follower.round().catch(() => follower.forget())
      return count.lies > 0
    },
    {timeoutMs: 20_000, what: 'headers to be asked for'},
  )
  expect((await cursor.read())!.headHeight).toBe(headHeight)
})
