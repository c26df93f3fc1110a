// What analysts read that is stored: reorganisations, noted one by one, and the materialised views, refreshed in turn.
// Each view shows one moment, and does not depend on the others.
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

const paid = (txid: string) => [{txid, amount: 1_000_000n, recipient: user.address}]
const refresh = async (atLeast = '1 minute') =>
  (await db.rows<{view: string | null}>('select app.refresh_analytics($1) as view', [atLeast]))[0]!.view

/** Computes every view that is due; returns their names. */
async function refreshAll(): Promise<string[]> {
  const names: string[] = []
  for (let name = await refresh(); name; name = await refresh()) names.push(name)
  return names
}

const allDue = () => db.rows(`update app.analytics_refresh set due_at = '-infinity'`)
const reorganisations = () =>
  db.rows(
    'select depth, first_height, old_head_hash, new_head_hash, deposits_reorged from analytics.reorganisations order by happened_at',
  )

test('each reorganisation has its own row: depth, old and new head, and the deposits it removed', async () => {
  await writer.write({add: [paid('stays'), paid('returns'), [...paid('lost'), ...paid('lost too')]]})
  const first = writer.head
  await writer.readAgain(3)
  expect(await reorganisations()).toEqual([])
  await writer.write({drop: 2, add: [[], paid('returns'), []]})
  const second = writer.head
  await writer.write({drop: 1, add: [[]]})
  expect(await reorganisations()).toEqual([
    {depth: 2, first_height: 2, old_head_hash: first.hash, new_head_hash: second.hash, deposits_reorged: 2},
    {depth: 1, first_height: 4, old_head_hash: second.hash, new_head_hash: writer.head.hash, deposits_reorged: 0},
  ])
  expect(
    await db.rows(
      `select r.depth from chain.reorganisation r join chain.cursor c on (c.last_reorg_at, c.last_reorg_depth) = (r.happened_at, r.depth)`,
    ),
  ).toEqual([{depth: 1}])
})

test('each materialised view is refreshed in turn, shows what was committed before, and waits until it is due again', async () => {
  await writer.write({add: [paid('one')]})
  await writer.finalise(1)
  const views = await db.rows<{name: string}>(
    `select relname as name from pg_class where relnamespace = 'analytics'::regnamespace and relkind = 'm' order by 1`,
  )
  expect((await refreshAll()).sort()).toEqual(views.map(({name}) => name))
  expect(await refresh()).toBeNull()
  const cohorts = () =>
    db.rows('select active_users::int as users, deposit_count::int as count from analytics.customer_cohorts')
  expect(await cohorts()).toEqual([{users: 1, count: 1}])
  await writer.write({add: [paid('two')]})
  await writer.finalise(2)
  expect(await cohorts()).toEqual([{users: 1, count: 1}])
  await allDue()
  await refreshAll()
  expect(await cohorts()).toEqual([{users: 1, count: 2}])
  const fresh = await db.rows<{view_name: string}>(
    `select view_name from analytics.freshness where age_seconds < 60 and took_seconds > 0 and due_at > now() and failed_at is null order by 1`,
  )
  expect(fresh.map(row => row.view_name)).toEqual(views.map(({name}) => name))
})

test('a view that takes long is refreshed only after fifty times as long', async () => {
  await refreshAll()
  await allDue()
  const name = await refresh('0')
  const [view] = await db.rows<{waits: number}>(
    `select extract(epoch from due_at - refreshed_at)::float8 / took_seconds as waits from app.analytics_refresh where view_name = $1`,
    [name],
  )
  expect(view!.waits).toBeGreaterThan(50)
  expect(view!.waits).toBeLessThan(55)
})

test('only one caller refreshes at a time, and readers do not wait', async () => {
  await refreshAll()
  await allDue()
  const [one, reader] = [await db.pool.connect(), await db.pool.connect()]
  await one.query('begin')
  await one.query('select app.refresh_analytics()')
  expect(await refresh()).toBeNull()
  await reader.query(`set lock_timeout = '1s'`)
  await reader.query('select from analytics.address_utilisation, analytics.delivery_health, analytics.customer_cohorts')
  await one.query('commit')
  one.release()
  reader.release()
  expect(await refresh()).not.toBeNull()
})

test('a view that fails to refresh keeps its rows, reports the reason, and does not delay others', async () => {
  await refreshAll()
  const [before] = await db.rows(`select refreshed_at from app.analytics_refresh where view_name = 'customer_cohorts'`)
  await db.rows('drop index analytics.customer_cohorts_key')
  await allDue()
  const names = await refreshAll()
  expect(new Set(names).size).toBe(names.length)
  const failed = await db.rows(
    'select view_name, refreshed_at, error from app.analytics_refresh where failed_at is not null',
  )
  expect(failed).toEqual([{view_name: 'customer_cohorts', ...before, error: expect.stringContaining('concurrently')}])
  await db.rows('create unique index on analytics.customer_cohorts (merchant_id, cohort_month, months_later)')
  await allDue()
  await refreshAll()
  expect(await db.rows('select from analytics.freshness where failed_at is not null')).toEqual([])
})

test('a view that exceeds the statement timeout does not delay others', async () => {
  await refreshAll()
  await allDue()
  const [reader, worker] = [await db.pool.connect(), await db.pool.connect()]
  try {
    await reader.query('begin; lock table app.holding in access exclusive mode') // address_utilisation alone reads it
    await worker.query(`set statement_timeout = '500ms'`)
    const names: string[] = []
    for (let n = 0; n < 3; n++) names.push((await worker.query('select app.refresh_analytics() as view')).rows[0].view)
    expect(names).toEqual(['address_utilisation', 'customer_cohorts', 'delivery_health'])
    expect(await db.rows('select view_name, error from app.analytics_refresh where failed_at is not null')).toEqual([
      {view_name: 'address_utilisation', error: 'canceling statement due to statement timeout'},
    ])
  } finally {
    await reader.query('rollback')
    await worker.query('reset statement_timeout')
    reader.release()
    worker.release()
  }
})
