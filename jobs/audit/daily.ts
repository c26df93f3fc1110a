// Runs the audit once a day, in the worker that comes first, and compares addresses with their chains in between.
// Promises: one worker at a time, once a day over all workers and restarts (app.audit_is_due). A worker that ends does
// not wait for it. Findings become incidents.
import type pg from 'pg'
import type {Logger} from '../../base/log.ts'
import {hasNode} from '../../chains/families.ts'
import type {Settings} from '../../chains/settings.ts'
import {lockConnection} from '../../db/client/pool.ts'
import {longWork} from '../long-work.ts'
import type {Nodes} from './audit.ts'

/** Within this time Postgres notices that the worker is gone, and ends its query. */
const goneMs = 10_000

interface Options {
  databaseUrl: string
  /** For the short queries of each run. */
  pool: pg.Pool
  settings: Settings
  log: Logger
}

export interface DailyAudit {
  /** Compares the next addresses, and audits, if it is time and no other worker does. */
  run(): Promise<void>
  /** Aborts current work at once; another worker repeats it. */
  stop(): void
}

export function openDailyAudit({databaseUrl, pool, settings, log}: Options): DailyAudit {
  const nodes: Nodes = new Map([...settings.chains].filter(([, chain]) => hasNode(chain)))
  const auditing = longWork()

  const auditIfDue = async (db: pg.Client) => {
    const {rows} = await db.query<{locked: boolean}>('select app.try_lock_audit() as locked')
    if (!rows[0]!.locked) return
    await db.query(`set client_connection_check_interval = ${goneMs}`)
    const {compareDue} = await import('./compare.ts') // loaded only when needed
    for (const [chain, settings] of nodes) {
      const why = await compareDue(db, settings)
      if (why)
        log.warn(
          {chain, why},
          'some addresses could not be compared with their chain; they are tried again in a minute',
        )
    }
    if (!(await isAuditDue(db))) return
    const {audit} = await import('./audit.ts')
    const {findings, notCompared} = await audit(db, nodes)
    for (const {name, count} of findings)
      if (count) log.error({check: name, count}, 'the audit found something wrong; sluice incident list shows it')
    for (const {name, why} of notCompared) log.warn({check: name, why}, 'not every address is compared with its chain')
  }
  const isDue = async () => {
    const {rows} = await pool.query<{due: boolean}>('select app.audit_is_due() or app.is_comparison_due($1) as due', [
      [...nodes.keys()],
    ])
    return rows[0]!.due
  }
  return {
    run: async () => {
      if (await isDue()) await auditing.on(lockConnection(databaseUrl, 'sluice-audit'), auditIfDue)
    },
    stop: auditing.stop,
  }
}

async function isAuditDue(db: pg.Client): Promise<boolean> {
  const {rows} = await db.query<{due: boolean}>('select app.audit_is_due() as due')
  return rows[0]!.due
}
