// Asks custody for planned attempts and stores what it signs. Promises: nothing that is not stored is returned; what custody signed before,
// and whose answer was lost, it answers with again, and that is stored then.
import {step} from '../../base/step.ts'
import {type Context, retryable, type Stored} from './context.ts'
import type {Answers, Refusal, Signed} from './custody.ts'
import {type Spend, waitSpend} from './spends.ts'

const unreachableRetryMs = 2000
/** Custody writes each refusal down. */
const refusedRetryMs = 10_000
/** A cancel is refused while the chain asks for too much, or something else was signed with its nonce that is not stored here. */
const cancelRetryMs = 3000
/** Of what passes with the day; an operator who raises the fee budget wakes it. */
const untilTomorrowRetryMs = 300_000
const lateRetryMs = 1000

const untilTomorrow = new Set(['fee_budget_reached', 'daily_limit'])

/** Refusals that say nothing against what was asked, and pass by themselves: a cancel would be refused, too, or be worse than waiting. */
export const passing = new Set([
  ...untilTomorrow,
  'chain_halted',
  'journal_ahead',
  'journal_changed',
  'fee_above_cap',
  'fee_too_low',
  'nonce_too_high',
  'sweep_too_dear',
])

/** An attempt that can be made now. */
export interface Plan {
  spend: Spend
  kind: 'effect' | 'cancel'
}

/** What a family's attempts are on the wire, and in the database. */
export interface Signing<P extends Plan, S extends Signed, Needed> {
  answers: Answers<S, Needed>
  intentOf(plan: P): object
  /** The plan for what custody wants at least, because of something that it signed before and that is not stored here; undefined if that is too much. */
  dearer(to: Context, plan: P, needed: Needed): Promise<P | undefined>
  /** Stores it as the attempt of this number; false if it comes too late, or costs more than the treasury has. */
  store(to: Context, plan: P, signed: S, number: number): Promise<boolean>
  /** What such an attempt needs of the native coin beyond what is reserved, in base units; up to 0 where it came too late. */
  shortBy(plan: P, signed: S): bigint
}

/** By id of the spend. Spends whose attempt was not signed, or not stored, wait. */
export async function signAndStore<P extends Plan, S extends Signed, Needed>(
  to: Context,
  plans: P[],
  family: Signing<P, S, Needed>,
): Promise<Map<string, Stored>> {
  const stored = new Map<string, Stored>()
  const answers = await ask(to, plans, family)
  const again: P[] = []
  for (const [i, answer] of answers.entries()) {
    const dearer = answer.ok || !answer.needed ? undefined : await family.dearer(to, plans[i]!, answer.needed)
    if (dearer) again.push(dearer)
    else await take(to, plans[i]!, answer, stored, family)
  }
  for (const [i, answer] of (await ask(to, again, family)).entries()) await take(to, again[i]!, answer, stored, family)
  return stored
}

/** The answers of custody, in order; none, and all wait, if it does not answer. */
async function ask<P extends Plan, S extends Signed, Needed>(
  to: Context,
  plans: P[],
  {answers: schema, intentOf}: Signing<P, S, Needed>,
): Promise<(S | Refusal<Needed>)[]> {
  if (!plans.length) return []
  step('send: before sign')
  if (plans.some(({spend}) => spend.newest)) step('send: before replace')
  const answers = await retryable(to.custody.sign(plans.map(intentOf), schema), async detail => {
    for (const {spend} of plans)
      await waitSpend(to, spend.id, {reason: 'custody_unreachable', detail, ms: unreachableRetryMs})
    return []
  })
  step('send: after sign')
  return answers
}

async function take<P extends Plan, S extends Signed, Needed>(
  to: Context,
  plan: P,
  answer: S | Refusal<Needed>,
  stored: Map<string, Stored>,
  family: Signing<P, S, Needed>,
): Promise<void> {
  const {spend} = plan
  if (!answer.ok) return await refused(to, plan, answer)
  const isStored = await family.store(to, plan, answer, (spend.newest?.number ?? 0) + 1)
  step('send: after store')
  if (isStored) stored.set(spend.id, {spendId: spend.id, txid: answer.txid, raw: answer.raw, ageMs: 0})
  else await waitSpend(to, spend.id, {...tooDear(family.shortBy(plan, answer)), ms: lateRetryMs})
}

async function refused(to: Context, {spend, kind}: Plan, {code, message}: Refusal<unknown>): Promise<void> {
  to.log.warn({spend: spend.id, chain: spend.chain, code}, `custody did not sign: ${message}`)
  const ms = untilTomorrow.has(code) ? untilTomorrowRetryMs : kind === 'cancel' ? cancelRetryMs : refusedRetryMs
  await waitSpend(to, spend.id, {reason: code, detail: message, ms})
  // A nonce that nothing is signed for holds up all that follow. (A payout gives its own up: advance-payout.ts.)
  if (!spend.newest && !spend.cancelling && !passing.has(code))
    await to.pool.query('select app.cancel_spend($1)', [spend.id])
}

function tooDear(more: bigint): {reason?: string; detail?: string} {
  return more > 0n
    ? {reason: 'insufficient_treasury_funds', detail: `${more} base units more are needed for the network fee`}
    : {}
}
