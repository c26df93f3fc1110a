// A page reads no more rows than it shows, by the plans that the API's role gets where there are ten million.
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {Client, fillPool, makeKey, startApi} from '../test/support/api.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant} from '../test/support/people.ts'
import {grow} from '../test/support/statistics.ts'
import type {List} from './page.ts'
import {list as deposits} from './routes/deposits.ts'
import {paymentList, requestList} from './routes/payment-requests.ts'
import {list as payouts} from './routes/payouts.ts'
import {list as userList} from './routes/users.ts'

let db: TestDatabase
let api: pg.Client
let busy: string
let quiet: string

beforeAll(async () => {
  db = await testDatabase()
  ;[busy, quiet] = [await makeMerchant(db), await makeMerchant(db)]
  for (const [merchant, count] of [
    [busy, 20_000],
    [quiet, 3],
  ] as const) {
    await db.rows(
      'insert into app.user (merchant_id, external_ref) select $1, g::text from generate_series(1, $2::int) g',
      [merchant, count],
    )
    await db.rows(
      `insert into app.payment_request (merchant_id, external_id, chain, token, amount, page_token, expires_at, status, received, txid, position, created_at)
       select $1::uuid, g::text, 'ETH', 'USDC', 2, $1::uuid || '-' || g, now(), 'underpaid', 1, '0xX', nextval('app.payment_position'), now() + g * interval '1 minute'
       from generate_series(1, $2::int) g`,
      [merchant, count],
    )
  }
  await db.rows(
    `insert into app.payout (merchant_id, chain, token, gross, fee_bps, fee, net, address, sweep_first, status, txid, finished_at)
     select $1, 'ETH', case g % 1000 when 0 then 'ETH' else 'USDC' end, 2, 100, 0, 2, '0xX', false, 'completed', '0xX', now()
     from generate_series(1, 20000) g`,
    [busy],
  )
  // One user has half of the deposits. Nearly all are final, of one token.
  await db.rows(
    `insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
     select chain, 'a', 'A', (select id from app.user where merchant_id = $1 limit 1), $1, true from unnest('{ETH,POLYGON}'::text[]) chain`,
    [busy],
  )
  for (const [merchant, count] of [
    [busy, 30_000],
    [quiet, 3],
  ] as const)
    await db.rows(
      `insert into app.deposit (id, merchant_id, user_id, chain, token, amount, sender, address, txid, output_index, status, credited, version, created_at)
       select gen_random_uuid(), $1, u.id, case g % 100 when 0 then 'POLYGON' else 'ETH' end, case g % 1000 when 0 then 'ETH' else 'USDC' end, case g when 12351 then 5 when 28850 then 6 else 1 end,
         '0xS', 'A', '0xtx' || g || $1::uuid, 0, case g % 500 when 0 then 'reorged' else 'final' end, true, 1, now() - g * interval '1 minute'
       from generate_series(1, $2::int) g
       cross join lateral (select id from app.user where merchant_id = $1 and case g % 2 when 0 then id = (select user_id from app.address
         where merchant_id = $1 limit 1) else true end limit 1) u`,
      [merchant, count],
    )
  // The newest payout has half of what is final: every second one of these is a receipt of a payment request.
  await db.rows(
    `with half as (select id, row_number() over (order by seq) as n from app.deposit where merchant_id = $1 and status = 'final' and token = 'USDC')
     update app.deposit d set settlement_id = (select id from app.payout order by seq desc limit 1), user_id = case when h.n % 4 = 0 then d.user_id end
     from half h where d.id = h.id and h.n % 2 = 0`,
    [busy],
  )
  await db.rows(
    `insert into app.adjustment (merchant_id, chain, token, amount, reason, settlement_id)
     select $1, 'ETH', 'USDC', -1, 'paid_after_all', gen_random_uuid() from generate_series(1, 5000)`,
    [busy],
  )
  for (const table of ['deposit', 'payout', 'user', 'payment_request', 'adjustment'])
    await db.rows(`analyze app.${table}`)
  const million = 1_000_000
  const pair = {chain: 5, token: 6}
  await grow(db, 'app.deposit', 10 * million, {
    merchant_id: 100,
    user_id: million,
    txid: -1,
    position: -1,
    settlement_id: 100,
    ...pair,
  })
  await grow(db, 'app.payment_request', 10 * million, {
    merchant_id: 100,
    external_id: -1,
    position: -1,
    seq: -1,
    ...pair,
  })
  await grow(db, 'app.payout', 10 * million, {merchant_id: 100, seq: -1, ...pair})
  await grow(db, 'app.user', 10 * million, {merchant_id: 100, seq: -1})
  api = new pg.Client({connectionString: db.url('sluice_api')})
  await api.connect()
})
afterAll(async () => {
  await api.end()
  await db.drop()
})

