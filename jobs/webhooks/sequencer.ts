// Gives committed events their sequence (app.sequence_events) and tells every worker that deliveries may be due. Promises: an event is
// sequenced, and its deliveries are announced, as soon as no older transaction can still commit; while one is open, it looks again by
// itself, so that no job has to wait for it. Several workers may do this at once; the function lets one at a time through.
import type pg from 'pg'
import type {Logger} from '../../service/log.ts'
import {coalesce} from '../coalesce.ts'

/** What workers listen on. */
export const channel = 'webhooks_due'

const waitMinMs = 20
const waitMaxMs = 500

export interface Sequencer {
  run(): Promise<void>
  stop(): void
}

export function startSequencer({pool, log}: {pool: pg.Pool; log: Logger}): Sequencer {
  let again: NodeJS.Timeout | undefined
  let waitMs = waitMinMs
  let isStopped = false

  const run = coalesce(async () => {
    const text = `select app.sequence_events() as waiting, pg_notify('${channel}', '')`
    const {rows} = await pool.query<{waiting: number}>({name: 'sequence_events', text})
    clearTimeout(again)
    if (!rows[0]?.waiting) waitMs = waitMinMs
    else if (!isStopped) {
      again = setTimeout(() => run().catch(error => log.error({error: String(error)}, 'sequencing failed')), waitMs)
      waitMs = Math.min(waitMs * 1.5, waitMaxMs)
    }
  })

  return {
    run,
    stop: () => {
      isStopped = true
      clearTimeout(again)
    },
  }
}
