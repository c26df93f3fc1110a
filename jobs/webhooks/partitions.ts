// Keeps deliveries for as long as the operator wants: creates the tables of future weeks and drops tables that are too
// old. Promises: one short transaction for each table. If a table is locked, it stops, and the next run continues. Safe
// to run in several places.
import type pg from 'pg'
import type {Logger} from '../../base/log.ts'

const lockNotAvailable = '55P03'

export async function maintainPartitions(pool: pg.Pool, retentionDays: number, log: Logger): Promise<void> {
  for (;;) {
    const done = await step(pool, retentionDays, log)
    if (!done) return
    log.info({done}, 'the tables of deliveries were maintained')
  }
}

async function step(pool: pg.Pool, retentionDays: number, log: Logger): Promise<string | null> {
  try {
    const {rows} = await pool.query<{done: string | null}>(
      'select app.maintain_partitions(make_interval(days => $1)) as done',
      [retentionDays],
    )
    return rows[0]!.done
  } catch (error) {
    if ((error as pg.DatabaseError).code !== lockNotAvailable) throw error
    log.info('the tables of deliveries are in use; they are maintained within the hour')
    return null
  }
}
