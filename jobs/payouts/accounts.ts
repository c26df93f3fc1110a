// What families share whose chains have accounts, not outputs: beginning sweeps of addresses, and the transactions of returns. Promises: beginning is
// safe to repeat, also concurrently. Each is one SQL function that checks whether it is due.
import type pg from 'pg'
import {step} from '../../base/step.ts'
import {type Context, retryMs, type Wait} from './context.ts'
import type {Withdrawal} from './family.ts'

/** Addresses that are polled, and sweeps that are begun, at once. */
export const batch = 200

/** What an address holds, in base units. */
export interface Holding {
  address: string
  amount: string
}

export interface Sweep {
  address: string
  amount: bigint
  maxFee: bigint
}

const most = 100_000

/**
 * The addresses that a payout may sweep and that hold at least this much, the largest first. An address of which more than `mostFailures` sweeps failed
 * for the payout would only cost again; one that expired cost nothing. With sweep_first each address is swept once before the payout is paid: money that arrives after the claim does not belong to it. Without,
 * no more is swept than the payout lacks.
 */
export async function sweepable(
  {pool}: Context,
  {id}: {id: string},
  atLeast: bigint,
  mostFailures = 0,
): Promise<Holding[]> {
  const {rows} = await pool.query<Holding>(
    `select h.address, h.amount from app.sweepable($1, $2, $3) h
     cross join lateral (
       select count(*) filter (where s.outcome not in ('done', 'expired')) as failures,
         coalesce(bool_or(s.outcome = 'done' and p.sweep_first and p.status = 'sweeping' and s.created_at >= p.created_at), false) as is_done
       from app.payout_sweep l join app.outgoing_payment s on s.id = l.outgoing_payment_id join app.payout p on p.id = l.payout_id
       where l.payout_id = $1 and s.source = h.address and s.status = 'final') swept
     where swept.failures <= $4 and not swept.is_done
     order by h.amount desc`,
    [id, String(atLeast), most, mostFailures],
  )
  return rows
}

/**
 * Takes the nonces, and begins the sweeps. With `paymentFee`, they bring no more than the payout lacks by then. Resolves to what the treasury lacks
 * for network fees; the sweeps before that point were begun.
 */
export async function beginSweeps(
  pool: pg.Pool,
  of: {id: string | null; chain: string; token: string},
  sweeps: Sweep[],
  paymentFee?: bigint,
): Promise<string | undefined> {
  for (let i = 0; i < sweeps.length; i += batch) {
    const part = sweeps.slice(i, i + batch)
    const {rows} = await pool.query<{short: string | null}>(
      'select app.begin_sweeps($1, $2, $3, $4, $5::numeric[], $6::numeric[], $7) as short',
      [
        of.id,
        of.chain,
        of.token,
        part.map(({address}) => address),
        part.map(({amount}) => String(amount)),
        part.map(({maxFee}) => String(maxFee)),
        paymentFee === undefined ? null : String(paymentFee),
      ],
    )
    if (rows[0]!.short) return rows[0]!.short
  }
}

/** How much of the token the treasury lacks for a payout, in base units, after all sweeps under way. */
export async function shortfall({pool}: Context, {id}: {id: string}, paymentFee: bigint): Promise<bigint> {
  const {rows} = await pool.query<{missing: string}>('select app.payout_shortfall($1, $2) as missing', [
    id,
    String(paymentFee),
  ])
  return BigInt(rows[0]!.missing)
}

// Leaves out addresses that are being swept, and those whose last sweep failed: another try would only cost again.
const collectableSql = `
  select h.address, h.amount from app.holding h
  where h.chain = $1 and h.token = $2 and h.amount >= $3 and app.collectable_amount(h.chain, h.address, h.token) > 0
    and not exists (select from app.outgoing_payment s where s.chain = h.chain and s.source = h.address and s.token = h.token and s.kind = 'sweep'
      and (s.status <> 'final' or (s.outcome <> 'done' and s.final_at > clock_timestamp() - interval '1 day')))
  order by h.amount desc limit ${batch}`

/** Addresses that hold at least this much and are to be swept, the largest first. */
export async function collectable(
  {pool}: Context,
  {chain, token, above}: {chain: string; token: string; above: bigint},
): Promise<Holding[]> {
  const {rows} = await pool.query<Holding>(collectableSql, [chain, token, String(above)])
  return rows
}

/** Where sweeps go to. */
export async function treasuryOf({pool}: Context, chain: string): Promise<string> {
  const {rows} = await pool.query<{address: string}>('select app.treasury_address($1) as address', [chain])
  return rows[0]!.address
}

/** What prevents the next transaction of a return; undefined once it has begun. */
export async function beginReturnStep({pool}: Context, call: string, values: string[]): Promise<Wait | undefined> {
  step('return: before begin')
  const {rows} = await pool.query<{reason: string | null; detail: string}>(`select * from app.${call}`, values)
  step('return: after begin')
  const {reason, detail} = rows[0]!
  return reason === null ? undefined : {reason, detail, ms: retryMs.soon}
}

/** Begins a withdrawal of the operator's own money; `reserve`: the most that it costs, and what must stay. Returns the id of its outgoing payment. */
export async function insertWithdrawal(
  db: pg.Client,
  chain: string,
  {token, amount, to}: Withdrawal,
  reserve: bigint,
): Promise<string> {
  const {rows} = await db.query<{id: string}>('select app.begin_withdrawal($1, $2, $3, $4, $5) as id', [
    chain,
    token,
    String(amount),
    to,
    String(reserve),
  ])
  return rows[0]!.id
}
