// Where following a chain begins. The search, on made-up times; what counts as the first address, and what an operator
// may decide, on a real database. (That no deposit is lost on real chains: test/conformance and
// test/long/following.test.ts.)
import fc from 'fast-check'
import pg from 'pg'
import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, test} from 'vitest'
import {silent} from '../base/log.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant, watchAddress} from '../test/support/people.ts'
import {blockTimes as bitcoinTimes} from './bitcoin/network.ts'
import {ChainCursor} from './cursor.ts'
import type {BlockTimes, ChainView} from './family.ts'
import {newestSurelyBefore, startingBlock} from './start.ts'
import type {Why} from './waits.ts'

const minute = 60_000

/** A source of headers with these times that counts requests. It has no headers below `pruned`. */
function headers(times: number[], blockTimes: BlockTimes, pruned = 0) {
  const asked: number[] = []
  const blockAt: ChainView['blockAt'] = async height => {
    asked.push(height)
    const time = times[height]
    if (time === undefined || height < pruned) return
    return {height, hash: `${height}`, time: new Date(time)}
  }
  return {blockAt, blockTimes, asked}
}

describe('the newest block that surely existed before a moment', () => {
  const median = (times: number[]) => times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)]!

  /**
   * Real moments at which blocks were mined, and the times that miners wrote into them, within the rules of Bitcoin.
   */
  const bitcoin = fc
    .array(
      fc.record({
        gap: fc.integer({min: 0, max: 40}),
        lie: fc.integer({min: 0, max: 99}),
        ahead: fc.integer({min: 0, max: 120}),
      }),
      {
        minLength: 20,
        maxLength: 400,
      },
    )
    .map(blocks => {
      const mined: number[] = []
      const times: number[] = []
      let liars = 0
      for (const {gap, lie, ahead} of blocks) {
        const now = (mined.at(-1) ?? 1e12) + gap ** 2 * 10_000 + 1
        const last = times.slice(-11)
        const lowest = last.length ? median(last) + 1 : 0
        const honest = Math.max(lowest, now + (lie < 30 ? ahead : ahead / 60) * minute)
        liars = lie > 80 ? liars + 1 : Math.max(0, liars - 0.5)
        times.push(lie > 80 && liars < 3 ? lowest : honest) // the lowest time that is allowed
        mined.push(now)
      }
      return {mined, times}
    })

  test("was mined before it, whatever miners and the database's clock say, and not much earlier than necessary", async () => {
    await fc.assert(
      fc.asyncProperty(bitcoin, fc.nat(), fc.integer({min: 0, max: 170}), async ({mined, times}, pick, clockAhead) => {
        const top = times.length - 1
        const at = mined[pick % mined.length]! + 1
        const source = headers(times, bitcoinTimes)
        const {height, isMissing} = await newestSurelyBefore(source, top, at + clockAhead * minute)
        expect(isMissing).toBe(false)
        if (height > 0) expect(mined[height]).toBeLessThan(at)
        const last = mined.findLastIndex(moment => moment < at - bitcoinTimes.marginMs - 120 * minute)
        expect(height).toBeGreaterThanOrEqual(Math.min(last - 21, top - 10))
        expect(new Set(source.asked).size).toBeLessThanOrEqual(11 * (2 * Math.ceil(Math.log2(top + 2)) + 2))
      }),
      {numRuns: 500},
    )
  })

  test('is found with fifty requests among twenty million blocks, and with few near the head', async () => {
    const source = headers([], {medianOf: 1, marginMs: 0})
    const blockAt: ChainView['blockAt'] = async height => {
      source.asked.push(height)
      return {height, hash: '', time: new Date(height * 1000)}
    }
    const top = 20_000_000
    for (const [seconds, requests] of [
      [top, 1],
      [top - 50, 14],
      [12_345, 50],
      [0, 50],
    ] as const) {
      source.asked.length = 0
      expect(await newestSurelyBefore({...source, blockAt}, top, seconds * 1000)).toEqual({
        height: seconds,
        isMissing: false,
      })
      expect(source.asked.length).toBeLessThanOrEqual(requests)
    }
  })

  test('is reported as missing if the headers do not go back that far', async () => {
    const times = Array.from({length: 100}, (_, i) => i * minute)
    const plain = {medianOf: 1, marginMs: 0}
    expect(await newestSurelyBefore(headers(times, plain, 40), 99, 30 * minute)).toEqual({height: 39, isMissing: true})
    expect(await newestSurelyBefore(headers(times, plain, 40), 99, 40 * minute)).toEqual({height: 40, isMissing: false})
  })
})

