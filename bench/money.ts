// Money over time, in a year of deposits (year.ts): milliseconds of what the dashboard and the API show of the merchant
// with half of them; and the rate at which a file of them is sent, over its rows alone, with the memory that this
// takes.
import {randomUUID} from 'node:crypto'
import type pg from 'pg'
import {csvColumns, csvOf} from '../base/export/csv.ts'
import {columnsOf, pagesOf, rowsAtOnce, texts} from '../base/export/rows.ts'
import {chartSeries} from '../dashboard/pages/views/charts.ts'
import {openPool} from '../db/client/pool.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import type {Bench} from './database.ts'
import {median, type Report} from './result.ts'

const rounds = 7
const fileRows = 1_000_000
const chartsOfYear = 'select dashboard.charts($1, $2, 365)'
const statements = 'select app.read_statements($1, null, null, $2, $3)'
const statementPage = 'select dashboard.statements($1, $2, $3), dashboard.statement_list($1, $4, null, 200)'

export async function benchMoney({pool, ownerUrl}: Bench, merchant: string, report: Report): Promise<void> {
  const token = await openSession(pool, merchant)
  const pages = openPool(roleUrl(ownerUrl, 'sluice_dashboard'), {name: 'bench', max: 1})
  const api = openPool(roleUrl(ownerUrl, 'sluice_api'), {name: 'bench', max: 1})
  const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10)
  const [from, to] = [`${day(200)}T00:00:00Z`, `${day(170)}T00:00:00Z`]
  const days = {from: day(200), to: day(170)}
  const filters = {...days, chain: 'ETH', token: 'USDC', status: ['final']}
  const time = async (what: string, aim: string | undefined, from: pg.Pool, sql: string, values: unknown[]) =>
    report({what, value: await medianMs(from, sql, values), unit: 'ms', aim})
  try {
    await time('statements of a month', undefined, api, statements, [merchant, from, to])
    await time('statements of half a year', undefined, api, statements, [merchant, `${day(360)}T00:00:00Z`, to])
    await time('balances at a past time', undefined, api, 'select app.read_balances_at($1, $2)', [merchant, from])
    await time('a page of lines', undefined, api, 'select * from app.read_lines($1, $2, null, 51)', [
      merchant,
      {from, to},
    ])
    await time('charts of a year, all of them', undefined, pages, chartsOfYear, [token, chartSeries])
    await time('charts of a year, what was received', '50 ms', pages, chartsOfYear, [token, ['deposit']])
    await time('today against last week', '300 ms', pages, 'select dashboard.today($1)', [token])
    await time('the overview', '300 ms', pages, 'select dashboard.overview($1)', [token])
    await time('deposits of a month, filtered', '300 ms', pages, 'select dashboard.deposit_list($1, $2, null, 25)', [
      token,
      filters,
    ])
    await time('the statement page', '300 ms', pages, statementPage, [token, day(200), day(170), days])
    await timeFile(pages, token, report)
  } finally {
    await Promise.all([pages.end(), api.end()])
  }
}

async function medianMs(pool: pg.Pool, text: string, values: unknown[]): Promise<number> {
  const all: number[] = []
  for (let round = 0; round < rounds; round++) {
    const began = performance.now()
    await pool.query({name: text.slice(0, 60), text, values})
    all.push(performance.now() - began)
  }
  return median(all)
}

/** Rows of a file, over those that the database sends of the same table without anything else. */
async function timeFile(pool: pg.Pool, token: string, report: Report): Promise<void> {
  const from = 'dashboard.deposit_file($1, $2, $3, $4)'
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
  const grownMb = Math.max(0, (process.memoryUsage().rss - before) / 1e6)
  report({what: 'a file of deposits as CSV, over its rows alone', value, floor, unit: 'rows/s'})
  report({what: 'memory that a file takes', value: grownMb, unit: 'MB'})
}

/** Of a new person of the dashboard; resolves to its token. */
async function openSession(pool: pg.Pool, merchant: string): Promise<string> {
  const token = randomUUID()
  await pool.query(
    `with person as (insert into auth."user" (name, email, "emailVerified") values ('Bench', 'bench@example.test', true) returning id),
       member as (insert into dashboard.member (user_id, merchant_id) select id, $2 from person)
     insert into auth.session ("userId", token, "expiresAt", "secondFactorAt") select id, $1, now() + interval '1 day', now() from person`,
    [token, merchant],
  )
  return token
}
