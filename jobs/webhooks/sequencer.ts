// Gives committed events their sequence (app.sequence_events) and notifies every worker that deliveries may be due.
// Promises: when run() or announce() resolves, every event that was committed before the call has its number, and its
// deliveries are announced; announce() also announces what is due without a new event. Several workers may do this at
// once; the function lets one in at a time.
import type pg from 'pg'
import {coalesce} from '../coalesce.ts'

/** The channel that workers listen on. */
export const channel = 'webhooks_due'

const batch = 10_000

export interface Sequencer {
  run(): Promise<void>
  announce(): Promise<void>
}

export function startSequencer(pool: pg.Pool): Sequencer {
  const text = `select sequenced, case when $1 or sequenced > 0 then pg_notify('${channel}', '') end
    from app.sequence_events(${batch}) as sequenced`
  let isAsked = false
  const run = coalesce(async () => {
    const values = [isAsked]
    isAsked = false
    for (;;) {
      const {rows} = await pool.query<{sequenced: number}>({name: 'sequence_events', text, values})
      if (rows[0]!.sequenced < batch) return
    }
  })
  return {
    run,
    announce() {
      isAsked = true
      return run()
    },
  }
}
