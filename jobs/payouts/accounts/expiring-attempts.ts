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
  /** What the intents for these payments name besides their rows; absent: nothing. */
  offers?(outgoingPayments: OutgoingPayment[]): Promise<object[]>
  /** What a node says would make each of these sweeps fail; absent: no node can say. */
  sweepRefusals?(sweeps: OutgoingPayment[]): Promise<(Refusal | undefined)[]>
  responses: Responses<never>
  resendAfterMs(ageMs: number): number
  broadcast(raws: string[]): Promise<(string | undefined)[]>
}

/** Why a sweep would fail. */
export interface Refusal {
  words: string
  /** Its address makes it fail: another sweep may not. Otherwise it may pass. */
  isOfAddress: boolean
}

interface Planned extends PlannedAttempt {
  offer: object
}

const wouldRevertRetryMs = 5000

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
    for (const {id} of outgoingPayments) await waitOutgoingPayment(to, id, wait)
    return []
  }
  const refused = await refusedSweeps(to, of, outgoingPayments)
  const left = outgoingPayments.filter(({id}) => !refused.has(id))
  const offers = left.length ? await of.offers?.(left) : undefined
  return left.map((outgoingPayment, i) => ({outgoingPayment, kind: 'effect', offer: offers?.[i] ?? {}}))
}

/** The ids of sweeps that are not signed: they were given up, or wait. One that was signed has expired by now. */
async function refusedSweeps(to: Context, of: Attempts, outgoingPayments: OutgoingPayment[]): Promise<Set<string>> {
  const refused = new Set<string>()
  const sweeps = outgoingPayments.filter(({kind}) => kind === 'sweep')
  const refusals = (sweeps.length && (await of.sweepRefusals?.(sweeps))) || []
  for (const [i, {id, chain, newest}] of sweeps.entries()) {
    const refusal = refusals[i]
    if (!refusal) continue
    const {words, isOfAddress} = refusal
    refused.add(id)
    if (!isOfAddress) {
      await waitOutgoingPayment(to, id, {reason: 'would_revert', detail: words, ms: wouldRevertRetryMs})
      continue
    }
    to.log.warn({outgoingPayment: id, chain, error: words}, 'a sweep would fail, and is given up')
    if (newest) await to.pool.query('select app.expire_payment($1, null, $2)', [id, words])
    else await to.pool.query('select app.give_up_outgoing_payment($1, $2)', [id, words])
  }
  return refused
}

function intentOf(family: Family, {outgoingPayment, offer}: Planned): object {
  const {id, kind, chain, payoutId} = outgoingPayment
  if (kind === 'payout') return {intent: `pay_${family}`, payout_id: payoutId, ...offer}
  if (kind === 'withdrawal') return {intent: `withdraw_${family}`, outgoing_payment_id: id, ...offer}
  return {intent: `sweep_${family}`, chain, outgoing_payment_id: id, ...offer}
}