/** How many rows of a table a page of its things reads, whatever functions it calls. */
const rowsOfPage = ({statement}: List, table: string, [merchant, asked, from, limit]: PageValues) =>
  rowsReadBy(api, table, statement.text, [merchant, JSON.stringify(asked), from, limit])

type PageValues = [merchant: string, asked: object, from: string, limit: number]

const depositsRead = (...values: PageValues) => rowsOfPage(deposits, 'deposit', values)

const requestsRead = (...values: PageValues) => rowsOfPage(requestList, 'payment_request', values)

async function rowsReadBy(client: pg.ClientBase, table: string, text: string, values: unknown[]): Promise<number> {
  await client.query('begin') // within a transaction a connection reports nothing
  const before = await fetched(client, table)
  await client.query(text, values)
  const after = await fetched(client, table)
  await client.query('commit')
  return after - before
}

/** By the connection, of what it has not reported. */
async function fetched(client: pg.ClientBase, table: string): Promise<number> {
  const {rows} = await client.query<{n: number}>(
    `select (coalesce(sum(seq_tup_read), 0) + coalesce(sum(idx_tup_fetch), 0))::int as n
     from pg_stat_xact_user_tables where relid = ('app.' || $1)::regclass`,
    [table],
  )
  return rows[0]!.n
}

const end = String(2n ** 63n - 1n)
const usdc = {chain: 'ETH', token: 'USDC'}

test('a page of users or payments reads its own rows and one more, even beside a merchant with many', async () => {
  for (const merchant of [busy, quiet])
    for (const limit of [1, 3]) {
      const most = limit + 1
      expect(await rowsOfPage(userList, 'user', [merchant, {}, end, limit])).toBeLessThanOrEqual(most)
      // The index of paid requests contains underpaid ones, too.
      for (const asked of [{}, usdc, {status: ['underpaid']}, {status: ['underpaid'], ...usdc}])
        expect(
          await rowsOfPage(paymentList, 'payment_request', [merchant, asked, end, limit]),
          JSON.stringify(asked),
        ).toBeLessThanOrEqual(2 * most) // the receipts of a payment are looked up by it
    }
})

test('a user is shown, and made, by reading the addresses of that user alone', async () => {
  const count = 5000
  await db.rows(
    `insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
     select 'ETH', '0xof' || seq, '0xof' || seq, id, merchant_id, true from app.user where merchant_id = $1 and external_ref::int <= $2`,
    [busy, count],
  )
  await db.rows('analyze app.address')
  for (const limit of [1, 50])
    expect(await rowsOfPage(userList, 'address', [busy, {}, end, limit])).toBeLessThanOrEqual(2 * limit + 2)
  const read = async () => {
    await api.query('select pg_stat_force_next_flush()')
    const [row] = await db.rows<{n: number}>(
      `select (seq_tup_read + idx_tup_fetch)::int as n from pg_stat_user_tables where relname = 'address' and schemaname = 'app'`,
    )
    return row!.n
  }
  const before = await read()
  await api.query('select * from app.provision_user($1, $2, null)', [busy, '1'])
  expect((await read()) - before).toBeLessThan(20)
})

test('what has a reference is found without reading anything else of its merchant', async () => {
  expect(await rowsOfPage(userList, 'user', [busy, {external_ref: '7'}, end, 50])).toBeLessThanOrEqual(2)
  for (const asked of [{}, usdc, {status: ['underpaid']}])
    expect(
      await rowsOfPage(paymentList, 'payment_request', [busy, {external_id: '7', ...asked}, end, 50]),
    ).toBeLessThanOrEqual(4) // the other form of the reference, and its receipts
})

