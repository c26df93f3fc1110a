// Gives committed events their sequence (app.sequence_events) and tells every worker that deliveries may be due. Promises: an event that was
// committed when run() was called has its number, and its deliveries are announced, when run() resolves. Several workers may do this at
// once; the function lets one at a time through.
import type pg from 'pg'
import {coalesce} from '../coalesce.ts'

/** What workers listen on. */
export const channel = 'webhooks_due'

const batch = 10_000

export interface Sequencer {
  run(): Promise<void>
}

export function startSequencer(pool: pg.Pool): Sequencer {
  const text = `select app.sequence_events(${batch}) as sequenced, pg_notify('${channel}', '')`
  const run = coalesce(async () => {
    for (;;) {
      const {rows} = await pool.query<{sequenced: number}>({name: 'sequence_events', text})
      if (rows[0]!.sequenced < batch) return
    }
  })
  return {run}
}
