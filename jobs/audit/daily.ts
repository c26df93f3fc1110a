// The audit once a day, by whichever worker comes first. Promises: one worker at a time, once a day over all workers and restarts
// (app.audit_is_due); a worker that ends does not wait for it; what is found becomes incidents.
import type pg from 'pg'
import {lockConnection} from '../../db/pool.ts'
import type {Logger} from '../../service/log.ts'
import {hasNode, type Settings} from '../../service/settings.ts'
import {longWork} from '../long-work.ts'
import type {Nodes} from './audit.ts'

/** Within so long Postgres notices that the worker is gone, and ends what it was asked. */
const goneMs = 10_000

interface Options {
  databaseUrl: string
  /** For what is asked each time. */
  pool: pg.Pool
  settings: Settings
  log: Logger
}

export interface DailyAudit {
  /** Audits, if it is time and no other worker does. */
  run(): Promise<void>
  /** Gives up what is under way at once; a worker makes up for it. */
  stop(): void
}

export function openDailyAudit({databaseUrl, pool, settings, log}: Options): DailyAudit {
  const nodes: Nodes = new Map([...settings.chains].filter(([, chain]) => hasNode(chain)))
  const auditing = longWork()

  const auditIfDue = async (db: pg.Client) => {
    const {rows} = await db.query<{locked: boolean}>(
      `select pg_try_advisory_lock(hashtextextended('sluice.audit', 0)) as locked`,
    )
    if (!rows[0]!.locked || !(await isDue(db))) return
    await db.query(`set client_connection_check_interval = ${goneMs}`)
    const {audit} = await import('./audit.ts') // what it needs is loaded when it is needed, which is once a day
    const {findings, notCompared} = await audit(db, nodes)
    for (const {name, count} of findings)
      if (count) log.error({check: name, count}, 'the audit found something wrong; sluice incident list shows it')
    for (const {name, why} of notCompared) log.warn({check: name, why}, 'the audit could not compare the ledger')
  }
  return {
    run: async () => {
      if (await isDue(pool)) await auditing.on(lockConnection(databaseUrl, 'sluice-audit'), auditIfDue)
    },
    stop: auditing.stop,
  }
}

async function isDue(db: Pick<pg.ClientBase, 'query'>): Promise<boolean> {
  const {rows} = await db.query<{due: boolean}>('select app.audit_is_due() as due')
  return rows[0]!.due
}
