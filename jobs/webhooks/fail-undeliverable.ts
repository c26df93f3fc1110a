// Task fail_undeliverable: an endpoint was disabled or deleted, so its pending deliveries fail. Safe to run twice, or
// concurrently: it changes only rows that are still pending, and skips rows that are locked. The tick does the same
// each minute.
import type {Task} from 'graphile-worker'
import type pg from 'pg'

/** Small, because an event waits for the end of every older transaction. */
const batch = 2000

export function failUndeliverable(pool: pg.Pool): Task {
  return (_payload, {abortSignal}) => failAll(pool, abortSignal)
}

export async function failAll(pool: pg.Pool, signal?: AbortSignal): Promise<void> {
  while (!signal?.aborted) {
    const {rows} = await pool.query<{failed: number}>('select app.fail_undeliverable($1) as failed', [batch])
    if (rows[0]!.failed < batch) return
  }
}
