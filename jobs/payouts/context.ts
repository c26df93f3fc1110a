// What the payout tasks share, and the interface between this folder (the same for every chain) and a family's folder
// (evm/, bitcoin/): a PayoutChain. A PayoutChain chooses what a payout pays with and plans the transactions.
// Scheduling, signing, storing, waiting and recovery after a worker's death are the same for all chains. The tasks call
// the PayoutChain; it calls none of them.
import type pg from 'pg'
import {RetryableError} from '../../base/errors.ts'
import type {Logger} from '../../base/log.ts'
import type {FailureCode, ReasonCode} from '../../base/reasons.ts'
import {familyOf} from '../../chains/families.ts'
import {chain} from '../../chains/registry.ts'
import type {Custody, Responses, Signed} from './custody-client.ts'
import type {OutgoingPayment} from './outgoing-payments.ts'

/** `Needed` is the least that custody accepts in a replacement. */
export interface PayoutChain<P extends PlannedAttempt = PlannedAttempt, Needed = unknown> {
  /**
   * Why the recipient of a payout cannot be paid, as far as that is known before there is a payment. Absent where every
   * address can be paid.
   */
  unpayable?(payout: Payout): Promise<Wait | undefined>
  /**
   * The step of a payout in status sweeping that has no sweep under way: begins the sweeps that it needs, or takes it
   * to swept.
   */
  sweep(to: Context, payout: Payout): Promise<Outcome>
  /**
   * Begins the payment of a swept payout that has none yet; undefined once it has begun. Absent where `sweep` begins
   * both at once.
   */
  beginPayment?(to: Context, payout: Payout): Promise<Wait | undefined>
  /**
   * The next attempts of those outgoing payments that can be made now; the others wait. Where attempts expire, none of
   * them is being cancelled.
   */
  plan(to: Context, outgoingPayments: OutgoingPayment[]): Promise<P[]>
  /** The intent that asks custody to sign the attempt. */
  intentOf(planned: P): object
  /** Custody's responses to such intents. */
  responses: Responses<Needed>
  /**
   * The attempt with the least that custody accepts, after custody signed one that is not stored here; undefined if
   * that costs too much. Absent where attempts expire: nothing is outbid.
   */
  raise?(to: Context, planned: P, needed: Needed): Promise<P | undefined>
  /**
   * Whether the newest attempt needs another one in its place. An operator's decision to replace it is not asked here.
   * Absent where attempts expire: only one that is dead needs another.
   */
  isStuck?(outgoingPayment: OutgoingPayment): boolean
  /**
   * What custody signed, as a library reads it that did not make it, beside what was asked (second-reader.ts). Throws
   * Unreadable.
   */
  readSigned(to: Context, planned: P, signed: Signed): Promise<Reading>
  /** How long after a broadcast the same bytes are sent again, by their age. */
  resendAfterMs(ageMs: number): number
  /**
   * Broadcasts signed transactions. Returns the node's error for each, undefined if it took it; neither proves
   * anything.
   */
  broadcast(raws: string[]): Promise<(string | undefined)[]>
  /**
   * Begins the next transaction of a return. Returns what prevents it, or undefined once it has begun. Absent where
   * nothing is returned.
   */
  beginReturn?(to: Context, step: ReturnStep): Promise<Wait | undefined>
  /**
   * Why the chain does not let a token leave an address now; undefined if it does. `holds`: what the ledger has there,
   * in base units. Throws RetryableError if that cannot be asked. Absent where nothing can refuse a sweep.
   */
  refusal?(to: Context, of: {token: string; address: string; holds: bigint}): Promise<string | undefined>
  /**
   * The hash of the code of each token's contract now, by token. Throws RetryableError if the node cannot be asked.
   * Absent where tokens have no code.
   */
  codeHashes?(): Promise<Map<string, string>>
  /** Begins sweeps that no payout needs, if the operator has set that. */
  collect(to: Context): Promise<void>
  /** Aborts open requests and takes no new ones. */
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
  /** The chain does not let some of its deposits leave their addresses, and its payment has not begun. */
  isBlocked: boolean
}

