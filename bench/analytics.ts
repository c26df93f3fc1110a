// Analysts, in a year of deposits (year.ts): milliseconds of every query of docs/database.md, for the merchant with
// half of the deposits. Before that, the sums by day, and the refresh of each materialised view, in seconds, over one
// bare scan of app.deposit.
import {readFileSync} from 'node:fs'
import pg from 'pg'
import {documentFile, queriesOf} from '../db/examples/examples.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import type {Bench} from './database.ts'
import {median, type Report} from './result.ts'

const rounds = 3

export async function benchAnalysts({ownerUrl}: Bench, report: Report): Promise<void> {
  const owner = new pg.Client({connectionString: ownerUrl})
  const analyst = new pg.Client({connectionString: roleUrl(ownerUrl, 'sluice_analyst')})
  await owner.connect()
  await analyst.connect()
  try {
    await sumUpDays(owner, report)
    await refreshAll(owner, report)
    for (const sql of documentedQueries()) {
      const value = await medianMs(analyst, sql)
      report({what: `analysts: ${nameOf(sql)}`, value, unit: 'ms', aim: 'under 1,000 ms'})
    }
  } finally {
    await owner.end()
    await analyst.end()
  }
}

/** Sums up all days that have ended, a month at a time, as the worker does. */
async function sumUpDays(owner: pg.Client, report: Report): Promise<void> {
  for (const kind of ['ledger', 'deposit']) {
    const began = performance.now()
    while ((await owner.query(`select app.sum_up_${kind}_days() as rows`)).rows[0].rows > 0);
    const what = `analysts: summing up a year of ${kind} days`
    report({what, value: (performance.now() - began) / 1000, unit: 's'})
  }
}

/** Refreshes each view twice: the first has nothing to compare with, and the second shows the usual time. */
async function refreshAll(owner: pg.Client, report: Report): Promise<void> {
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
  const floor = (await medianMs(owner, 'select count(*), sum(amount) from app.deposit')) / 1000
  for (const {view, seconds} of rows)
    report({what: `analysts: refreshing ${view}, over a scan of the deposits`, value: seconds, unit: 's', floor})
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
  return median(samples)
}
