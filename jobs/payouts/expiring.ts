// Payouts on chains of accounts whose transactions expire, alike in all such families: money on deposit addresses is swept to the treasury, and the
// treasury pays it out. One that expired is signed again; nothing is replaced. Promises: nothing is begun or
// signed while the family says that it would fail or be too dear. Beginning is safe to repeat, also concurrently (accounts.ts).
import {step} from '../../base/step.ts'
import {type CommonSettings, worthSweeping} from '../../chains/chain-settings.ts'
import {familyOf} from '../../chains/families.ts'
import {
  beginReturnStep,
  beginSweeps,
  collectable,
  endSweeping,
  type Holding,
  isPayable,
  type Sweep,
  shortfall,
  sweepable,
  treasuryOf,
  untilTriedAgain,
  whyUnpaid,
} from './accounts.ts'
import {
  type Context,
  type Outcome,
  type Payout,
  type PayoutChain,
  type PlannedAttempt,
  type ReturnStep,
  retryMs,
  shortOfFunds,
  untilSwept,
  type Wait,
} from './context.ts'
import type {Responses} from './custody.ts'
import {type OutgoingPayment, waitOutgoingPayment} from './outgoing-payments.ts'

/** What the families differ in. All amounts are in base units of the chain's coin. */
export interface Rules {
  settings: CommonSettings
  /** Why nothing is begun or signed now. */
  notNow(to: Context): Promise<Wait | undefined>
  /** What the treasury must have besides the amount of a payment. */
  paymentReserve(): Promise<bigint>
  /** The most that a sweep may cost. */
  maxSweepFee: bigint
  /** What is swept of each holding, if it can be swept now. */
  sweeps(to: Context, holdings: Holding[]): Promise<(Sweep | undefined)[]>
  /** Why nothing can be swept to the treasury now, in words for operators. */
  cannotSweep(treasury: string): Promise<string | undefined>
  /** Why a recipient cannot be paid this much. */
  unpayable(to: {recipient: string; amount: bigint}): Promise<Wait | undefined>
  /** What the treasury lacks for a payout, in words of the family; absent: as SQL said it. */
  shortOf?(to: Context, payout: Payout, short: string): Promise<Wait>
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

/** A node is asked about each address. */
const atOnce = 20
const wouldRevertRetryMs = 5000

export function openExpiring(rules: Rules): PayoutChain<Planned, never> {
  return {
    unpayable: rules.unpayable,
    sweep: (to, payout) => sweep(to, rules, payout),
    beginPayment: (to, payout) => beginPayment(to, rules, payout),
    plan: (to, outgoingPayments) => plan(to, rules, outgoingPayments),
    intentOf: planned => intentOf(rules, planned),
    responses: rules.responses,
    resendAfterMs: rules.resendAfterMs,
    broadcast: rules.broadcast,
    beginReturn: (to, of) => beginReturn(to, rules, of),
    collect: to => collect(to, rules),
    close() {},
  }
}

async function sweep(to: Context, rules: Rules, payout: Payout): Promise<Outcome> {
  const wait = await rules.notNow(to)
  if (wait) return wait
  if (!payout.sweepFirst && (await isPayable(to, payout, await rules.paymentReserve())))
    return await endSweeping(to, payout)
  const {short, isLeft} = await beginSweepsOf(to, rules, payout)
  const unswept = await untilSwept(to, payout)
  if (unswept) return unswept
  if (short) return shortOfFunds(short)
  if (isLeft && payout.sweepFirst) return {reason: 'sweeps', detail: 'an address has just changed', ms: retryMs.soon}
  return (await untilTriedAgain(to, payout)) ?? (await endSweeping(to, payout))
}

interface Begun {
  /** What is missing for sweeps. */
  short?: string | undefined
  /** An address could not be swept now. */
  isLeft: boolean
}

async function beginSweepsOf(to: Context, rules: Rules, payout: Payout): Promise<Begun> {
  const reserve = payout.sweepFirst && payout.status === 'sweeping' ? undefined : await rules.paymentReserve()
  const missing = reserve === undefined ? undefined : await shortfall(to, payout, reserve)
  const {sweeps, isLeft} = missing === 0n ? {sweeps: [], isLeft: false} : await sweepsFor(to, rules, payout, missing)
  const short = sweeps.length ? await rules.cannotSweep(payout.treasury) : undefined
  if (short) return {short, isLeft}
  step('sweep: before begin')
  const begun = await beginSweeps(to.pool, payout, sweeps, reserve)
  step('sweep: after begin')
  return {short: begun, isLeft}
}

/** The sweeps of a payout: the largest first, until they bring `missing`, or all if `missing` is undefined. */
async function sweepsFor(to: Context, rules: Rules, payout: Payout, missing: bigint | undefined) {
  const holdings = await sweepable(to, payout, worthwhile(rules))
  const sweeps: Sweep[] = []
  let [brought, isLeft] = [0n, false]
  for (let i = 0; i < holdings.length && (missing === undefined || brought < missing); i += atOnce) {
    const some = await rules.sweeps(to, holdings.slice(i, i + atOnce))
    const now = some.filter(sweep => sweep !== undefined)
    isLeft ||= now.length < some.length
    sweeps.push(...now)
    brought += now.reduce((sum, sweep) => sum + broughtBy(rules, sweep), 0n)
  }
  return {sweeps, isLeft}
}

/** What a sweep adds to what the treasury can pay. */
function broughtBy({settings}: Rules, {amount, maxFee}: Sweep): bigint {
  return familyOf(settings).nativeSweepsPaidBy === 'treasury' ? amount - maxFee : amount
}

const worthwhile = ({settings, maxSweepFee}: Rules): bigint => worthSweeping(settings, maxSweepFee)

async function beginPayment(to: Context, rules: Rules, payout: Payout): Promise<Wait | undefined> {
  const wait = await rules.notNow(to)
  if (wait) return wait
  step('payment: before begin')
  const reserve = await rules.paymentReserve()
  const {rows} = await to.pool.query<{short: string | null}>('select app.begin_payment($1, $2) as short', [
    payout.id,
    String(reserve),
  ])
  step('payment: after begin')
  const {short} = rows[0]!
  if (short === null) return undefined
  const begun = await beginSweepsOf(to, rules, payout) // another payout used money that this one counted on
  if (begun.short) return shortOfFunds(begun.short)
  const why = rules.shortOf ? await rules.shortOf(to, payout, short) : shortOfFunds(short)
  return await whyUnpaid(to, payout, reserve, why)
}

/** All of them, with their amounts; none while nothing may be signed. */
async function plan(to: Context, rules: Rules, outgoingPayments: OutgoingPayment[]): Promise<Planned[]> {
  const wait = await rules.notNow(to)
  if (wait) {
    for (const {id} of outgoingPayments) await waitOutgoingPayment(to, id, wait)
    return []
  }
  const refused = await refusedSweeps(to, rules, outgoingPayments)
  const left = outgoingPayments.filter(({id}) => !refused.has(id))
  const offers = left.length ? await rules.offers?.(left) : undefined
  return left.map((outgoingPayment, i) => ({outgoingPayment, kind: 'effect', offer: offers?.[i] ?? {}}))
}

/** The ids of sweeps that are not signed: they were given up, or wait. One that was signed has expired by now. */
async function refusedSweeps(to: Context, rules: Rules, outgoingPayments: OutgoingPayment[]): Promise<Set<string>> {
  const refused = new Set<string>()
  const sweeps = outgoingPayments.filter(({kind}) => kind === 'sweep')
  const refusals = (sweeps.length && (await rules.sweepRefusals?.(sweeps))) || []
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

function intentOf({settings: {family}}: Rules, {outgoingPayment, offer}: Planned): object {
  const {id, kind, chain, payoutId} = outgoingPayment
  if (kind === 'payout') return {intent: `pay_${family}`, payout_id: payoutId, ...offer}
  if (kind === 'withdrawal') return {intent: `withdraw_${family}`, outgoing_payment_id: id, ...offer}
  return {intent: `sweep_${family}`, chain, outgoing_payment_id: id, ...offer}
}

/** An unattributed deposit is swept to the treasury like a merchant's, then goes to its destination like a withdrawal. */
async function beginReturn(to: Context, rules: Rules, of: ReturnStep): Promise<Wait | undefined> {
  const wait = await rules.notNow(to)
  if (wait) return wait
  return of.step === 'sweep' ? await beginReturnSweep(to, rules, of) : await beginReturnPayment(to, rules, of)
}

async function beginReturnPayment(to: Context, rules: Rules, of: ReturnStep): Promise<Wait | undefined> {
  const {depositId, destination, amount} = of
  const unpayable = await rules.unpayable({recipient: destination, amount})
  if (unpayable) return unpayable
  const reserve = String(await rules.paymentReserve())
  return await beginReturnStep(to, 'begin_return_withdrawal($1, $2)', [depositId, reserve])
}

async function beginReturnSweep(to: Context, rules: Rules, of: ReturnStep): Promise<Wait | undefined> {
  const {depositId, address, amount, treasury} = of
  const why = await rules.cannotSweep(treasury)
  if (why) return shortOfFunds(why)
  const {code} = rules.settings.chain
  const least = worthwhile(rules)
  if (amount < least)
    return {
      reason: 'not_worth_moving',
      detail: `it is ${amount} base units; ${code}_SWEEP_FEE_PERCENT lets no less than ${least} be moved`,
      ms: retryMs.soon,
    }
  const [sweep] = await rules.sweeps(to, [{address, amount: String(amount)}])
  if (!sweep) return {reason: 'sweeps', detail: 'the address has just changed', ms: retryMs.soon}
  const values = [depositId, String(sweep.amount), String(sweep.maxFee)]
  return await beginReturnStep(to, 'begin_return_sweep($1, $2, $3)', values)
}

/** Sweeps addresses that hold enough, if the operator has set that. */
async function collect(to: Context, rules: Rules): Promise<void> {
  const {chain, collectAbove} = rules.settings
  for (const [token, above] of collectAbove) {
    const found = await collectable(to, {chain: chain.code, token, above})
    const holdings = found.filter(({amount}) => BigInt(amount) >= worthwhile(rules))
    if (!holdings.length || (await rules.notNow(to))) continue
    const why = await rules.cannotSweep(await treasuryOf(to.pool, chain.code))
    if (why) to.log.warn({chain: chain.code, token}, `addresses are not collected: ${why}`)
    for (let i = 0; !why && i < holdings.length; i += atOnce) {
      const sweeps = await rules.sweeps(to, holdings.slice(i, i + atOnce))
      await beginSweeps(
        to.pool,
        {id: null, chain: chain.code, token},
        sweeps.filter(sweep => sweep !== undefined),
      )
    }
  }
}
