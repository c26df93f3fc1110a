// Money over time: milliseconds of what the dashboard and the API show of a year with BENCH_DEPOSITS deposits (10
// million), of which one merchant has half, over a call that reads one row; and the rate at which a file of them is
// sent, with the memory that this takes. The ledger has a posting for each hundred deposits.
import {randomUUID} from 'node:crypto'
import type pg from 'pg'
import {csvColumns, csvOf} from '../base/export/csv.ts'
import {columnsOf, pagesOf, rowsAtOnce, texts} from '../base/export/rows.ts'
import {openPool} from '../db/client/pool.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import {withDatabase} from './database.ts'
import type {Result} from './result.ts'

const rounds = 7
const fileRows = 1_000_000

export function benchMoney(many = Number(process.env.BENCH_DEPOSITS ?? 10_000_000)): Promise<Result[]> {
  return withDatabase(async ({pool, ownerUrl}) => {
    const {token, merchant} = await makeMerchant(pool)
    await makeYear(pool, merchant, many)
    const pages = openPool(roleUrl(ownerUrl, 'sluice_dashboard'), {name: 'bench', max: 1})
    const api = openPool(roleUrl(ownerUrl, 'sluice_api'), {name: 'bench', max: 1})
    try {
      const floor = await medianMs(pages, 'select dashboard.me($1)', [token])
      const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10)
      const period = {from: `${day(200)}T00:00:00Z`, to: `${day(170)}T00:00:00Z`}
      const filters = {from: day(200), to: day(170), chain: 'ETH', token: 'USDC', status: ['final']}
      const calls: [what: string, from: pg.Pool, sql: string, values: unknown[]][] = [
        [
          'statements of a month',
          api,
          'select app.read_statements($1, null, null, $2, $3)',
          [merchant, period.from, period.to],
        ],
        [
          'statements of the whole year',
          api,
          'select app.read_statements($1, null, null, $2, $3)',
          [merchant, `${day(360)}T00:00:00Z`, period.to],
        ],
        ['balances at a past time', api, 'select app.read_balances_at($1, $2)', [merchant, period.from]],
        ['a page of lines', api, 'select * from app.read_lines($1, $2, null, 51)', [merchant, period]],
        [
          'charts of a year, all of them',
          pages,
          'select dashboard.charts($1, $2, 365)',
          [token, ['deposit', 'payout', 'balance', 'requests', 'delivered', 'undelivered', 'seen_to_final']],
        ],
        ['charts of a year, what was received', pages, 'select dashboard.charts($1, $2, 365)', [token, ['deposit']]],
        ['the overview', pages, 'select dashboard.overview($1)', [token]],
        ['deposits of a month, filtered', pages, 'select dashboard.deposit_list($1, $2, null, 25)', [token, filters]],
        [
          'the statement page',
          pages,
          'select dashboard.statements($1, $2, $3), dashboard.statement_list($1, $4, null, 200)',
          [token, day(200), day(170), {from: day(200), to: day(170)}],
        ],
      ]
      const results: Result[] = []
      for (const [what, from, sql, values] of calls)
        results.push({
          what: `${what}, at ${many} deposits`,
          value: await medianMs(from, sql, values),
          floor,
          unit: 'ms',
        })
      results.push(await fileRate(pages, token, many))
      return results
    } finally {
      await Promise.all([pages.end(), api.end()])
    }
  })
}

async function medianMs(pool: pg.Pool, text: string, values: unknown[]): Promise<number> {
  const all: number[] = []
  for (let round = 0; round < rounds; round++) {
    const began = performance.now()
    await pool.query({name: text.slice(0, 60), text, values})
    all.push(performance.now() - began)
  }
  return all.sort((a, b) => a - b)[Math.floor(rounds / 2)]!
}

