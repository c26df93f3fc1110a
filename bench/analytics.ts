// Analysts at BENCH_DEPOSITS deposits (10 million): every query of docs/database.md, in milliseconds, over the same
// query at 10 thousand; half of the deposits belong to the queried merchant. And the refresh of each materialised view,
// in seconds, over one bare scan of app.deposit. The deposits are spread evenly over the days of a year.
//
// node bench/analytics.ts prints the results.
import {readFileSync} from 'node:fs'
import pg from 'pg'
import {documentFile, queriesOf} from '../db/examples/examples.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import {fillYear} from './analytics-data.ts'
import {withDatabase} from './database.ts'
import type {Result} from './result.ts'

const few = 10_000
const rounds = 3

export async function benchAnalytics(many = Number(process.env.BENCH_DEPOSITS ?? 10_000_000)): Promise<Result[]> {
  const small = await measure(few)
  const large = await measure(many)
  const queries = large.queries.map(({what, ms}, n) => ({
    what: `analysts: ${what}, at ${many} over ${few}`,
    value: ms,
    floor: small.queries[n]!.ms,
    unit: 'ms',
    target: 'under 1,000 ms',
  }))
  const refreshes = large.refreshes.map(({view, seconds}) => ({
    what: `analysts: refreshing ${view}, over a scan of the deposits`,
    value: seconds,
    floor: large.scanSeconds,
    unit: 's',
  }))
  return [...queries, ...refreshes]
}

interface Measured {
  queries: {what: string; ms: number}[]
  refreshes: {view: string; seconds: number}[]
  scanSeconds: number
}

function measure(deposits: number): Promise<Measured> {
  return withDatabase(async ({ownerUrl, pool}) => {
    await fillYear(pool, deposits)
    return await measureIn(ownerUrl)
  })
}

/** In a filled database. */
export async function measureIn(ownerUrl: string): Promise<Measured> {
  const owner = new pg.Client({connectionString: ownerUrl})
  const analyst = new pg.Client({connectionString: roleUrl(ownerUrl, 'sluice_analyst')})
  await owner.connect()
  await analyst.connect()
  try {
    const {refreshes, scanSeconds} = await refreshAll(owner)
    const queries: Measured['queries'] = []
    for (const sql of documentedQueries()) queries.push({what: nameOf(sql), ms: await medianMs(analyst, sql)})
    return {queries, refreshes, scanSeconds}
  } finally {
    await owner.end()
    await analyst.end()
  }
}

/** Refreshes each view twice: the first has nothing to compare with, and the second shows the usual time. */
async function refreshAll(owner: pg.Client): Promise<Omit<Measured, 'queries'>> {
  for (const round of [1, 2]) {
    await owner.query(`update app.analytics_refresh set due_at = '-infinity'`)
    for (let view: unknown = round; view !== null; )
      view = (await owner.query(`select app.refresh_analytics('1 day') as view`)).rows[0].view
  }
  await owner.query('vacuum analyze')
  const {rows} = await owner.query<{view: string; seconds: number; error: string | null}>(
    'select view_name as view, took_seconds as seconds, error from app.analytics_refresh order by view_name',
  )
  const failed = rows.find(({error}) => error)
  if (failed) throw new Error(`${failed.view}: ${failed.error}`)
  return {refreshes: rows, scanSeconds: (await medianMs(owner, 'select count(*), sum(amount) from app.deposit')) / 1000}
}

/** The queries of the document, for the merchants, users and days of a filled database. */
function documentedQueries(): string[] {
  const day = (daysAgo: number) => new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 10)
  const asked: Record<string, string> = {
    acme: 'bench0',
    nord: 'bench1',
    alice: 'user 0',
    bob: 'user 2',
    '2026-06-30': day(31),
    '2026-07-01': day(30),
    '2026-07-02': day(29),
    '2026-08-01': day(0),
  }
  const names = new RegExp(`'(${Object.keys(asked).join('|')})'`, 'g')
  return queriesOf(readFileSync(documentFile, 'utf8')).map(sql => sql.replace(names, (_, name) => `'${asked[name]}'`))
}

/** The view of a query, and the query's beginning. */
function nameOf(sql: string): string {
  return `${sql.match(/from analytics\.(\w+)/)![1]}, "${sql.split('\n')[0]!.slice(0, 40).trimEnd()}..."`
}

async function medianMs(client: pg.Client, sql: string): Promise<number> {
  const samples: number[] = []
  for (let round = 0; round < rounds; round++) {
    const began = performance.now()
    await client.query(sql)
    samples.push(performance.now() - began)
  }
  return samples.sort((a, b) => a - b)[Math.floor(rounds / 2)]!
}

if (import.meta.main) for (const result of await benchAnalytics()) console.log(JSON.stringify(result))
