// The plans of the queries of docs/database.md at 10 million deposits. The tables are small, but have the statistics of
// a large year, so the planner plans as it would there. No query reads all deposits, from the table or from an index.
// npm run bench year measures the times.
import {readFileSync} from 'node:fs'
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {grow} from '../../test/support/statistics.ts'
import {documentFile, queriesOf, seed} from './examples.ts'

const deposits = 10_000_000
let db: TestDatabase
let analyst: pg.Client

beforeAll(async () => {
  db = await testDatabase()
  await seed(db.ownerUrl)
  await fill()
  await db.rows('analyze')
  await grow(db, 'app.deposit', deposits, {
    merchant_id: 100,
    user_id: deposits / 10,
    settlement_id: deposits / 1000,
    chain: 5,
    token: 6,
    status: 3,
    txid: -1,
    id: -1,
    created_at: -1,
  })
  await grow(db, 'app.payment_request', deposits / 10, {merchant_id: 100, external_id: -1, created_at: -1, id: -1})
  await grow(db, 'chain.transfer', deposits, {id: -1})
  await grow(db, 'app.event', 2 * deposits, {merchant_id: 100, subject_id: deposits, created_at: -1})
  await grow(db, 'app.ledger_entry', 2 * deposits, {reference: deposits / 10, created_at: -1})
  await grow(db, 'app.user', deposits / 10, {id: -1, merchant_id: 100, external_ref: -1})
  await grow(db, 'app.merchant', 100, {id: -1, prefix: -1})
  analyst = new pg.Client({connectionString: db.url('sluice_analyst')})
  await analyst.connect()
})
afterAll(async () => {
  await analyst.end()
  await db.drop()
})

/**
 * Deposits of other merchants: an index of few pages would cost nothing to read as a whole, whatever the statistics
 * say.
 */
async function fill(): Promise<void> {
  await db.rows(
    `insert into app.merchant (name, prefix, fee_bps) select 'M', 'm' || n, 0 from generate_series(1, 98) n`,
  )
  await db.rows(
    `insert into app.user (merchant_id, external_ref) select m.id, n::text from app.merchant m, generate_series(1, 20) n where m.name = 'M'`,
  )
  await db.rows(
    `insert into app.deposit (id, merchant_id, user_id, payment_request_id, chain, token, amount, sender, address, txid, output_index, status, credited, version, created_at)
     select gen_random_uuid(), u.merchant_id, case n when 1 then u.id end, case n when 2 then gen_random_uuid() end, a.chain, a.token, 1, '0xS', 'A',
       'filled' || n || u.id, 0, 'final', true, 1, timestamptz '2025-01-01' + random() * interval '2 years'
     from app.user u, app.asset a, generate_series(1, 2) n where u.external_ref ~ '^[0-9]+$'`,
  )
}

interface Plan {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Index Cond'?: string
  Plans?: Plan[]
}

/** No condition, or only on what many deposits share. (Few of them are pending or reorged.) */
const isWide = /^(\((merchant_id|chain|token) = [^()]*\)|\(status = 'final'::text\)|AND|[() ])*$/

async function planOf(sql: string): Promise<Plan> {
  const {rows} = await analyst.query<{'QUERY PLAN': [{Plan: Plan}]}>(`explain (format json) ${sql}`)
  return rows[0]!['QUERY PLAN'][0].Plan
}

/**
 * Plan nodes that read all deposits: the whole table, or a whole index, except indexes of few rows. All of a merchant
 * counts as well.
 */
function fullScans(plan: Plan): string[] {
  const {'Node Type': type, 'Relation Name': table, 'Index Name': index = '', 'Index Cond': condition = ''} = plan
  const isFull =
    (type === 'Seq Scan' && table === 'deposit') ||
    (/^deposit_/.test(index) && isWide.test(condition) && index !== 'deposit_uncredited' && index !== 'deposit_pending')
  return [...(isFull ? [`${type} ${index || table}`] : []), ...(plan.Plans ?? []).flatMap(fullScans)]
}

const queries = queriesOf(readFileSync(documentFile, 'utf8'))

test.each(queries)('the query does not read all deposits: %s', async sql => {
  expect(fullScans(await planOf(sql))).toEqual([])
})

test.each([
  'select count(*) from analytics.deposits',
  `select * from analytics.deposits where deposit_id = 'dep_0'`,
  'select sum(amount) from analytics.deposits where amount > 1000',
])('a query that reads all deposits is noticed: %s', async sql => {
  expect(fullScans(await planOf(sql))).not.toEqual([])
})

// Whether it is read by an index follows from that: of the tables here, the ledger's is too small for one.
test.each(['app.open_deposit', 'app.open_ledger_entry'])(
  '%s is expected to be a small part of its table',
  async view => {
    const {rows} = await db.pool.query(`explain (format json) select * from ${view}`)
    expect(rows[0]['QUERY PLAN'][0].Plan['Plan Rows']).toBeLessThan(deposits / 50)
  },
)

test.each([
  ['when none is left', 'select app.sum_up_deposit_days()', 1],
  [
    'if one changed',
    `insert into app.changed_deposit_day select max(day) from app.deposit_day; select app.sum_up_deposit_days()`,
    2,
  ],
])('deposits to sum up are looked up for each merchant: %s', async (_, sql, lookups) => {
  await db.rows('select app.sum_up_deposit_days(800)')
  const scans = `select pg_stat_get_xact_numscans('app.deposit'::regclass)::int as table,
    pg_stat_get_xact_numscans('app.deposit_created'::regclass)::int as index, (select count(*)::int from app.merchant) as merchants`
  const results = (await db.pool.query(`begin; ${scans}; ${sql}; ${scans}; rollback`)) as unknown as pg.QueryResult[]
  const [before, after] = [results[1]!.rows[0], results.at(-2)!.rows[0]]
  expect(after.index - before.index).toBe(lookups * before.merchants)
  expect(after.table).toBe(before.table)
})

test('payment requests are found by time and by reference, without reading all of them', async () => {
  for (const condition of [
    `created_at >= '2026-06-30' and created_at < '2026-07-01'`,
    `merchant_prefix = 'acme' and created_at >= '2026-06-30' and created_at < '2026-07-01'`,
    `external_id = 'acme-1001'`,
  ])
    expect(JSON.stringify(await planOf(`select * from analytics.payment_requests where ${condition}`))).not.toMatch(
      /"Node Type":"Seq Scan",[^{}]*"Relation Name":"payment_request"/,
    )
})

test("a deposit is found by id, a payout's deposits by the payout, and an event by its subject, without reading all rows", async () => {
  for (const [view, column, index] of [
    ['deposits', 'deposit_uuid', 'deposit_pkey'],
    ['deposits', 'settlement_uuid', 'deposit_(settlement|payout_list)'], // either has what it needs
    ['events', 'subject_uuid', 'event_subject_id_version_key'],
  ])
    expect(
      JSON.stringify(
        await planOf(
          `select * from analytics.${view} where ${column} = analytics.id('dep_0123456789abcdef0123456789abcdef')`,
        ),
      ),
    ).toMatch(new RegExp(`"Index Name":"${index}"`))
})
