// The attempts of chains of accounts whose transactions expire: each is signed once, and again only after it has
// expired; nothing is replaced. Promises: nothing is signed while the family says that it would fail or be too dear.
import type {Family} from '../../../chains/registry.ts'
import type {Context, PayoutChain, PlannedAttempt, Wait} from '../context.ts'
import type {Responses} from '../custody-client.ts'
import {type OutgoingPayment, waitOutgoingPayment} from '../outgoing-payments.ts'

/** What the families differ in. */
interface Attempts {
  family: Family
  /** Why nothing is signed now; absent: something always may be. */
  notNow?(to: Context): Promise<Wait | undefined>
  /**
   * What the intent for each of these payments names besides its row, or why it is not signed now; absent: nothing, and
   * always.
   */
  offers?(to: Context, outgoingPayments: OutgoingPayment[]): Promise<(object | Refusal)[]>
  responses: Responses<never>
  resendAfterMs(ageMs: number): number
  broadcast(raws: string[]): Promise<(string | undefined)[]>
}

/** Why something is not signed now. */
export class Refusal {
  readonly wait: Wait
  /** It will never pass: a sweep, or a delegate, is given up, and begun again later. */
  readonly givesUp: boolean

  constructor(wait: Wait, {givesUp}: {givesUp: boolean}) {
    this.wait = wait
    this.givesUp = givesUp
  }
}

interface Planned extends PlannedAttempt {
  offer: object
}

type ExpiringAttempts = Pick<
  PayoutChain<Planned, never>,
  'plan' | 'intentOf' | 'responses' | 'resendAfterMs' | 'broadcast' | 'close'
>

export function expiringAttempts(of: Attempts): ExpiringAttempts {
  const {family, responses, resendAfterMs, broadcast} = of
  return {
    plan: (to, outgoingPayments) => plan(to, of, outgoingPayments),
    intentOf: planned => intentOf(family, planned),
    responses,
    resendAfterMs,
    broadcast,
    close() {},
  }
}

/** All of them, with their amounts; none while nothing may be signed. */
async function plan(to: Context, of: Attempts, outgoingPayments: OutgoingPayment[]): Promise<Planned[]> {
  const wait = await of.notNow?.(to)
  if (wait) {
    for (const one of outgoingPayments) await refuse(to, one, new Refusal(wait, {givesUp: false}))
    return []
  }
  const offers = (outgoingPayments.length && (await of.offers?.(to, outgoingPayments))) || []
  const planned: Planned[] = []
  for (const [i, outgoingPayment] of outgoingPayments.entries()) {
    const offer = offers[i] ?? {}
    if (offer instanceof Refusal) await refuse(to, outgoingPayment, offer)
    else planned.push({outgoingPayment, kind: 'effect', offer})
  }
  return planned
}

/**
 * What was signed before has expired by now. A payment that cannot be tried again ends: soon if its recipient refuses
 * it, else after as long as a payout may wait.
 */
async function refuse(
  to: Context,
  {id, chain, kind, newest}: OutgoingPayment,
  {wait, givesUp}: Refusal,
): Promise<void> {
  if (newest && (kind === 'payout' || kind === 'withdrawal')) {
    const {as, afterMs} = wait.fails ?? {as: 'timed_out', afterMs: to.payoutTimeoutMs}
    await to.pool.query('select app.expire_payment($1, $2, $3, $4)', [id, as, wait.detail, afterMs])
  }
  if (!givesUp || (kind !== 'sweep' && kind !== 'delegate')) return await waitOutgoingPayment(to, id, wait)
  const words = wait.detail ?? ''
  to.log.warn({outgoingPayment: id, chain, error: words}, `a ${kind} would fail, and is given up`)
  if (newest) await to.pool.query('select app.expire_payment($1, null, $2)', [id, words])
  else await to.pool.query('select app.give_up_outgoing_payment($1, $2)', [id, words])
}

function intentOf(family: Family, {outgoingPayment, offer}: Planned): object {
  const {id, kind, chain, payoutId} = outgoingPayment
  if (kind === 'payout') return {intent: `pay_${family}`, payout_id: payoutId, ...offer}
  if (kind === 'withdrawal') return {intent: `withdraw_${family}`, outgoing_payment_id: id, ...offer}
  return {intent: `${kind}_${family}`, chain, outgoing_payment_id: id, ...offer}
}
