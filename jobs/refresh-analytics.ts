// Sums up the days of the ledger and of deposits that have ended, and refreshes the analysts' materialised views.
// Promises: one view at a time, and each takes at most a small share of the time (app.refresh_analytics). A worker that
// ends does not wait for it.
import pg from 'pg'
import {longWork} from './long-work.ts'

export interface AnalyticsRefresh {
  /** Sums up every day that has ended, and computes every view that is due. */
  run(): Promise<void>
  /** Aborts the current refresh; run rejects. */
  stop(): void
}

export function analyticsRefresh(databaseUrl: string): AnalyticsRefresh {
  const refreshing = longWork()
  return {
    run: () => refreshing.on(connection(databaseUrl), refreshAll),
    stop: refreshing.stop,
  }
}

/** What fails does not keep the others waiting. */
async function refreshAll(db: pg.Client): Promise<void> {
  const works = [
    () => sumUpDays(db, 'app.sum_up_ledger_days'),
    () => sumUpDays(db, 'app.sum_up_deposit_days'),
    () => refreshOne(db),
  ]
  const failures: unknown[] = []
  for (const work of works) await untilDone(work).catch(error => failures.push(error))
  if (failures.length) throw failures[0]
}

async function untilDone(work: () => Promise<boolean>): Promise<void> {
  while (await work());
}

/** False if no day is left, or another worker is at it. */
async function sumUpDays(db: pg.Client, sumUp: 'app.sum_up_ledger_days' | 'app.sum_up_deposit_days'): Promise<boolean> {
  const {rows} = await db.query<{summed: number}>(`select ${sumUp}() as summed`)
  return rows[0]!.summed > 0
}

/** False if no view is due, or another worker is refreshing. */
async function refreshOne(db: pg.Client): Promise<boolean> {
  const {rows} = await db.query<{view: string | null}>('select app.refresh_analytics() as view')
  return rows[0]!.view !== null
}

function connection(databaseUrl: string): pg.Client {
  return new pg.Client({
    connectionString: databaseUrl,
    application_name: 'sluice-analytics',
    keepAlive: true,
    connectionTimeoutMillis: 10_000,
    options: '-c client_connection_check_interval=1s', // the server ends a refresh soon after its worker is gone
  })
}
