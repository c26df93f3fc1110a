// A year of BENCH_DEPOSITS deposits (300 thousand) of 100 merchants, of which one has half, made once for all that is
// measured in it: what the API, the dashboard and the analysts read, in milliseconds, over the same in a year of 10
// thousand deposits; the rate of a file; and the refresh of each materialised view.
import {benchAnalysts} from './analytics.ts'
import {fillYear} from './analytics-data.ts'
import {withDatabase} from './database.ts'
import {benchMoney} from './money.ts'
import {benchPages} from './pages.ts'
import type {Report} from './result.ts'

const few = 10_000

export async function benchYear(report: Report, many = Number(process.env.BENCH_DEPOSITS ?? 300_000)): Promise<void> {
  const floors = new Map<string, number>()
  await inYear(few, ({what, value}) => {
    floors.set(what, value)
  })
  report({what: 'deposits of the year', value: many, unit: 'deposits', floor: few})
  await inYear(many, result => report(result.unit === 'ms' ? {...result, floor: floors.get(result.what)} : result))
}

function inYear(deposits: number, report: Report): Promise<void> {
  return withDatabase(async bench => {
    await fillYear(bench.pool, deposits)
    const {rows} = await bench.pool.query<{id: string}>(`select id from app.merchant where prefix = 'bench0'`)
    const largest = rows[0]!.id
    await benchPages(bench, largest, report)
    await benchMoney(bench, largest, report)
    await benchAnalysts(bench, report)
  })
}