test('a page of deposits reads what it shows of each status, chain and token, whatever is asked for', async () => {
  const [{pairs}] = (await db.rows('select count(*)::int as pairs from app.asset')) as [{pairs: number}]
  const [{user}] = (await db.rows('select user_id as user from app.deposit where merchant_id = $1 limit 1', [
    busy,
  ])) as [{user: string}]
  const [early, late] = (await db.rows(
    `select percentile_disc(p) within group (order by position)::text as position
     from app.deposit, unnest('{0.1,0.9}'::float[]) p where merchant_id = $1 group by p order by p`,
    [busy],
  )) as [{position: string}, {position: string}]
  const [{payout}] = (await db.rows('select id as payout from app.payout order by seq desc limit 1')) as [
    {payout: string},
  ]
  const last = String(2n ** 127n - 1n)
  for (const [below, from] of [
    [last, undefined],
    [late.position, early.position],
    [early.position, undefined],
    [last, late.position],
  ] as const) {
    for (const merchant of [busy, quiet]) expect(await depositsRead(merchant, {from}, below, 3)).toBeLessThanOrEqual(4)
    for (const status of [undefined, ['final'], ['reorged']])
      for (const chain of [undefined, 'ETH', 'POLYGON'])
        for (const token of [undefined, 'USDC', 'ETH']) {
          const asked = {from, status, chain, token}
          const most = Math.min(8 * ((4 * pairs) / (status ? 3 : 1)), 40)
          const read = (merchant: string, more: object) => depositsRead(merchant, {...asked, ...more}, below, 3)
          const what = JSON.stringify(asked)
          for (const merchant of [busy, quiet]) {
            expect(await read(merchant, {}), what).toBeLessThanOrEqual(most)
            expect(await read(merchant, {payout}), what).toBeLessThanOrEqual(most)
          }
          for (const address of [undefined, 'A'])
            expect(await read(busy, {user, address}), what).toBeLessThanOrEqual(most)
          expect(await read(busy, {txid: `0xtx77${busy}`}), what).toBeLessThanOrEqual(2)
        }
  }
})

test('deposits of a sender, or of an amount that few have or nearly all, are found without reading others', async () => {
  const last = String(2n ** 127n - 1n)
  const read = (asked: object) => depositsRead(busy, asked, last, 3)
  for (const sender of ['0xs', '0xnobody']) expect(await read({sender}), sender).toBeLessThanOrEqual(5)
  const looked = 20_000
  const of = (amount_from: string, amount_to?: string) => read({...usdc, amount_from, amount_to})
  expect(await of('0.000005'), 'two, one of them older').toBeLessThanOrEqual(10 + looked)
  expect(await of('0.000001', '0.000004'), 'nearly all').toBeLessThanOrEqual(10 + looked)
  expect(await of('0.000006', '0.000006'), 'one').toBeLessThanOrEqual(5)
  expect(await of('0.000001', '0.000001'), 'one that nearly all have').toBeLessThanOrEqual(10)
})

test('a range of amounts gives all that are in it, however old', async () => {
  const amounts = async (asked: object, size = 3) => {
    const {rows} = await api.query<{amount: string}>(
      `select item ->> 'amount' as amount from app.read_deposits($1, $2, null, $3)`,
      [busy, JSON.stringify({...usdc, ...asked}), size],
    )
    return rows.map(({amount}) => amount)
  }
  for (const status of [undefined, ['final'], ['final', 'reorged']]) {
    expect(await amounts({status, amount_from: '0.000005'})).toEqual(['0.000005', '0.000006'])
    expect(await amounts({status, amount_from: '0.0000051', amount_to: '1'})).toEqual(['0.000006'])
    expect(await amounts({status, amount_from: '0.000005', amount_to: '0.000005'})).toEqual(['0.000005'])
    expect(await amounts({status, amount_to: '0.000001'}, 5)).toHaveLength(5)
  }
})

test('a page of payment requests reads what it shows of each status, chain and token, also of some time', async () => {
  const [{early, late}] = (await db.rows(
    `select (min(created_at) + 0.1 * (max(created_at) - min(created_at)))::text as early, (min(created_at) + 0.2 * (max(created_at) - min(created_at)))::text as late
     from app.payment_request where merchant_id = $1`,
    [busy],
  )) as [{early: string; late: string}]
  for (const merchant of [busy, quiet])
    for (const status of [undefined, ['underpaid'], ['paid']])
      for (const asset of [{}, usdc])
        for (const from of [end, '1'])
          expect(await requestsRead(merchant, {status, ...asset}, from, 3)).toBeLessThanOrEqual(20)
  // What was made within a minute of the range is looked at, too.
  const [{near}] = (await db.rows(
    `select count(*)::int as near from app.payment_request where merchant_id = $1 and created_at between $2::timestamptz - interval '1 minute' and $3::timestamptz + interval '1 minute'`,
    [busy, early, late],
  )) as [{near: number}]
  expect(await requestsRead(busy, {created_from: early, created_to: late}, end, 3)).toBeLessThanOrEqual(near + 30)
})