/** Rows of a file, over those that the database sends of the same table without anything else. */
async function fileRate(pool: pg.Pool, token: string, many: number): Promise<Result> {
  const from = 'dashboard.deposit_rows($1, $2, $3, $4)'
  const [, ...columns] = await columnsOf(pool, from, [token, {}, null, 0])
  const selected = csvColumns(columns, 'csv')
  const page = (below: string | null) =>
    texts(pool, `select place, ${selected} from ${from}`, [token, {}, below, rowsAtOnce])
  const rateOf = async (pieces: AsyncIterable<unknown>, rowsOfPiece: (piece: unknown) => number) => {
    const began = performance.now()
    let rows = 0
    for await (const piece of pieces) {
      rows += rowsOfPiece(piece)
      if (rows >= fileRows) break
    }
    return (rows / (performance.now() - began)) * 1000
  }
  const floor = await rateOf(pagesOf(page), piece => (piece as unknown[]).length)
  const before = process.memoryUsage().rss
  const value = await rateOf(csvOf(columns, 'csv', pagesOf(page)), piece => String(piece).split('\n').length - 1)
  const grownMb = Math.max(0, (process.memoryUsage().rss - before) / 1e6).toFixed(0)
  return {
    what: `a file of deposits as CSV (memory grows by ${grownMb} MB), over its rows alone, at ${many} deposits`,
    value,
    floor,
    unit: 'rows/s',
  }
}

async function makeMerchant(pool: pg.Pool): Promise<{token: string; merchant: string}> {
  const {rows} = await pool.query<{id: string}>(
    `select app.create_merchant('Bench', 'bench', '{ETH,POLYGON}', 50) as id`,
  )
  const merchant = rows[0]!.id
  const token = randomUUID()
  await pool.query(
    `with person as (insert into auth."user" (name, email, "emailVerified") values ('Bench', 'bench@example.test', true) returning id),
       member as (insert into dashboard.member (user_id, merchant_id) select id, $2 from person)
     insert into auth.session ("userId", token, "expiresAt", "secondFactorAt") select id, $1, now() + interval '1 day', now() from person`,
    [token, merchant],
  )
  return {token, merchant}
}

/** Deposits and their postings, evenly over a year, as the indexers write them; the totals are made of the ledger. */
async function makeYear(pool: pg.Pool, merchant: string, many: number): Promise<void> {
  const at = `now() - interval '365 days' + n::double precision / $2 * interval '364 days'`
  await pool.query(
    `insert into app.user (merchant_id, external_ref) select $1, 'user' || n from generate_series(1, 100) n`,
    [merchant],
  )
  await pool.query(
    `insert into app.deposit (merchant_id, user_id, chain, token, amount, sender, address, txid, output_index, block_height, block_hash,
       status, credited, version, created_at, finalised_at, finalisation)
     select case n % 2 when 0 then $1::uuid else uuidv7() end, u.id, a.chain, a.token, 1000000 + n % 1000, '0x' || lpad(to_hex(n), 40, '5'),
       '0x' || lpad(to_hex(n % 10000), 40, 'a'), '0x' || lpad(to_hex(n), 64, 'f'), 0, n / 10, '0x' || lpad(to_hex(n / 10), 64, 'b'),
       'final', true, 2, ${at}, ${at}, n / 100
     from generate_series(0, $2::bigint - 1) n
     join (select id, row_number() over (order by id) as nth from app.user) u on u.nth = n % 100 + 1
     join (select chain, token, row_number() over (order by chain, token) as nth from app.asset where chain in ('ETH', 'POLYGON')) a on a.nth = n % 3 + 1
     order by n`,
    [merchant, many],
  )
  await pool.query('alter table app.ledger_entry disable trigger user')
  await pool.query(
    `insert into app.ledger_entry (posting, kind, reference, account, chain, token, merchant_id, amount, created_at)
     select d.finalisation, 'deposit', 'finalisation:' || d.chain || ':' || d.finalisation, 'merchant', d.chain, d.token, d.merchant_id, -sum(d.amount), max(d.finalised_at)
     from app.deposit d where d.merchant_id = $1 group by d.chain, d.token, d.merchant_id, d.finalisation order by max(d.finalised_at)`,
    [merchant],
  )
  await pool.query('alter table app.ledger_entry enable trigger user')
  await pool.query('update app.total_backfill set last_entry = (select max(id) from app.ledger_entry)')
  for (let done = 1; done > 0; ) done = (await pool.query<{n: number}>('select app.fold_totals() as n')).rows[0]!.n
  await pool.query('vacuum analyze')
}
