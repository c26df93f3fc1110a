// Reads our spendable outputs. All are final, except the inputs of CPFP children: app.output has no others.
import type pg from 'pg'
import type {Output} from './select.ts'

/**
 * The most outputs of one owner that are read at once: enough for forty sweeps. The others follow when those are final.
 */
const most = 20_000

interface Row {
  outpoint: string
  amount: string
  isTreasury: boolean
}

const columns = `u.txid || ':' || u.vout as outpoint, u.amount, u.merchant_id is null as "isTreasury"`

/** The largest first. Without a merchant, the treasury's. */
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

/** An output that is final and free, but immature: nodes want more blocks before new coins may be spent. */
export interface ImmatureOutput extends Output {
  /** The head from which on it can be spent. */
  matureAt: number
}

/** Immature outputs of the merchant and the treasury; those that mature soonest first. */
export async function immatureOutputs(
  pool: pg.Pool,
  chain: string,
  merchantId: string | null,
): Promise<ImmatureOutput[]> {
  const {rows} = await pool.query<Row & {matureAt: number}>(
    `select ${columns}, u.mature_at as "matureAt" from app.output u join chain.cursor c using (chain)
     where u.chain = $1 and (u.merchant_id is null or u.merchant_id = $2) and u.outgoing_payment_id is null and u.spent_by is null
       and u.mature_at > c.head_height
     order by u.mature_at limit ${most}`,
    [chain, merchantId],
  )
  return rows.map(({matureAt, ...row}) => ({...output(row), matureAt}))
}

/** The outputs of the deposits that a payout claimed. */
export async function claimedOutputs(pool: pg.Pool, payoutId: string): Promise<Output[]> {
  const {rows} = await pool.query<Row>(
    'select outpoint, amount, false as "isTreasury" from app.claimed_outputs($1, $2)',
    [payoutId, most],
  )
  return rows.map(output)
}

/** The inputs of an outgoing payment. */
export interface Reserved {
  inputs: Output[]
  /** For a CPFP child whose parent is not final: the parent's virtual bytes that the fee also pays for; else 0. */
  parentVsize: number
}

/**
 * What each outgoing payment has reserved, by its id, in the order of the inputs: its first input, and the others by
 * txid and vout.
 */
export async function reservedOutputs(pool: pg.Pool, outgoingPaymentIds: string[]): Promise<Map<string, Reserved>> {
  const {rows} = await pool.query<Row & {outgoing_payment_id: string; parent_vsize: number}>(
    `select ${columns}, u.outgoing_payment_id, u.parent_vsize from (
       select outgoing_payment_id, txid, vout, merchant_id, amount, 0 as parent_vsize from app.output where outgoing_payment_id = any($1)
       union all
       select outgoing_payment_id, txid, vout, merchant_id, amount, parent_vsize from app.cpfp_output where outgoing_payment_id = any($1)
     ) u join app.outgoing_payment s on s.id = u.outgoing_payment_id
     order by u.outgoing_payment_id, u.txid || ':' || u.vout <> s.first_input, u.txid, u.vout`,
    [outgoingPaymentIds],
  )
  const byOutgoingPayment = new Map<string, Reserved>(outgoingPaymentIds.map(id => [id, {inputs: [], parentVsize: 0}]))
  for (const row of rows) {
    const reserved = byOutgoingPayment.get(row.outgoing_payment_id)!
    reserved.inputs.push(output(row))
    reserved.parentVsize = row.parent_vsize
  }
  return byOutgoingPayment
}

function output({outpoint, amount, isTreasury}: Row): Output {
  return {outpoint, amount: BigInt(amount), isTreasury}
}
