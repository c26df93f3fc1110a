// Sums of days that have ended: they are stored once, and what analysts read is the same before and after.
import {readFileSync} from 'node:fs'
import {afterEach, beforeEach, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant, makeUser, type TestUser} from '../test/support/people.ts'

let db: TestDatabase
let user: TestUser
let writer: ChainWriter

beforeEach(async () => {
  db = await testDatabase()
  user = await makeUser(db, await makeMerchant(db), ['ETH'])
  writer = await ChainWriter.open(db, 'ETH')
})
afterEach(async () => {
  await writer.close()
  await db.drop()
})

const paid = (txid: string, amount = 1_000_000n) => [{txid, amount, recipient: user.address}]

/** All that is there is some days older. */
async function age(days: number): Promise<void> {
  const client = await db.pool.connect()
  await client.query('begin; set local session_replication_role = replica')
  await client.query('update app.ledger_entry set created_at = created_at - make_interval(days => $1)', [days])
  await client.query('update app.deposit set created_at = created_at - make_interval(days => $1)', [days])
  await client.query('commit')
  client.release()
}

async function sumUp(): Promise<void> {
  for (;;) {
    const [row] = await db.rows<{left: number}>('select app.sum_up_ledger_days(2) + app.sum_up_deposit_days(2) as left')
    if (!row!.left) return
  }
}

const stored = async (table: string) => (await db.rows(`select distinct day from app.${table}`)).length
const ledger = () => db.rows('select * from analytics.daily_ledger order by day, kind, account')
const volume = () =>
  db.rows(
    'select deposit_count::int as count, amount, final_count::int as final from analytics.daily_volume order by day',
  )

test('the ledger by day is the same before and after its days are stored, and what is posted later adds to it', async () => {
  for (let n = 1; n <= 5; n++) {
    await writer.write({add: [paid(`day ${n}`)]})
    await writer.finalise(n)
    await age(3)
  }
  const before = await ledger()
  expect(before.length).toBeGreaterThanOrEqual(10)
  await sumUp()
  expect(await stored('ledger_day')).toBe(5)
  expect(await ledger()).toEqual(before)
  await writer.write({add: [paid('today')]})
  await writer.finalise(6)
  await sumUp()
  expect(await stored('ledger_day')).toBe(5)
  const days = new Set((await ledger()).map(row => String(row.day)))
  expect(days.size).toBe(6)
  expect(await db.rows('select sum(amount_base_units)::text as sum from analytics.daily_ledger')).toEqual([{sum: '0'}])
  expect(await db.rows('select * from audit.ledger_days')).toEqual([])
})

test('a day that ended less than a day ago is not stored: a transaction may still post to it', async () => {
  await writer.write({add: [paid('one')]})
  await writer.finalise(1)
  await age(1)
  await sumUp()
  expect(await stored('ledger_day')).toBe(0)
  expect(await stored('deposit_day')).toBe(0)
})

test('the audit finds an entry that was posted to a day after it was stored', async () => {
  await writer.write({add: [paid('one'), paid('two')]})
  await writer.finalise(1)
  await age(3)
  await sumUp()
  await writer.finalise(2)
  expect(await db.rows('select * from audit.ledger_days')).toEqual([])
  await age(3)
  const found = await db.rows('select account, summed, posted from audit.ledger_days order by account')
  expect(found).toHaveLength(2)
})

test('the volume of a day is stored once, and again when one of its deposits becomes final, or is gone', async () => {
  await writer.write({add: [paid('one', 1_000_000n), paid('two', 2_000_000n)]})
  await writer.finalise(1)
  await age(3)
  await sumUp()
  expect(await stored('deposit_day')).toBe(1)
  expect(await volume()).toEqual([{count: 2, amount: '3', final: 1}])
  await writer.finalise(2)
  expect(await volume()).toEqual([{count: 2, amount: '3', final: 1}])
  await sumUp()
  expect(await volume()).toEqual([{count: 2, amount: '3', final: 2}])

  await writer.write({add: [paid('three', 4_000_000n)]})
  expect(await volume()).toEqual([
    {count: 2, amount: '3', final: 2},
    {count: 1, amount: '4', final: 0},
  ])
  await age(3)
  await sumUp()
  await writer.write({drop: 1, add: [[]]})
  await sumUp()
  expect(await volume()).toEqual([{count: 2, amount: '3', final: 2}])
  expect(await db.rows('select from app.changed_deposit_day')).toEqual([])
})

test('what a version without these sums changed meanwhile is summed up again after an upgrade', async () => {
  await writer.write({add: [paid('one')]})
  await age(3)
  await sumUp()
  await db.rows('drop trigger note_changed_day on app.deposit')
  await writer.finalise(1)
  await db.rows(readFileSync(new URL('functions/totals/deposit_days.sql', import.meta.url), 'utf8'))
  await sumUp()
  expect(await volume()).toEqual([{count: 1, amount: '1', final: 1}])
})
