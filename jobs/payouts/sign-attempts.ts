// Asks custody for planned attempts and stores what it signs. Promises: nothing that is not stored is returned; what custody signed before,
// and whose answer was lost, it answers with again, and that is stored then.
import {step} from '../../base/step.ts'
import {type Context, type PayoutChain, type PlannedAttempt, retryable, type Stored} from './context.ts'
import type {Refusal, Signed} from './custody.ts'
import {waitOutgoingPayment} from './outgoing-payments.ts'

/** Of a request, about: an input of a transaction is 70 bytes, and takes custody a millisecond to sign. */
const bytesAtOnce = 140_000

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

/** By id of the outgoing payment. Outgoing payments whose attempt was not signed, or not stored, wait. */
export async function signAndStore(
  to: Context,
  chain: PayoutChain,
  planned: PlannedAttempt[],
): Promise<Map<string, Stored>> {
  const stored = new Map<string, Stored>()
  const asked = (one: PlannedAttempt): Asked => ({planned: one, intent: chain.intentOf(one)})
  for (const part of parts(planned.map(asked))) {
    const raised: Asked[] = []
    for (const [one, response] of await ask(to, chain, part)) {
      const dearer = response.ok || !response.needed ? undefined : await chain.raise(to, one, response.needed)
      if (dearer) raised.push(asked(dearer))
      else await take(to, one, response, stored)
    }
    for (const [one, response] of await ask(to, chain, raised)) await take(to, one, response, stored)
  }
  return stored
}

interface Asked {
  planned: PlannedAttempt
  /** What custody is asked for it. */
  intent: object
}

/** What is asked for at once, in order. */
function* parts(asked: Asked[]): Generator<Asked[]> {
  let part: Asked[] = []
  let bytes = 0
  for (const one of asked) {
    const more = JSON.stringify(one.intent).length
    if (part.length && bytes + more > bytesAtOnce) {
      yield part
      part = []
      bytes = 0
    }
    part.push(one)
    bytes += more
  }
  if (part.length) yield part
}

/** Each with the answer of custody, in order; none, and all wait, if it does not answer. */
async function ask(
  to: Context,
  chain: PayoutChain,
  asked: Asked[],
): Promise<[PlannedAttempt, Signed | Refusal<unknown>][]> {
  if (!asked.length) return []
  step('send: before sign')
  if (asked.some(({planned}) => planned.outgoingPayment.newest)) step('send: before replace')
  const intents = asked.map(({intent}) => intent)
  const responses = await retryable(to.custody.sign(intents, chain.responses), async detail => {
    for (const {outgoingPayment} of asked.map(({planned}) => planned))
      await waitOutgoingPayment(to, outgoingPayment.id, {reason: 'custody_unreachable', detail, ms: unreachableRetryMs})
    return []
  })
  step('send: after sign')
  return responses.map((response, i) => [asked[i]!.planned, response])
}

async function take(
  to: Context,
  planned: PlannedAttempt,
  response: Signed | Refusal<unknown>,
  stored: Map<string, Stored>,
): Promise<void> {
  const {outgoingPayment} = planned
  if (!response.ok) return await refused(to, planned, response)
  const {txid, raw, cost} = response
  const isStored = await store(to, planned, response)
  step('send: after store')
  if (isStored) stored.set(outgoingPayment.id, {outgoingPaymentId: outgoingPayment.id, txid, raw, ageMs: 0})
  else await waitOutgoingPayment(to, outgoingPayment.id, {...tooDear(cost - outgoingPayment.maxFee), ms: lateRetryMs})
}

/** As the next attempt; false if it comes too late, or costs more than the treasury has. */
async function store(
  {pool}: Context,
  {outgoingPayment, kind}: PlannedAttempt,
  {txid, raw, amount, price}: Signed,
): Promise<boolean> {
  const {rows} = await pool.query<{is_stored: boolean}>(
    'select app.store_signed($1, $2, $3, $4, $5, $6, $7) as is_stored',
    [outgoingPayment.id, (outgoingPayment.newest?.number ?? 0) + 1, kind, txid, raw, amount, price],
  )
  return rows[0]!.is_stored
}

async function refused(
  to: Context,
  {outgoingPayment, kind}: PlannedAttempt,
  {code, message}: Refusal<unknown>,
): Promise<void> {
  to.log.warn(
    {outgoingPayment: outgoingPayment.id, chain: outgoingPayment.chain, code},
    `custody did not sign: ${message}`,
  )
  const ms = untilTomorrow.has(code) ? untilTomorrowRetryMs : kind === 'cancel' ? cancelRetryMs : refusedRetryMs
  await waitOutgoingPayment(to, outgoingPayment.id, {reason: code, detail: message, ms})
  // A nonce that nothing is signed for holds up all that follow. (A payout gives its own up: advance-payout.ts.)
  if (!outgoingPayment.newest && !outgoingPayment.cancelling && !passing.has(code))
    await to.pool.query('select app.cancel_outgoing_payment($1)', [outgoingPayment.id])
}

function tooDear(more: bigint): {reason?: string; detail?: string} {
  return more > 0n
    ? {reason: 'insufficient_treasury_funds', detail: `${more} base units more are needed for the network fee`}
    : {}
}
