// Which transactions of ours are noted as expired, and what becomes of those of which it is not proven. The tests make
// Ethereum's and Polygon's transactions expire by height and by time, so that these tests need no chain that does. The
// indexer has the rights of its role.
import pg from 'pg'
import {afterAll, beforeAll, beforeEach, expect, test} from 'vitest'
import {silent} from '../base/log.ts'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {until} from '../test/support/until.ts'
import {ChainCursor, type Expired} from './cursor.ts'
import type {ChainView} from './family.ts'
import type {FinalitySource} from './finality.ts'
import {type LapseSource, noteLapses} from './lapses.ts'
import {startingBlock} from './start.ts'
import {watch} from './watch.ts'

const minuteMs = 60_000
let db: TestDatabase
let pool: pg.Pool
let writer: ChainWriter
let cursor: ChainCursor
let signed = 0

beforeAll(async () => {
  db = await testDatabase()
  pool = new pg.Pool({connectionString: db.url('sluice_indexer')})
  pool.on('error', () => {}) // the database may be dropped before it closes
  await db.rows(
    `update app.chain set attempts_exclude_by = 'expiry', ends_by = 'height' where chain in ('ETH', 'POLYGON')`,
  )
  writer = await ChainWriter.open(db, 'ETH')
  await writer.write({add: [[], [], [], []]})
  await writer.finalise(writer.head.height)
  cursor = new ChainCursor(pool, 'ETH')
})
afterAll(async () => {
  await pool.end()
  await writer.close()
  await db.drop()
})
beforeEach(async () => {
  await db.rows('delete from chain.lapse')
  await db.rows('delete from app.incident')
  await db.rows(
    `set session_replication_role = replica; delete from custody.journal; set session_replication_role = origin`,
  )
})

/** Signs a transaction that only block `from` + 1 may hold, and that had to be in a block this many minutes ago. */
async function sign({stream = 'ETH', from = 1, minutesAgo = 1} = {}): Promise<string> {
  const txid = `0x${++signed}`
  const lifetime = {from, end: from + 1, clock_ms: Date.now() - minutesAgo * minuteMs}
  await db.rows(
    `insert into custody.journal (stream, seq, kind, subject_id, txid, raw, details, signed_at, hash)
     values ($1, $2, 'pay', gen_random_uuid(), $3, '', $4, now(), '')`,
    [stream, signed, txid, {lifetime}],
  )
  return txid
}

class Source implements LapseSource, FinalitySource {
  readonly confirmations = 1
  /** Private, so that a call that is not a method call fails. */
  readonly #proof: object | string | Error
  readonly asked: string[] = []
  finalHash: string | undefined

  constructor(proof: object | string | Error) {
    this.#proof = proof
  }

  async proveAbsent({txid}: Expired): Promise<object | string> {
    this.asked.push(txid)
    if (this.#proof instanceof Error) throw this.#proof
    return this.#proof
  }

  async finalBlock() {
    return undefined
  }

  async hashAt(height: number) {
    return this.finalHash ?? writer.blocks[height]?.hash
  }
}

const lapses = async () =>
  (await db.rows<{txid: string; evidence: object}>('select txid, evidence from chain.lapse')).map(
    ({txid, evidence}) => [txid, evidence],
  )
const incidents = () =>
  db.rows('select chain, kind, subject, details from app.incident where resolved_at is null order by id')
const unproven = (txid: string, why: string, chain = 'ETH') => ({
  chain: null,
  kind: 'unproven_expiry',
  subject: `${chain}:${txid}`,
  details: {txid, why},
})

test('what the family proves is noted with its evidence', async () => {
  const txid = await sign()
  await noteLapses(cursor, new Source({balance: '7'}))
  expect([await lapses(), await cursor.expired()]).toEqual([[[txid, {balance: '7'}]], []])
})

test('what it cannot prove stays open; ten minutes after its end it is an incident with the newest reason', async () => {
  const [early, late] = [await sign({minutesAgo: 9}), await sign({minutesAgo: 11})]
  await noteLapses(cursor, new Source('the second endpoint does not respond'))
  const source = new Source('the endpoints contradict each other')
  await noteLapses(cursor, source)
  expect(source.asked.sort()).toEqual([early, late].sort())
  expect([await lapses(), await incidents()]).toEqual([[], [unproven(late, 'the endpoints contradict each other')]])
  await noteLapses(cursor, new Source({balance: '7'}))
  expect([(await lapses()).length, await incidents()]).toEqual([2, []])
})

test('a source that fails proves nothing, and is no reason for an incident', async () => {
  await sign({minutesAgo: 11})
  await expect(noteLapses(cursor, new Source(new Error('the node is away')))).rejects.toThrow('the node is away')
  expect([await lapses(), await incidents()]).toEqual([[], []])
})

test('a source without proofs is not asked', async () => {
  await sign({minutesAgo: 11})
  await noteLapses(cursor, {})
  expect([await lapses(), await incidents()]).toEqual([[], []])
})

test('after an accepted gap, what its blocks may hold is never proven absent, and the incident says which blocks', async () => {
  const txid = await sign({stream: 'POLYGON', from: 100, minutesAgo: 11})
  await db.rows(`select app.accept_gap('POLYGON', 500, 'an operator')`)
  const polygon = new ChainCursor(pool, 'POLYGON')
  const block = (height: number) => ({height, hash: `0x${height}`, time: new Date()})
  const node: Pick<ChainView, 'finalBlock' | 'blockAt' | 'lacks'> = {
    finalBlock: async () => block(600),
    blockAt: async height => block(height),
    lacks: async () => undefined,
  }
  const {height, hash, time} = await startingBlock(node as ChainView, polygon, {})
  await polygon.anchor('eip155:137', height, hash, time)
  expect(await db.rows(`select followed_from from chain.cursor where chain = 'POLYGON'`)).toEqual([
    {followed_from: 500},
  ])
  const inRange = await sign({stream: 'POLYGON', from: 499, minutesAgo: 11})
  await db.rows(`update chain.cursor set final_height = 600 where chain = 'POLYGON'`)
  const source = new Source({})
  await noteLapses(polygon, source)
  expect([source.asked, (await lapses()).map(([lapsed]) => lapsed)]).toEqual([[inRange], [inRange]])
  const why =
    'blocks 101 to 499 were not followed (a gap was accepted, or the chain was started later), so no absence can be proven'
  expect(await incidents()).toEqual([unproven(txid, why, 'POLYGON')])
  await expect(db.rows(`select app.accept_gap('POLYGON', 50, 'an operator')`)).rejects.toThrow('is followed already')
  await polygon.anchor('eip155:137', 20, '0x20', time)
  expect(await db.rows(`select followed_from from chain.cursor where chain = 'POLYGON'`)).toEqual([
    {followed_from: 500},
  ])
})

test('the watch beside the blocks asks the source, but not while its final block is not ours', async () => {
  const options = {
    pollIntervalMs: 10,
    stallTimeoutMs: minuteMs,
    written: () => new Promise<void>(() => {}),
    countReorg: () => {},
    log: silent(),
  }
  const txid = await sign()
  const other = new Source({})
  other.finalHash = '0xother'
  expect(await watch(other, cursor, options)).toBe("the final block is not on the node's chain")
  expect([other.asked, await lapses()]).toEqual([[], []])
  const source = new Source({})
  const watching = watch(source, cursor, options)
  await until(async () => (await lapses()).length, {timeoutMs: 5000, what: 'the lapse'})
  source.finalHash = '0xother'
  await watching
  expect(await lapses()).toEqual([[txid, {}]])
})
