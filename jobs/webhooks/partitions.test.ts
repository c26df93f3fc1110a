// Weekly partitions of deliveries and their attempts: what stays, what is dropped, and that neither blocks other work.
import pg from 'pg'
import {afterEach, beforeEach, expect, test} from 'vitest'
import {logger} from '../../base/log.ts'
import {openPool} from '../../db/client/pool.ts'
import {Client, makeKey, startApi} from '../../test/support/api.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {createEndpoint, createMerchant, deposit, type Merchant} from '../../test/support/webhooks.ts'
import {startDispatcher} from './dispatcher.ts'
import {maintainPartitions} from './partitions.ts'
import {claim} from './pump.ts'
import {openSender} from './send.ts'

const log = logger('jobs').child({}, {level: 'silent'})
const week = 7 * 24 * 3600 * 1000

let db: TestDatabase
let merchant: Merchant
let endpoint: string

beforeEach(async () => {
  db = await testDatabase()
  merchant = await createMerchant(db.pool)
  endpoint = await createEndpoint(db.pool, merchant, {url: 'https://example.com/hook'})
})
afterEach(() => db.drop())

/** As if the first partition had begun `weeks` weeks ago, and no partition had been created since. */
async function beganWeeksAgo(weeks: number): Promise<void> {
  for (const table of ['delivery', 'delivery_attempt'])
    await db.rows(`do $$ begin
      alter table app.${table} detach partition app.${table}_first;
      execute format('alter table app.${table} attach partition app.${table}_first for values from (minvalue) to (%L)',
        app.uuid_at(date_trunc('week', now(), 'UTC') - ${weeks} * interval '7 days'));
    end $$`)
}

/** The result of one call, or of several calls in one transaction. */
async function maintain(days = 90, calls = 1): Promise<string[]> {
  const rows = await db.rows<{done: string | null}>(
    'select app.maintain_partitions(make_interval(days => $1)) as done from generate_series(1, $2::int)',
    [days, calls],
  )
  return rows.flatMap(({done}) => done ?? [])
}
const maintainAll = (days = 90) => maintain(days, 80)

/** Writes deliveries of events of that many days ago, each with one attempt, dated back then. Resolves to their ids. */
async function deliverDaysAgo(days: number[], status = 'delivered', to = endpoint): Promise<string[]> {
  await deposit(db.pool, merchant)
  const made = await db.rows<{id: string}>(
    `insert into app.delivery (id, event_id, endpoint_id, status, attempts, next_attempt_at, created_at, finished_at)
     select uuidv7(-(n * interval '1 day')), e.id, $1, $2, 1, case when $2 = 'pending' then now() end, now() - n * interval '1 day', now()
     from unnest($3::float8[]) n, (select id from app.event order by position desc limit 1) e returning id`,
    [to, status, days],
  )
  const ids = made.map(({id}) => id)
  await db.rows(
    `insert into app.delivery_attempt (delivery_id, attempted_at, duration_ms, response_status) select unnest($1::uuid[]), now(), 5, 204`,
    [ids],
  )
  return ids
}

const rowsOf = async (table: string, key: string) =>
  (
    await db.rows<{
      id: string
    }>(`select ${key} as id from app.${table} where ${key} <> all(array(select id from app.delivery where created_at > now() - interval '1 hour'))
    order by 1`)
  ).map(({id}) => id)
const partitions = () =>
  db.rows<{suffix: string; since: Date | null; until: Date | null}>(
    `select suffix, since, until from app.delivery_partition order by until nulls last`,
  )

test('an id made at a time lies between the partition bounds of that time', async () => {
  const [row] = await db.rows(`
    select app.uuid_at(t) <= id and id < app.uuid_at(t + interval '1 ms') as fits, app.uuid_at(t) < app.uuid_at(t + interval '1 ms') as rises,
      uuid_extract_timestamp(app.uuid_at(t)) = t as round_trip
    from (select id, uuid_extract_timestamp(id) as t from (select uuidv7(interval '-3 years') as id) made) at`)
  expect(row).toEqual({fits: true, rises: true, round_trip: true})
})