/** The next transaction of a return: a sweep to the treasury, or a withdrawal from the treasury to the destination. */
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

/** The next attempt of an outgoing payment, ready to be signed. */
export interface PlannedAttempt {
  outgoingPayment: OutgoingPayment
  kind: 'effect' | 'cancel'
}

/** What a transaction says, by the name of each field. */
export type Facts = Record<string, string>

export interface Reading {
  /** What it must say. */
  asked: Facts
  /** What it says, as the other library reads it. A field that is not asked must not be there. */
  says: Facts
  /** Why it is not stored although it says what was asked. */
  waits?: Wait | undefined
}

/** A signed transaction that is stored and may be broadcast. */
export interface Stored {
  outgoingPaymentId: string
  txid: string
  raw: string
  ageMs: number
}

export interface Wait {
  /** Null: for nothing but time. */
  reason: ReasonCode | null
  detail?: string
  ms: number
  /**
   * The payout fails with this code if it waits so long for the same reason; every other one does after
   * PAYOUT_TIMEOUT_MS.
   */
  fails?: {as: FailureCode; afterMs: number}
}

/** The outcome of a step: the next step at once, or a wait. */
export type Outcome = 'next' | Wait

export const retryMs = {
  /** For causes that end without a notification: a node that cannot be reached, fees, the treasury. */
  soon: 3000,
  /** Custody records each refusal. A new whitelist entry wakes the payout at once. */
  refused: 60_000,
  /** For causes whose end wakes the payout automatically. */
  told: 15_000,
}

/** Why a chain is halted, and what an operator can do about it; undefined if it is not halted. */
export async function whyHalted({pool}: Context, chain: string): Promise<string | undefined> {
  const {rows} = await pool.query<{why: string | null}>({
    name: 'why_halted',
    text: 'select app.way_out($1) as why',
    values: [chain],
  })
  return rows[0]!.why ?? undefined
}

/** The setting that names the node of a chain. */
function endpointOf(code: string): string {
  const of = chain(code)
  return familyOf(of).endpointVariable(of)
}

/** What an error of a node says, and which setting names the node. */
export const unreachable = (code: string, detail: string): {reason: 'node_unreachable'; detail: string} => {
  return {reason: 'node_unreachable', detail: `${endpointOf(code)}: ${detail}`}
}

export const noNode = (code: string): string => `${code} has no node; set ${endpointOf(code)} for the jobs worker`

/**
 * The wait of a payout while one of its sweeps is not final. What that waits for is found where it is shown
 * (app.why_payout_waits).
 */
export async function untilSwept({pool}: Context, {id}: Payout): Promise<Wait | undefined> {
  const {rows} = await pool.query(
    `select from app.payout_sweep l join app.outgoing_payment s on s.id = l.outgoing_payment_id where l.payout_id = $1 and s.status <> 'final' limit 1`,
    [id],
  )
  return rows.length ? {reason: 'sweeps', ms: retryMs.told} : undefined
}

/** For chains whose nodes may forget a transaction at any time: after half of its age, within 5 s and a minute. */
export function resendByAge(ageMs: number): number {
  return Math.min(Math.max(ageMs / 2, 5000), 60_000)
}

/** The recipient will not be payable later: the payout fails soon. */
export function notPayable(reason: 'destination_not_payable' | 'below_rent_exempt', detail: string): Wait {
  return {reason, detail, ms: retryMs.soon, fails: {as: reason, afterMs: 30_000}}
}

export function shortOfFunds(detail: string): Wait {
  return {reason: 'insufficient_treasury_funds', detail, ms: retryMs.soon}
}

/** The result of `work`; on a RetryableError, the result of `otherwise`. */
export async function retryable<T, U>(work: Promise<T>, otherwise: (why: string) => Promise<U>): Promise<T | U> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof RetryableError)) throw error
    return await otherwise(error.message)
  }
}
