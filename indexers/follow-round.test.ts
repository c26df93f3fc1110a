// Single rounds of the loop that follows a chain, each with a source that breaks one rule. (follow.test.ts has them all
// at once, at random; there the layers below catch much of it, too.)
import pino from 'pino'
import {afterEach, beforeEach, expect, test} from 'vitest'
import {openPool} from '../db/client/pool.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {until} from '../test/support/until.ts'
import type {ReadBlock} from './block.ts'
import {type BlockRef, ChainCursor} from './cursor.ts'
import {threshold} from './finality.ts'
import {CannotFollow, type ChainSource, Follower, type FollowOptions, follow} from './follow.ts'
import {writeBlocks} from './match.ts'
import {resume} from './resume.ts'
import {ChainDatabase} from './subsquid/store.ts'

const chain = 'ETH'
const horizon = 4

/** A chain of empty blocks from 0 up to a height; from `forkAt` on, those of another branch. */
function branch(height: number, forkAt = Number.POSITIVE_INFINITY): ReadBlock[] {
  const hashAt = (at: number) => (at < 0 ? '' : `${at < forkAt ? 'a' : 'b'}${at}`)
  return Array.from({length: height + 1}, (_, at) => {
    const time = new Date(1.7e12 + at * 1000)
    return {height: at, hash: hashAt(at), parentHash: hashAt(at - 1), time, candidates: [], sent: [], spends: []}
  })
}

/** A source that shows these blocks. */
class Shown implements ChainSource {
  readonly confirmations = 1
  readonly blockTimes = {medianOf: 1, marginMs: 0}
  blocks: ReadBlock[]

  constructor(blocks: ReadBlock[]) {
    this.blocks = blocks
  }

  network = async () => 'a0'
  head = async (): Promise<BlockRef> => this.blocks.at(-1)!
  finalBlock = async () => this.blocks[0]
  blockAt = async (height: number) => this.blocks[height]
  hashAt = async (height: number) => this.blocks[height]?.hash
  hashesAt = async (heights: number[]) => heights.map(height => this.blocks[height]?.hash)
  lacks = async () => undefined
  blocksAbove = async (height: number, limit: number) => this.blocks.slice(height + 1, height + 1 + limit)
  takeInvalidatedHeight?: () => number | undefined
}

let db: TestDatabase
let cursor: ChainCursor
let source: Shown
let options: FollowOptions
let follower: Follower
let end: () => Promise<void>

beforeEach(async () => {
  db = await testDatabase()
  const pool = openPool(db.url('sluice_indexer'), {name: 'test', max: 2})
  cursor = new ChainCursor(pool, chain)
  await cursor.anchor('a0', 0, 'a0', new Date())
  source = new Shown(branch(10))
  options = {
    database: new ChainDatabase(db.url('sluice_indexer'), chain),
    cursor,
    source,
    network: 'a0',
    log: pino({level: 'silent'}),
    pollMs: 1,
    retryMs: 1,
    horizon,
    write: (store, blocks) => writeBlocks(store, blocks, {chain, display: address => address}),
  }
  follower = new Follower(options)
  while (await follower.round());
  expect(await hashes()).toEqual(branch(10).map(({hash}) => hash))
  end = async () => {
    await follower.forget()
    await pool.end()
    await db.drop()
  }
})
afterEach(() => end())

/** The hashes that are stored, from the lowest block. */
const hashes = async () => (await cursor.blocksFrom(0)).map(({hash}) => hash).reverse()

test('of a list whose blocks do not link, those that do are written', async () => {
  source.blocks = [...branch(12), ...branch(14, 5).slice(13)]
  expect(await follower.round()).toBe(true)
  expect(await cursor.read()).toMatchObject({headHeight: 12, headHash: 'a12'})
})

test('a fork that the source shows only half is not followed before it is as long as what it replaces', async () => {
  source.blocks = branch(10, 8)
  source.blocksAbove = async height => branch(9, 8).slice(height + 1)
  expect(await follower.round()).toBe(false)
  expect(await cursor.read()).toMatchObject({headHeight: 10, headHash: 'a10'})
})

test('another block at the height of the head is a fork', async () => {
  source.blocks = branch(10, 10)
  expect(await follower.round()).toBe(false) // up to the head: there is nothing more to do at once
  expect(await cursor.read()).toMatchObject({headHeight: 10, headHash: 'b10'})
})

test('a fork below the final block, and one that the store cannot undo, cannot be followed', async () => {
  await cursor.finalise(8, 'a8')
  source.blocks = branch(12, 8)
  await expect(follower.round()).rejects.toThrow(CannotFollow)
  source.blocks = branch(12, 2)
  await expect(follower.round()).rejects.toThrow(CannotFollow)
  expect(await cursor.read()).toMatchObject({headHeight: 10, headHash: 'a10'})
})

test('a source of another network cannot be followed', async () => {
  await follower.forget()
  source.network = async () => 'b0'
  await expect(follower.round()).rejects.toThrow(CannotFollow)
})

test('what is learnt late is written at the blocks that are stored, and at no others', async () => {
  source.takeInvalidatedHeight = () => 3
  source.blocks = branch(10, 5)
  expect(await follower.round()).toBe(true)
  expect(await hashes()).toEqual(branch(10).map(({hash}) => hash))
})

test('when the response to a commit was lost, the loop goes on from what is stored', async () => {
  await follower.forget()
  const transact = options.database.transactHot2.bind(options.database)
  let lost = 0
  options.database.transactHot2 = async (...arguments_) => {
    await transact(...arguments_)
    if (!lost++) throw new Error('the response to the commit was lost')
  }
  source.blocks = branch(12)
  const over = new AbortController()
  const following = follow(options, over.signal)
  const isAt = async (height: number) => (await cursor.read())?.headHeight === height
  await until(() => isAt(12), {timeoutMs: 10_000, what: 'block 12'})
  source.blocks = branch(13)
  await until(() => isAt(13), {timeoutMs: 10_000, what: 'block 13'})
  over.abort()
  await following
})

/** Polls of `resume` with another chain first, for as long as one observation is missing. */
async function resumed(shown: ReadBlock[]): Promise<void> {
  await follower.forget()
  let polls = 0
  source.network = async () => {
    source.blocks = ++polls < threshold ? shown : branch(12)
    return 'a0'
  }
  await resume(source, cursor, {network: 'a0', networkSettings: 'none', log: options.log, retryMs: 1})
  expect(polls).toBe(threshold)
}

test('a fork below the final block halts the chain only if it is seen several times in a row', async () => {
  await cursor.finalise(8, 'a8')
  await resumed(branch(12, 8))
  expect(await cursor.read()).toMatchObject({halted: null, headHash: 'a10'})
})

test('a fork deeper than the store can undo rewinds the chain only if it is seen several times in a row', async () => {
  await resumed(branch(12, 5))
  expect(await cursor.read()).toMatchObject({halted: null, headHash: 'a10'})
})

test('a database of another network than the settings is not followed', async () => {
  await follower.forget()
  await cursor.configure()
  source.network = async () => 'b0'
  const settings = {network: 'b0', networkSettings: 'none', log: options.log, retryMs: 1}
  const going = resume(source, cursor, settings)
  const why = async () =>
    (await db.rows(`select waiting_message as why from chain.configured where waiting_reason = 'wrong_network'`))[0]
  expect(await until(why, {timeoutMs: 10_000, what: 'the chain to wait'})).toEqual({
    why: expect.stringMatching(/^this database follows a0, and ETH is set to b0; check .*, or name another database/),
  })
  settings.network = 'a0'
  source.network = async () => 'a0'
  await going
})
