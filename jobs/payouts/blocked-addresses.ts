// Asks again, once a day, about addresses that a chain does not let a token leave, and unblocks those that it lets go.
// Part of the tick. Safe to run twice, and beside another worker: each answer is written by one SQL function that may
// run again. What cannot be asked is asked again in five minutes.
import {type Context, retryable} from './context.ts'

const dayMs = 86_400_000
/** After the node, or custody, could not be asked. */
const laterMs = 300_000

interface Due {
  chain: string
  token: string
  address: string
  /** What the ledger has there, in base units. */
  holds: string
}

export async function retryBlocked(to: Context): Promise<void> {
  const {rows} = await to.pool.query<Due>(
    `select b.chain, b.token, b.address, coalesce(h.amount, 0)::text as holds from app.blocked_address b
     left join app.holding h using (chain, token, address) where b.chain = any($1) and b.retry_at <= clock_timestamp() order by b.retry_at limit 20`,
    [[...to.chains.keys()]],
  )
  for (const row of rows)
    await retryable(retry(to, row), async detail => {
      to.log.warn(
        {chain: row.chain, token: row.token},
        `it could not be asked whether an address is still blocked: ${detail}`,
      )
      await keep(to, row, null, laterMs)
    })
}

async function retry(to: Context, {chain, token, address, holds}: Due): Promise<void> {
  const {refusal} = to.chains.get(chain)!
  if (!refusal) return
  const why = await refusal(to, {token, address, holds: BigInt(holds)})
  if (why === undefined) {
    await to.pool.query('select app.unblock_address($1, $2, $3)', [chain, token, address])
    to.log.info({chain, token}, 'an address is not blocked any more')
  } else await keep(to, {chain, token, address}, why, dayMs)
}

async function keep(
  to: Context,
  of: Pick<Due, 'chain' | 'token' | 'address'>,
  why: string | null,
  ms: number,
): Promise<void> {
  await to.pool.query('select app.keep_blocked($1, $2, $3, $4, $5)', [of.chain, of.token, of.address, why, ms])
}