test('partitions up to three weeks ahead are created; a second or parallel run changes nothing', async () => {
  await beganWeeksAgo(2)
  await Promise.all([maintainPartitions(db.pool, 90, log), maintainPartitions(db.pool, 90, log)])
  await maintainPartitions(db.pool, 90, log)
  const made = await partitions()
  const known = made.filter(({until}) => until)
  for (const [n, {since}] of known.entries()) expect(since).toEqual(n ? known[n - 1]!.until : null)
  expect(known.slice(1).every(({since, until}) => Number(until) - Number(since) === week)).toBe(true)
  expect(Number(known.at(-1)!.until)).toBeGreaterThan(Date.now() + 3 * week)
  expect(Number(known.at(-1)!.until)).toBeLessThanOrEqual(Date.now() + 4 * week)
  expect(await maintain()).toEqual([])
  expect(await partitions()).toEqual(made)
})

test('rows from while their week was missing move there when it is created, and none is lost', async () => {
  await beganWeeksAgo(4)
  const ids = await deliverDaysAgo([40, 27, 20, 8, 0.1])
  const pending = await deliverDaysAgo([9], 'pending')
  const state = () =>
    db.rows(
      `select d.*, json_agg(a) from app.delivery d left join app.delivery_attempt a on a.delivery_id = d.id group by d.id order by d.id`,
    )
  const before = await state()
  expect((await db.rows('select from app.delivery_default')).length).toBeGreaterThanOrEqual(5)
  expect((await maintainAll()).filter(done => done.startsWith('made'))).toHaveLength(8)
  expect(await state()).toEqual(before)
  expect(await db.rows('select from app.delivery_default union all select from app.delivery_attempt_default')).toEqual(
    [],
  )
  const [{where}] = (await db.rows<{where: string}>(
    'select tableoid::regclass::text as where from app.delivery where id = $1',
    [pending[0]],
  )) as [{where: string}]
  expect(where).toMatch(/^app\.delivery_\d{4}_\d\d_\d\d$/)
  expect(await db.rows('select from app.delivery where id = any($1)', [ids])).toHaveLength(5)
})

test('weeks older than the retention are dropped with their attempts; pending deliveries stay until they end', async () => {
  await beganWeeksAgo(30)
  await maintainAll(1000)
  const young = await deliverDaysAgo([1, 60, 89.9])
  await deliverDaysAgo([98, 120, 200, 400], 'delivered')
  await deliverDaysAgo([150], 'failed')
  const [pending] = await deliverDaysAgo([130], 'pending')
  const companion = await deliverDaysAgo([130.001])
  const kept = [...young, pending!, ...companion].sort()
  await maintainPartitions(db.pool, 90, log)
  expect(await rowsOf('delivery', 'id')).toEqual(kept)
  expect(await rowsOf('delivery_attempt', 'delivery_id')).toEqual(kept)
  const [{n: events}] = (await db.rows<{n: number}>('select count(*)::int as n from app.event')) as [{n: number}]
  expect(events).toBe(5)

  await db.rows(`update app.delivery set status = 'delivered', next_attempt_at = null where id = $1`, [pending])
  expect(await maintainAll()).toEqual([expect.stringMatching(/^dropped what is older than \d{4}-\d\d-\d\d$/)])
  expect(await rowsOf('delivery', 'id')).toEqual([...young].sort())
  expect(await maintainAll()).toEqual([])
})

test('a week in which a redelivery began after it was chosen is not dropped', async () => {
  await beganWeeksAgo(30)
  await maintainAll(1000)
  const [pending] = await deliverDaysAgo([130], 'pending')
  const [{table}] = (await db.rows('select tableoid::regclass::text as table from app.delivery where id = $1', [
    pending,
  ])) as [{table: string}]
  const drop = () => db.rows('select app.drop_delivery_week($1, now()) as done', [table.replace('app.delivery', '')])
  expect(await drop()).toEqual([{done: null}])
  expect(await rowsOf('delivery', 'id')).toEqual([pending])
  await db.rows(`update app.delivery set status = 'delivered', next_attempt_at = null where id = $1`, [pending])
  expect(await drop()).toEqual([{done: expect.stringContaining('dropped')}])
})

test('rows outside all weeks are deleted when they are old enough', async () => {
  await beganWeeksAgo(20)
  await maintainAll()
  await deliverDaysAgo([200, 300])
  const [pending] = await deliverDaysAgo([250], 'pending')
  await maintainAll()
  expect(await rowsOf('delivery', 'id')).toEqual([pending])
  expect(await rowsOf('delivery_attempt', 'delivery_id')).toEqual([pending])
})

test('the retention cannot be below seven days', async () => {
  await expect(maintain(6)).rejects.toThrow('deliveries are kept for at least 7 days, not for 6 days')
  await expect(db.rows('select app.maintain_partitions(null)')).rejects.toThrow('at least 7 days')
})

