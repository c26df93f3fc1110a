// What the tasks of payouts share, and the seam between what is the same for every chain (this folder) and what its family decides (evm/,
// bitcoin/): a PayoutChain. It says what a payout pays with and plans the transactions; when that is asked, signing, storing, how long is waited,
// and what a worker's death leaves behind is the same for all. The tasks call it, and it calls none of them.
import type pg from 'pg'
import {RetryableError} from '../../base/errors.ts'
import type {Logger} from '../../base/log.ts'
import {familyOf} from '../../chains/families.ts'
import {chain} from '../../chains/registry.ts'
import type {Custody, Responses} from './custody.ts'
import type {OutgoingPayment} from './outgoing-payments.ts'

/** `Needed` is what custody wants at least of a replacement. */
export interface PayoutChain<P extends PlannedAttempt = PlannedAttempt, Needed = unknown> {
  /** The step of a payout in sweeping, for which no sweep is under way that it knows of: begins those that it needs, or takes it to swept. */
  sweep(to: Context, payout: Payout): Promise<Outcome>
  /** Begins the payment of a payout that is swept and has none yet; undefined once it is begun. Absent where `sweep` begins both at once. */
  beginPayment?(to: Context, payout: Payout): Promise<Wait | undefined>
  /** The next attempts of these outgoing payments, as far as they can be made now; the others wait. */
  plan(to: Context, outgoingPayments: OutgoingPayment[]): Promise<P[]>
  /** What custody is asked for it. */
  intentOf(planned: P): object
  /** What custody answers to such intents. */
  responses: Responses<Needed>
  /** The attempt with what custody wants at least, because of something that it signed before and that is not stored here; undefined if that is too much. */
  raise(to: Context, planned: P, needed: Needed): Promise<P | undefined>
  /** Passes signed transactions on. What the node says of each, undefined where it took it, proves nothing. */
  broadcast(raws: string[]): Promise<(string | undefined)[]>
  /** Begins the next transaction of a return; what is in its way, or undefined once it is begun. Absent where nothing is returned. */
  beginReturn?(to: Context, step: ReturnStep): Promise<Wait | undefined>
  /** Begins sweeps of what lies on addresses for no payout, where the operator wants that. */
  collect(to: Context): Promise<void>
  /** Ends what is being asked, and answers nothing any more. */
  close(): void
}

export interface Context {
  pool: pg.Pool
  /** By code; a chain without a node is not here. */
  chains: Map<string, PayoutChain>
  custody: Custody
  payoutTimeoutMs: number
  replaceAfterMs: number
  log: Logger
}

export interface Payout {
  id: string
  chain: string
  token: string
  merchantId: string
  status: 'pending' | 'sweeping' | 'swept' | 'paying' | 'completed' | 'failed'
  amount: bigint
  recipient: string
  treasury: string
  sweepFirst: boolean
  /** Its deposits are still being allocated. */
  isAllocating: boolean
}

/** The next transaction of a return: a sweep of what an operator returns to the treasury, or what takes it from there to its destination. */
export interface ReturnStep {
  depositId: string
  chain: string
  token: string
  address: string
  amount: bigint
  destination: string
  treasury: string
  step: 'sweep' | 'withdrawal'
}

/** The next attempt of an outgoing payment, which can be made now. */
export interface PlannedAttempt {
  outgoingPayment: OutgoingPayment
  kind: 'effect' | 'cancel'
}

/** A signed transaction that is stored, and may be broadcast. */
export interface Stored {
  outgoingPaymentId: string
  txid: string
  raw: string
  ageMs: number
}

export interface Wait {
  reason: string | null
  detail?: string
  ms: number
  /** The payout fails with this code when it has waited for the same reason for too long. */
  failsAs?: string
  failsAfterMs?: number
}

/** What a step came to: the next one at once, or a wait. */
export type Outcome = 'next' | Wait

export const retryMs = {
  /** For what nobody tells about: a node that is away, fees, the treasury. */
  soon: 3000,
  /** Custody writes each refusal down. An entry of the whitelist wakes the payout at once. */
  refused: 60_000,
  /** For what wakes the payout by itself. */
  told: 15_000,
}

/** Why nothing new leaves a chain now, with the way out, for operators; undefined if nothing is wrong. */
export async function whyHalted({pool}: Context, chain: string): Promise<string | undefined> {
  const {rows} = await pool.query<{why: string | null}>('select app.way_out($1) as why', [chain])
  return rows[0]!.why ?? undefined
}

export function noNode(code: string): string {
  const of = chain(code)
  return `no node is named for ${code}; set ${familyOf(of).endpointVariable(of)} for the jobs worker`
}

/** A payout waits for sweeps as long as one of them is not final, and for what most of those wait for. */
export async function untilSwept({pool}: Context, {id}: Payout): Promise<Wait | undefined> {
  const {rows} = await pool.query<{count: number; of: number; reason: string | null}>(
    `select count(*) filter (where s.status <> 'final')::int as count, count(*)::int as of,
       mode() within group (order by s.waiting_reason) filter (where s.status <> 'final') as reason
     from app.payout_sweep l join app.outgoing_payment s on s.id = l.outgoing_payment_id where l.payout_id = $1`,
    [id],
  )
  const {count, of, reason} = rows[0]!
  if (!count) return
  const why = reason ? `: ${reason}` : ''
  return {reason: reason ?? 'sweeps', detail: `${count} of ${of} sweeps are not final${why}`, ms: retryMs.told}
}

export function shortOfFunds(detail: string): Wait {
  return {reason: 'insufficient_treasury_funds', detail, ms: retryMs.soon}
}

/** The result of `work`, or what `otherwise` makes of an error that may pass. */
export async function retryable<T, U>(work: Promise<T>, otherwise: (why: string) => Promise<U>): Promise<T | U> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof RetryableError)) throw error
    return await otherwise(error.message)
  }
}
