// What addresses hold on chains of accounts, and the SQL that begins sweeps, payments, the transactions of returns, and
// withdrawals. Promises: beginning is safe to repeat, also concurrently. Each is one SQL function that checks whether
// it is due.
import type pg from 'pg'
import type {ReasonCode} from '../../../base/reasons.ts'
import {step} from '../../../base/step.ts'
import {type Context, type Payout, retryMs, untilSwept, type Wait} from '../context.ts'
import type {Withdrawal} from '../family.ts'

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
  /** What the address holds of the token at the newest block, if that was asked. */
  holds?: bigint
  /** The address pays for it with gas, and first needs so much more. */
  lacks?: bigint
  /** The treasury first lends the address so much of its stake, once it lacks no gas. */
  lends?: bigint
  /** Why it is not begun now. */
  waits?: Wait
}

const most = 100_000

/** The addresses that a payout may sweep now and that hold at least this much, the largest first. */
export async function sweepable({pool}: Context, {id}: {id: string}, atLeast: bigint): Promise<Holding[]> {
  const {rows} = await pool.query<Holding>('select address, amount from app.sweepable($1, $2, $3)', [
    id,
    String(atLeast),
    most,
  ])
  return rows
}

/**
 * Takes the nonces, and begins the sweeps. With `paymentFee`, they bring no more than the payout lacks by then.
 * Resolves to what the treasury lacks for network fees; the sweeps before that point were begun.
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

/**
 * Begins to send gas to the addresses whose sweeps lack some; each transaction costs at most `maxFee`. Resolves to what
 * the treasury lacks; the funds before that point were begun.
 */
export async function beginFunds(
  pool: pg.Pool,
  of: {id: string | null; chain: string; token: string},
  sweeps: Sweep[],
  maxFee: bigint,
): Promise<string | undefined> {
  if (!sweeps.length) return
  const {rows} = await pool.query<{short: string | null}>(
    'select app.begin_funds($1, $2, $3, $4, $5::numeric[], $6) as short',
    [
      of.id,
      of.chain,
      of.token,
      sweeps.map(({address}) => address),
      sweeps.map(({lacks}) => String(lacks)),
      String(maxFee),
    ],
  )
  return rows[0]!.short ?? undefined
}

/**
 * Begins to lend addresses energy; each transaction costs at most `fee`, and in all no more than `mostLent` is lent.
 * Resolves to what the treasury lacks.
 */
export async function beginDelegates(
  pool: pg.Pool,
  of: {id: string | null; chain: string; token: string},
  sweeps: Sweep[],
  {fee, mostLent}: {fee: bigint; mostLent: bigint},
): Promise<string | undefined> {
  if (!sweeps.length) return
  const {rows} = await pool.query<{short: string | null}>(
    'select app.begin_delegates($1, $2, $3, $4, $5::numeric[], $6, $7) as short',
    [
      of.id,
      of.chain,
      of.token,
      sweeps.map(({address}) => address),
      sweeps.map(({lends}) => String(lends)),
      String(fee),
      String(mostLent),
    ],
  )
  return rows[0]!.short ?? undefined
}

/**
 * What becomes of each address before its sweep: gas (fund) or energy (delegate) is on its way, or energy back
 * (undelegate, or soon: returning); or it has lent energy. Null: nothing of it.
 */
export type Readiness = 'fund' | 'delegate' | 'undelegate' | 'returning' | 'lent' | null

export async function readinessOf({pool}: Context, chain: string, addresses: string[]): Promise<Readiness[]> {
  const {rows} = await pool.query<{is: Readiness}>(
    'select app.readiness($1, a) as is from unnest($2::text[]) with ordinality as u (a, n) order by n',
    [chain, addresses],
  )
  return rows.map(({is}) => is)
}

/** The gas on each address that no sweep under way may use, in the chain's coin. */
export async function freeGas({pool}: Context, chain: string, addresses: string[]): Promise<bigint[]> {
  const {rows} = await pool.query<{free: string}>(
    'select app.free_gas($1, a) as free from unnest($2::text[]) with ordinality as u (a, n) order by n',
    [chain, addresses],
  )
  return rows.map(({free}) => BigInt(free))
}

/** Whether the treasury has what a payout pays, whatever its sweeps still bring. */
export async function isPayable({pool}: Context, {id}: Payout, paymentFee: bigint): Promise<boolean> {
  const {rows} = await pool.query<{lack: string}>('select app.payout_lack($1, $2) as lack', [id, String(paymentFee)])
  return rows[0]!.lack === '0'
}

/** Addresses with gas that they are not likely to use, and how much, the largest first. */
export async function idleGas({pool}: Context, chain: string, most: number): Promise<Holding[]> {
  const {rows} = await pool.query<Holding>('select address, amount from app.idle_gas($1, $2)', [chain, most])
  return rows
}

