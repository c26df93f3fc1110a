// The outputs of ours that can be spent, as the worker reads them. All are final: app.output has no others.
import type pg from 'pg'
import type {Output} from './select.ts'

/** Of one owner, at once: enough for forty sweeps; what is beyond has its turn when those are final. */
const most = 20_000

interface Row {
  outpoint: string
  amount: string
  isTreasury: boolean
}

const columns = `u.txid || ':' || u.vout as outpoint, u.amount, u.merchant_id is null as "isTreasury"`

/** The largest first; of the treasury where there is no merchant. */
export async function freeOutputs(
  pool: pg.Pool | pg.Client,
  chain: string,
  merchantId: string | null,
): Promise<Output[]> {
  const {rows} = await pool.query<Row>(
    `select ${columns} from app.free_output u
     where u.chain = $1 and u.merchant_id is not distinct from $2
     order by u.amount desc limit ${most}`,
    [chain, merchantId],
  )
  return rows.map(output)
}

/** Those of the deposits that a payout claimed. */
export async function claimedOutputs(pool: pg.Pool, payoutId: string): Promise<Output[]> {
  const {rows} = await pool.query<Row>(
    'select outpoint, amount, false as "isTreasury" from app.claimed_outputs($1, $2)',
    [payoutId, most],
  )
  return rows.map(output)
}

/** What each spend has reserved, by its id, in the order of the inputs: its lead, and the others by txid and vout. */
export async function reservedOutputs(pool: pg.Pool, spendIds: string[]): Promise<Map<string, Output[]>> {
  const {rows} = await pool.query<Row & {spend_id: string}>(
    `select ${columns}, u.spend_id from app.output u join app.spend s on s.id = u.spend_id
     where u.spend_id = any($1)
     order by u.spend_id, u.txid || ':' || u.vout <> s.sender, u.txid, u.vout`,
    [spendIds],
  )
  const bySpend = new Map<string, Output[]>(spendIds.map(id => [id, []]))
  for (const row of rows) bySpend.get(row.spend_id)!.push(output(row))
  return bySpend
}

function output({outpoint, amount, isTreasury}: Row): Output {
  return {outpoint, amount: BigInt(amount), isTreasury}
}