test('payment requests of a transaction, an address, or that were paid in some time, are found without reading any others', async () => {
  const none = '2020-01-01T00:00:00Z'
  for (const asked of [{txid: '0xnone'}, {address: '0xnobody'}, {paid_from: none, paid_to: none}])
    expect(await requestsRead(busy, asked, end, 3)).toBeLessThanOrEqual(4)
})

test('a page of payouts reads what it shows of each status, chain and token, whatever is asked for', async () => {
  const [{parts}] = (await db.rows('select 6 * count(*)::int as parts from app.asset')) as [{parts: number}]
  for (const merchant of [busy, quiet])
    for (const status of [undefined, ['completed'], ['failed']])
      for (const chain of [undefined, 'ETH', 'BTC'])
        for (const token of [undefined, 'USDC', 'ETH']) {
          const read = await rowsOfPage(payouts, 'payout', [merchant, {status, chain, token}, end, 3])
          const partsRead = parts / (status ? 6 : 1)
          expect(read, `${status} ${chain} ${token}`).toBeLessThanOrEqual(Math.min(7 * partsRead, 30))
        }
})

test('a page of payouts in the dashboard reads no more than that of the API', async () => {
  const client = await db.pool.connect()
  const read = await rowsReadBy(client, 'payout', `select dashboard.payouts_of($1, '{}', null, 3)`, [busy])
  client.release()
  expect(read).toBeLessThanOrEqual(30)
})

test('no request reads more than a few hundred rows of a table, whatever else is stored', async () => {
  await fillPool(db, 20)
  const server = await startApi(db)
  const client = new Client(server, (await makeKey(db, busy)).secret)
  const one = async (path: string, list: string) => (await client.get(`${path}?limit=1`)).body[list][0].id as string
  const before = await readSoFar()
  const [user, deposit, payout] = [
    await one('/v1/users', 'users'),
    await one('/v1/deposits', 'deposits'),
    await one('/v1/payouts', 'payouts'),
  ]
  const made = await client.post('/v1/users', {external_ref: 'one more'})
  expect(made.status).toBe(201)
  expect((await client.post(`/v1/users/${made.body.id}/addresses`, {chains: ['ETH']})).status).toBe(200)
  const [{prefix}] = (await db.rows('select prefix from app.merchant where id = $1', [busy])) as [{prefix: string}]
  const request = {external_id: `${prefix}-more`, amount: '1'}
  expect((await client.post('/v1/ETH-USDC/payment-request', request)).body.code).toBe(200)
  for (const path of [
    ...[
      '/v1/balances',
      '/v1/crypto',
      '/v1/payout-addresses',
      '/v1/webhook-endpoints',
      '/v1/events',
      '/v1/users?external_ref=7',
    ],
    ...[`/v1/payment-requests/${prefix}-more`, `/v1/users/${user}`, `/v1/deposits/${deposit}`, `/v1/payouts/${payout}`],
    ...[`/v1/payouts/${payout}/deposits`, `/v1/deposits?settlement_id=${payout}`],
  ])
    expect([path, (await client.get(path)).status]).toEqual([path, 200])
  await server.close() // its connections report what they have read
  const after = [...(await readSoFar())]
  expect(after.filter(([table, rows]) => rows - (before.get(table) ?? 0) > 1000)).toEqual([])
})

/** The rows of each table that were read so far. Connections of the test report theirs first. */
async function readSoFar(): Promise<Map<string, number>> {
  const report = 'select pg_stat_force_next_flush(), pg_sleep(0.05)' // so long that each connection of the pool gets one
  await Promise.all([api.query(report), ...Array.from({length: db.pool.options.max}, () => db.rows(report))])
  const rows = await db.rows<{name: string; n: number}>(
    `select relname as name, (seq_tup_read + coalesce(idx_tup_fetch, 0))::int as n from pg_stat_user_tables where schemaname in ('app', 'custody', 'chain')`,
  )
  return new Map(rows.map(({name, n}) => [name, n]))
}
