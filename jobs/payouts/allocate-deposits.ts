// Task allocate_deposits: writes which deposits belong to which payout, for claims and releases that were too large to
// do so at once. Safe to run twice, or concurrently: one run at a time works on a (merchant, chain, token). Each batch
// is a transaction that records its progress. The tick adds the task again until nothing is left.
import type {Task} from 'graphile-worker'
import type pg from 'pg'
import {z} from 'zod'

const batch = 10_000

const Payload = z.object({merchant_id: z.uuid(), chain: z.string(), token: z.string()})

export function allocateDeposits(pool: pg.Pool): Task {
  return async (payload, {abortSignal}) => {
    const {merchant_id, chain, token} = Payload.parse(payload)
    // `true` waits for a concurrent run. Without it, the function would return "more to do" at once, again and again.
    const allocate = 'select app.allocate_deposits($1, $2, $3, $4, true) as is_more'
    while (!abortSignal?.aborted) {
      const {rows} = await pool.query<{is_more: boolean}>(allocate, [merchant_id, chain, token, batch])
      if (!rows[0]!.is_more) return
    }
  }
}