test('a dropped delivery is not found, the list shows the rest, and new ones are delivered', async () => {
  await beganWeeksAgo(20)
  await maintainAll(1000)
  const [dropped] = await deliverDaysAgo([120], 'failed')
  const [kept] = await deliverDaysAgo([10], 'failed')
  await maintainAll()
  const api = await startApi(db)
  try {
    const client = new Client(api, (await makeKey(db, merchant.id)).secret)
    const base = `/v1/webhook-endpoints/whe_${endpoint.replaceAll('-', '')}`
    const shown = (id: string) => `dlv_${id.replaceAll('-', '')}`
    const reply = await client.post(`${base}/deliveries/${shown(dropped!)}/redeliver`)
    expect([reply.status, reply.body.error]).toEqual([404, 'webhook_delivery_not_found'])
    const failed = await client.all(`${base}/deliveries?status=failed`, 'deliveries', 1)
    expect(failed.map(({id}) => id)).toEqual([shown(kept!)])
    expect((await client.post(`${base}/redeliver-failed`, {since: '2020-01-01T00:00:00Z'})).body).toEqual({count: 1})
    expect((await client.post(`${base}/test`)).status).toBe(201)
    expect((await client.all(`${base}/deliveries`, 'deliveries', 1)).map(({status}) => status)).toEqual(
      Array(4).fill('pending'),
    )
  } finally {
    await api.close()
  }
})

test('while a long transaction reads deliveries, nothing is dropped and nobody waits; it happens afterwards', async () => {
  await beganWeeksAgo(20)
  await maintainAll(1000)
  const [old] = await deliverDaysAgo([120])
  const reader = await db.pool.connect()
  try {
    await reader.query('begin; select from app.delivery limit 1')
    await maintainPartitions(db.pool, 90, log)
    expect(await rowsOf('delivery', 'id')).toEqual([old])
    await expect(maintain()).rejects.toThrow('lock timeout')
  } finally {
    await reader.query('rollback')
    reader.release()
  }
  await maintainPartitions(db.pool, 90, log)
  expect(await rowsOf('delivery', 'id')).toEqual([])
})

test('attempts continue their numbers, and an old week keeps the attempts of a redelivery', async () => {
  await beganWeeksAgo(4)
  await maintainAll()
  const [id] = await deliverDaysAgo([20], 'failed')
  await db.rows(`select app.redeliver($1, $2, $3)`, [merchant.id, endpoint, id])
  await db.rows(
    `select app.record_attempts($1, array[$2::uuid], '{1}', '{0}', '{1}', '{204}', array[null::text], array[null::bigint])`,
    [endpoint, id],
  )
  const attempts = await db.rows<{id: string; where: string}>(
    'select id, tableoid::regclass::text as where from app.delivery_attempt where delivery_id = $1 order by id',
    [id],
  )
  expect(attempts).toHaveLength(2)
  expect(new Set(attempts.map(({where}) => where)).size).toBe(1)
  expect(await db.rows('select status, attempts from app.delivery where id = $1', [id])).toEqual([
    {status: 'delivered', attempts: 1},
  ])
})

/** The rows of each table of deliveries or attempts that sequential scans have read. */
async function readThrough(): Promise<Map<string, number>> {
  const rows = await db.rows<{name: string; n: number}>(
    `select relname as name, seq_tup_read::int as n from pg_stat_user_tables where relname like 'delivery%'`,
  )
  return new Map(rows.map(({name, n}) => [name, n]))
}

async function onConnection<T>(role: 'sluice_jobs' | 'owner', work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await db.pool.connect()
  try {
    if (role !== 'owner') await client.query(`set role ${role}`)
    return await work(client)
  } finally {
    await client.query('select pg_stat_force_next_flush()')
    client.release(true)
  }
}