describe('a chain that was never followed', () => {
  let db: TestDatabase
  let indexer: pg.Pool
  beforeEach(async () => {
    db = await testDatabase()
    indexer = new pg.Pool({connectionString: db.url('sluice_indexer'), max: 1})
  })
  afterEach(async () => {
    await indexer.end()
    await db.drop()
  })

  const times = Array.from({length: 100}, (_, i) => i * minute)
  /** Where it begins with a node that lacks these blocks. */
  const begin = (options: {startHeight?: number} = {}, lacking: number[] = []) => {
    const blocks = headers(times, {medianOf: 1, marginMs: 0})
    const lacks = async (height: number) => (lacking.includes(height) ? 'it was pruned' : undefined)
    const source = {...blocks, lacks, finalBlock: async () => ({height: 99, hash: '99'})} as unknown as ChainView
    return startingBlock(source, new ChainCursor(indexer, 'ETH'), options)
  }
  const treasury = (at: string) =>
    db.rows(
      `insert into custody.address (address, family, derivation_index, purpose, created_at)
       values ('0xTreasury', 'evm', 0, 'treasury', $1)`,
      [at],
    )

  test('does not begin before custody has made addresses, nor by itself with a seed that is older than the database', async () => {
    await expect(begin()).rejects.toMatchObject({reason: 'custody_not_started'})
    expect(await begin({startHeight: 1})).toMatchObject({height: 0})
    await treasury('-infinity')
    await expect(begin()).rejects.toMatchObject({reason: 'start_unknown'})
    expect(await begin({startHeight: 1})).toMatchObject({height: 0})
  })

  test('begins at the first address, or lower as set, and never higher', async () => {
    await treasury(new Date(50 * minute).toISOString())
    expect(await begin()).toMatchObject({height: 50})
    expect(await begin({startHeight: 40})).toMatchObject({height: 39})
    expect(await begin({startHeight: 51})).toMatchObject({height: 50})
    await expect(begin({startHeight: 52})).rejects.toMatchObject({reason: 'start_height_too_high', firstHeight: 51})
  })

  test('does not begin with a block that the node lacks', async () => {
    await treasury(new Date(50 * minute).toISOString())
    await expect(begin({}, [51])).rejects.toMatchObject({reason: 'blocks_missing', firstHeight: 51})
    expect(await begin({}, [52])).toMatchObject({height: 50})
  })
})

describe('the first address of a family', () => {
  let db: TestDatabase
  let indexer: pg.Pool
  beforeAll(async () => {
    db = await testDatabase()
    indexer = new pg.Pool({connectionString: db.url('sluice_indexer'), max: 1})
  })
  afterAll(async () => {
    await indexer.end()
    await db.drop()
  })

  const firstAddress = (chain: 'ETH' | 'POLYGON' | 'BTC') => new ChainCursor(indexer, chain).firstAddressAt()
  const treasury = (address: string, family: string, at: string) =>
    db.rows(
      `insert into custody.address (address, family, derivation_index, purpose, created_at) values ($1, $2, 0, 'treasury', $3)`,
      [address, family, at],
    )

  test('is any that was handed out on any of its chains, or its treasury; with a seed from elsewhere it is unknown', async () => {
    expect(await firstAddress('ETH')).toBeUndefined()
    const before = Date.now() - 1000
    const merchant = await makeMerchant(db, ['ETH'])
    const address = `0x${'1'.repeat(40)}`
    await watchAddress(db, merchant, {address, family: 'evm', watched: ['ETH'], chains: ['ETH']})
    expect(await firstAddress('POLYGON')).toBeGreaterThan(before)
    expect(await firstAddress('BTC')).toBeUndefined()
    await db.rows(
      `insert into custody.address (address, family, derivation_index, taken_at, merchant_id) values ('0x22', 'evm', 2, '2026-02-02T00:00:00Z', $1)`,
      [merchant],
    )
    expect(await firstAddress('ETH')).toBe(Date.parse('2026-02-02T00:00:00Z'))
    await treasury('0x33', 'evm', '2026-01-01T00:00:00Z')
    expect(await firstAddress('POLYGON')).toBe(Date.parse('2026-01-01T00:00:00Z'))
    await treasury('tb1q', 'bitcoin', '-infinity')
    expect(await firstAddress('BTC')).toBe(Number.NEGATIVE_INFINITY)
  })

  test('that was handed out while the node returned its final block is not missed: the block is read first', async () => {
    const order: string[] = []
    const cursor = new ChainCursor(indexer, 'ETH')
    const blocks = headers([0, 1, 2, 3], {medianOf: 1, marginMs: 0})
    const source = {
      ...blocks,
      lacks: async () => undefined,
      finalBlock: async () => {
        order.push('final block')
        return {height: 3, hash: '3'}
      },
    } as unknown as ChainView
    const spied = new Proxy(cursor, {
      get(target, name) {
        if (name === 'firstAddressAt') order.push('addresses')
        const value = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    expect(await startingBlock(source, spied, {})).toMatchObject({height: 3})
    expect(order).toEqual(['final block', 'addresses'])
  })

  test('decides where a chain begins until an operator does; accepting a gap needs its name and a chain never followed', async () => {
    const cursor = new ChainCursor(indexer, 'BTC')
    await cursor.configure()
    const tell = (why: Why) => cursor.waits.tell('reading', why, {log: silent()})
    await tell({reason: 'blocks_missing', message: 'the node has pruned it', firstHeight: 500})
    const accept = (height: number) => db.rows(`select * from app.accept_gap('BTC', $1, 'an operator')`, [height])
    await expect(accept(500)).rejects.toThrow('there is no gap: no block below 500 of BTC can have paid us')
    await tell({reason: 'node_unavailable', message: 'it is away'}) // this reason has no height
    expect(await accept(800)).toMatchObject([{missing_from: 500, follow_from: 800, accepted_by: 'an operator'}])
    expect(await accept(900)).toMatchObject([{missing_from: 500, follow_from: 900}])
    expect(await cursor.acceptedStart()).toBe(900)
    await cursor.anchor('test', 899, 'hash', new Date())
    await expect(accept(1000)).rejects.toThrow('BTC is followed already')
    await expect(db.rows(`select app.forget_chain('BTC')`)).rejects.toThrow('BTC was followed')
    await new ChainCursor(indexer, 'POLYGON').configure()
    expect(await db.rows(`select app.forget_chain('POLYGON') as done, app.forget_chain('ETH') as never`)).toEqual([
      {done: true, never: false},
    ])
  })
})
