// Task allocate_deposits: writes down which deposits belong to which payout, for claims and releases that were too large to do it at once. Safe to
// run twice, or beside itself: one at a time works on a (merchant, chain, token), each batch is a transaction that notes how far it came, and
// the tick adds the task again until nothing is left.
import type {Task} from 'graphile-worker'
import type pg from 'pg'
import {z} from 'zod'

const batch = 10_000

const Payload = z.object({merchant_id: z.uuid(), chain: z.string(), token: z.string()})

export function allocateDeposits(pool: pg.Pool): Task {
  return async (payload, {abortSignal}) => {
    const {merchant_id, chain, token} = Payload.parse(payload)
    // Waiting for whoever is at it: without, it would answer "more to do" at once, again and again.
    const allocate = 'select app.allocate_deposits($1, $2, $3, $4, true) as is_more'
    while (!abortSignal?.aborted) {
      const {rows} = await pool.query<{is_more: boolean}>(allocate, [merchant_id, chain, token, batch])
      if (!rows[0]!.is_more) return
    }
  }
}