test('with sixty weeks of deliveries, no statement of the service scans a whole week', async () => {
  await beganWeeksAgo(57)
  await maintainAll(10_000)
  expect((await partitions()).length).toBeGreaterThanOrEqual(60)
  const other = await createEndpoint(db.pool, merchant, {url: 'https://example.com/other'})
  await deposit(db.pool, merchant, 300)
  await db.rows('select app.sequence_events()')
  await onConnection('owner', async client => {
    // 56 whole weeks before this one: of a part of a week, which is small, a scan would be right.
    await client.query(
      `insert into app.delivery (id, event_id, endpoint_id, status, attempts, created_at)
       select uuidv7(at - now()), e.id, $1, case when n % 500 = 0 then 'failed' else 'delivered' end, 1, at
       from generate_series(1, 30000) n, (select id from app.event limit 1) e,
         lateral (select date_trunc('week', now(), 'UTC') - n * interval '392 days' / 30000 as at) t`,
      [endpoint],
    )
    await client.query(
      `insert into app.delivery (event_id, endpoint_id, status, attempts)
       select e.id, $1, 'delivered', 1 from generate_series(1, 10000), (select id from app.event limit 1) e`,
      [endpoint],
    )
    await client.query(`insert into app.delivery_attempt (delivery_id, attempted_at, duration_ms, response_status)
      select id, created_at, 5, 204 from app.delivery where status <> 'pending'`)
    await client.query('vacuum analyze app.delivery, app.delivery_attempt, app.event, app.webhook_endpoint')
  })
  const before = await readThrough()

  const api = await startApi(db)
  const client = new Client(api, (await makeKey(db, merchant.id)).secret)
  const base = `/v1/webhook-endpoints/whe_${endpoint.replaceAll('-', '')}`
  const [{id}] = (await client.get(`${base}/deliveries?status=failed&limit=1`)).body.deliveries
  for (let round = 0; round < 7; round++) {
    // from its sixth run on, a prepared statement may use one plan for all values
    for (const status of ['', '&status=pending', '&status=delivered', '&status=failed']) {
      const page = (await client.get(`${base}/deliveries?limit=5${status}`)).body
      await client.get(`${base}/deliveries?limit=5${status}&cursor=${page.next_cursor}`)
    }
    expect((await client.post(`${base}/deliveries/${id}/redeliver`)).status).toBe(200)
    await client.post(`${base}/redeliver-failed`, {since: '2020-01-01T00:00:00Z'})
  }
  await api.close()

  await onConnection('sluice_jobs', async worker => {
    for (let round = 0; round < 7; round++) {
      expect((await worker.query('select app.due_endpoints()')).rows).toHaveLength(2)
      const due = (await worker.query(claim, [endpoint, []])).rows
      expect(due).toHaveLength(200)
      const each = <T>(value: T) => due.map(() => value)
      await worker.query({
        name: 'record',
        text: 'select app.record_attempts($1, $2, $3, $4, $5, $6, $7, $8)',
        values: [
          endpoint,
          due.map(row => row.id),
          due.map(row => row.attempts + 1),
          each(0),
          each(1),
          each(500),
          each('status 500'),
          each(0),
        ],
      })
      await worker.query('select app.fail_undeliverable()')
    }
  })
  await onConnection('owner', async owner => {
    await owner.query('select * from app.metrics()')
    await owner.query('select app.maintain_partitions($1)', ['2 years'])
    await owner.query('update app.webhook_endpoint set disabled_at = now() where id = $1', [other])
    expect((await owner.query('select app.fail_undeliverable() as n')).rows[0].n).toBe(300)
  })
  const small = 100 // rows: an index would not speed up reading them
  const after = [...(await readThrough())]
  expect(after.filter(([name, rows]) => rows > before.get(name)! + small)).toEqual([])
})

test('a burst after a time without events is found by indexes, also on connections that planned while the tables were empty', async () => {
  const pool = openPool(db.url('sluice_jobs'), {name: 'sluice-jobs', max: 1})
  const locks = new pg.Client(db.url('sluice_jobs'))
  await locks.connect()
  const dispatcher = startDispatcher({locks, pool, sender: openSender({allowPrivate: true}), log})
  const readOfEvents = async () => {
    for (const each of [pool, locks]) await each.query('select pg_stat_force_next_flush()')
    await db.rows('select pg_stat_clear_snapshot()')
    const [row] = await db.rows<{n: number}>(
      `select seq_tup_read::int as n from pg_stat_user_tables where relname = 'event' and schemaname = 'app'`,
    )
    return row!.n
  }
  await db.rows('analyze app.event, app.delivery')
  for (let round = 0; round < 7; round++) await dispatcher.pass() // from its sixth run on, a prepared statement may keep its plan
  await deposit(db.pool, merchant, 500)
  const before = await readOfEvents()
  await dispatcher.pass() // finds nothing: these events have no sequence yet
  expect(await readOfEvents()).toBeLessThan(before + 2000)
  await dispatcher.stop()
  await locks.end()
  await pool.end()
})