/** Begins to bring gas back from addresses that have not used any since. */
export async function beginDefunds({pool}: Context, chain: string, sweeps: Sweep[]): Promise<void> {
  await pool.query('select app.begin_defunds($1, $2, $3::numeric[], $4::numeric[])', [
    chain,
    sweeps.map(({address}) => address),
    sweeps.map(({amount}) => String(amount)),
    sweeps.map(({maxFee}) => String(maxFee)),
  ])
}

/** Takes a payout from sweeping to swept. */
export async function endSweeping({pool}: Context, {id}: Payout): Promise<'next'> {
  await pool.query('select app.end_sweeping($1)', [id])
  return 'next'
}

/**
 * What a payout waits for that lacks money (`short`): if it lacks what is to be paid, for sweeps that are under way or
 * failed.
 */
export async function whyUnpaid(to: Context, payout: Payout, paymentFee: bigint, short: Wait): Promise<Wait> {
  if (await isPayable(to, payout, paymentFee)) return short
  return (await untilSwept(to, payout)) ?? (await untilSweepable(to, payout)) ?? short
}

/** The wait of a payout whose addresses cannot be swept yet. */
export async function untilSweepable(to: Context, payout: Payout): Promise<Wait | undefined> {
  return (await untilGas(to, payout)) ?? (await untilTriedAgain(to, payout))
}

async function untilGas({pool}: Context, {id}: Payout): Promise<Wait | undefined> {
  const {rows} = await pool.query<{count: number}>('select app.getting_gas_for($1) as count', [id])
  const {count} = rows[0]!
  if (!count) return
  return {reason: 'sweeps', detail: `${count} of its addresses are getting gas or energy first`, ms: retryMs.soon}
}

/** The wait of a payout while an address that it tried to sweep in vain is not swept. */
async function untilTriedAgain({pool}: Context, {id, token}: Payout): Promise<Wait | undefined> {
  const {rows} = await pool.query<{count: number; amount: string; failure: string; at: string}>(
    `select count(*)::int as count, app.decimal(sum(f.amount), a.decimals) as amount, (array_agg(f.failure order by f.retry_at))[1] as failure,
       app.iso(min(f.retry_at)) as at
     from app.unswept_for($1) f join app.payout p on p.id = $1 join app.asset a on a.chain = p.chain and a.token = p.token group by a.decimals`,
    [id],
  )
  if (!rows[0]) return
  const {count, amount, failure, at} = rows[0]
  const detail = `${count} of its addresses, with ${amount} ${token}, could not be swept: ${failure}; tried again after ${at}`
  return {reason: 'sweeps_failed', detail, ms: retryMs.told}
}

/**
 * What the treasury lacks for a payout whose payment may cost this much, in words; undefined if nothing: begin_payment
 * has begun it then.
 */
export async function shortage(
  {pool}: Context,
  call: 'payout_shortage' | 'begin_payment',
  {id}: Payout,
  networkFee: bigint,
): Promise<string | undefined> {
  const {rows} = await pool.query<{short: string | null}>(`select app.${call}($1, $2) as short`, [
    id,
    String(networkFee),
  ])
  return rows[0]!.short ?? undefined
}

/**
 * How much of the token the treasury lacks for a payout, in base units, after what sweeps under way will probably
 * bring.
 */
export async function shortfall({pool}: Context, {id}: {id: string}, paymentFee: bigint): Promise<bigint> {
  const {rows} = await pool.query<{missing: string}>('select app.payout_shortfall($1, $2) as missing', [
    id,
    String(paymentFee),
  ])
  return BigInt(rows[0]!.missing)
}

const collectableSql = `
  select h.address, h.amount from app.holding h
  where h.chain = $1 and h.token = $2 and h.amount >= $3 and app.collectable_amount(h.chain, h.address, h.token) > 0
    and not exists (select from app.blocked_address b where b.chain = h.chain and b.token = h.token and b.address = h.address)
    and app.is_sweep_due(h.chain, h.token, h.address)
    and not exists (
      select from app.outgoing_payment s
      where s.chain = h.chain and s.source = h.address and s.token = h.token and s.kind in ('sweep', 'cancel') and s.status <> 'final'
      union all
      select from app.outgoing_payment s
      where s.chain = h.chain and s.recipient = h.address and s.kind in ('fund', 'delegate', 'undelegate') and s.status <> 'final')
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
export async function treasuryOf(db: pg.Pool | pg.ClientBase, chain: string): Promise<string> {
  const {rows} = await db.query<{address: string}>('select app.treasury_address($1) as address', [chain])
  return rows[0]!.address
}

/** What prevents the next transaction of a return; undefined once it has begun. */
export async function beginReturnStep({pool}: Context, call: string, values: string[]): Promise<Wait | undefined> {
  step('return: before begin')
  const {rows} = await pool.query<{reason: ReasonCode | null; detail: string}>(`select * from app.${call}`, values)
  step('return: after begin')
  const {reason, detail} = rows[0]!
  return reason === null ? undefined : {reason, detail, ms: retryMs.soon}
}

/**
 * Begins a withdrawal of the operator's own money; `reserve`: the most that it costs, and what must stay. Returns the
 * id of its outgoing payment.
 */
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
