// What custody signs where transactions expire: the earlier bytes or new ones, for how long, and on which decisions of
// an operator it rests. The tests make Ethereum's transactions expire by height and by time, so that these tests need
// no chain that does.
import {randomUUID} from 'node:crypto'
import pg from 'pg'
import {afterAll, beforeAll, beforeEach, expect, test} from 'vitest'
import {Money} from '../../test/support/money.ts'
import type {Attempt} from './attempts.ts'
import {attemptToRepeat, detailsOfNew, lifetimeInBlocks, lifetimeInTime, linkedNow} from './expiring.ts'
import type {Plan, PolicyContext} from './plan.ts'

let money: Money
let client: pg.Client
/** With the rights of custody. */
let context: PolicyContext
const settings = {maxHeadAgeMs: 60_000, maxLapses: 3}

beforeAll(async () => {
  money = await Money.open()
  await money.deposit(money.treasury, 1)
  client = new pg.Client({connectionString: money.db.url('sluice_custody')})
  await client.connect()
  context = {client} as unknown as PolicyContext
})
afterAll(async () => {
  await client.end()
  await money.close()
})
beforeEach(() => endsBy('height'))

async function endsBy(what: 'height' | 'time'): Promise<void> {
  await money.db.rows(`update app.chain set attempts_exclude_by = 'expiry', ends_by = $1 where chain = 'ETH'`, [what])
}

/** The head was linked, and has its time, this many seconds from now. */
async function head({linked = 0, time = 0}): Promise<void> {
  await money.db.rows(
    `update chain.cursor set head_moved_at = clock_timestamp() + $1 * interval '1 second', head_time = clock_timestamp() + $2 * interval '1 second'`,
    [linked, time],
  )
}

const attempt = (txid: string, fate: Attempt['fate'], lapsed = false) => ({txid, fate, lapsed}) as Attempt

test('the earlier bytes are given again as long as they may be mined, and while they are final', () => {
  const dead = attempt('a', 'dead', true)
  for (const fate of ['open', 'in_block', 'final'] as const) {
    const alive = attempt('b', fate)
    expect(attemptToRepeat([dead, alive], settings)).toBe(alive)
  }
  expect(attemptToRepeat([], settings)).toBeUndefined()
  expect(attemptToRepeat([dead, dead], settings)).toBeUndefined()
})

test('a payment of which two transactions may be mined is refused; so is one of which too many expired, but not one of which some failed', () => {
  const lapsed = attempt('a', 'dead', true)
  expect(() => attemptToRepeat([attempt('a', 'open'), attempt('b', 'open')], settings)).toThrow(
    expect.objectContaining({code: 'payment_contested'}),
  )
  expect(() => attemptToRepeat([lapsed, lapsed, lapsed], settings)).toThrow(
    expect.objectContaining({code: 'transaction_expired'}),
  )
  expect(attemptToRepeat([lapsed, lapsed, attempt('c', 'dead')], settings)).toBeUndefined()
})

test('nothing is signed while no block was linked', async () => {
  await head({linked: -50})
  await expect(linkedNow(context, 'ETH', settings)).resolves.toMatchObject({headHeight: money.eth.head.height})
  await head({linked: -70})
  await expect(linkedNow(context, 'ETH', settings)).rejects.toMatchObject({
    code: 'head_stale',
    message: 'the indexer of ETH linked no block for more than 60000 ms',
  })
  await expect(linkedNow(context, 'POLYGON', settings)).rejects.toMatchObject({code: 'head_stale'})
})

test("where a time is the end, nothing is signed while the head's time is not the clock's", async () => {
  await head({time: 3600})
  await expect(linkedNow(context, 'ETH', settings)).resolves.toBeDefined()
  await endsBy('time')
  await expect(linkedNow(context, 'ETH', settings)).rejects.toMatchObject({
    code: 'head_stale',
    message: expect.stringMatching(/^the time of the newest block of ETH is 3[56]\d{5} ms ahead of the clock$/),
  })
  await head({time: -40})
  await expect(linkedNow(context, 'ETH', settings)).rejects.toMatchObject({
    code: 'head_stale',
    message: expect.stringMatching(/ms behind the clock$/),
  })
  for (const time of [-25, 25]) {
    await head({time})
    await expect(linkedNow(context, 'ETH', settings)).resolves.toBeDefined()
  }
})

test('a lifetime ends at the latest its length and the margin after the clock, also for the newest head that is accepted', async () => {
  await endsBy('time')
  await head({time: 29})
  const linked = await linkedNow(context, 'ETH', settings)
  const lifetime = lifetimeInTime(linked, 60_000)
  expect(lifetime).toEqual({
    from: linked.finalHeight,
    end: Math.floor(linked.headTimeMs) + 60_000,
    clock_ms: Math.floor(linked.headTimeMs) + 90_000,
  })
  expect(lifetime.end).toBeLessThanOrEqual(linked.nowMs + 60_000 + 30_000)
  expect(lifetimeInBlocks({...linked, finalHeight: 7, headHeight: 9, nowMs: 1000}, 10, 500)).toEqual({
    from: 7,
    end: 19,
    clock_ms: 36_000,
  })
})

test('a new signature names the earlier ones that are dead only because an operator decided so', async () => {
  const subjectId = randomUUID()
  const add = async (txid: string, subject: string, evidence: object) => {
    await money.db.rows(
      `insert into custody.journal (stream, seq, kind, subject_id, token, amount, destination, source, sender, max_fee, txid, raw, details, signed_at, hash)
       select 'ETH', 1 + (select coalesce(max(seq), 0) from custody.journal), 'pay', $1, 'USDC', 1, 'd', 's', 's', 1, $2, '', '{}', now(), ''`,
      [subject, txid],
    )
    await money.db.rows(
      `insert into chain.lapse (chain, txid, final_height, final_hash, evidence) values ('ETH', $1, 1, '', $2)`,
      [txid, evidence],
    )
  }
  const details = () => detailsOfNew(context, {chain: 'ETH', subjectId} as Plan, 'new')
  await add('proven', subjectId, {height: null})
  await add('other', randomUUID(), {decided: 'absent'})
  await expect(details()).resolves.toEqual({})
  await add('first', subjectId, {decided: 'absent'})
  await add('second', subjectId, {decided: 'absent'})
  await expect(details()).resolves.toEqual({absent: ['first', 'second']})
})

test('a transaction whose id the journal has is refused', async () => {
  await expect(detailsOfNew(context, {chain: 'ETH', subjectId: randomUUID()} as Plan, 'proven')).rejects.toMatchObject({
    code: 'txid_taken',
  })
  await expect(detailsOfNew(context, {chain: 'POLYGON', subjectId: randomUUID()} as Plan, 'proven')).resolves.toEqual(
    {},
  )
})
