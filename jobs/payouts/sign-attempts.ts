// Has custody sign planned attempts and stores the results. Promises: only stored attempts are returned. If a response
// of custody was lost, custody returns the same signature again, and it is stored then. What it signed is read by a
// second library first (second-reader.ts).
import {type FailureCode, type RefusalCode, reasonOf} from '../../base/reasons.ts'
import {step} from '../../base/step.ts'
import {type Context, type PayoutChain, type PlannedAttempt, retryable, type Stored, type Wait} from './context.ts'
import type {Refusal, Signed} from './custody-client.ts'
import {waitOutgoingPayment} from './outgoing-payments.ts'
import {readAgain} from './second-reader.ts'

/** Approximate size of a request. An input of a transaction is 70 bytes, and custody signs it in a millisecond. */
const bytesAtOnce = 140_000

const unreachableRetryMs = 2000
/** Long, because custody records each refusal. */
const refusedRetryMs = 10_000
/**
 * A cancel is refused while fees are too high, or when custody signed something with its nonce that is not stored here.
 */
const cancelRetryMs = 3000
/**
 * For limits that end with the day (raising the fee budget wakes the payment), and for a journal that may lack
 * signatures.
 */
const slowRetryMs = 300_000
const lateRetryMs = 1000

/**
 * The stored attempts by id of the outgoing payment. An outgoing payment whose attempt was not signed or not stored
 * waits.
 */
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
      const dearer = response.ok || !response.needed ? undefined : await chain.raise?.(to, one, response.needed)
      if (dearer) raised.push(asked(dearer))
      else await take(to, chain, one, response, stored)
    }
    for (const [one, response] of await ask(to, chain, raised)) await take(to, chain, one, response, stored)
  }
  return stored
}

interface Asked {
  planned: PlannedAttempt
  /** The intent that asks custody to sign it. */
  intent: object
}

/** Splits the requests into parts of at most `bytesAtOnce`, in order. */
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

/** Each attempt with custody's response, in order. If custody cannot be reached, all wait and the result is empty. */
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
  chain: PayoutChain,
  planned: PlannedAttempt,
  response: Signed | Refusal<unknown>,
  stored: Map<string, Stored>,
): Promise<void> {
  const {outgoingPayment} = planned
  if (!response.ok) return await refused(to, planned, response)
  const {txid, raw, maxFee} = response
  const wrong = await readAgain(to, chain, planned, response)
  if (wrong) return await waitOutgoingPayment(to, outgoingPayment.id, wrong)
  const isStored = await store(to, planned, response)
  step('send: after store')
  if (isStored) stored.set(outgoingPayment.id, {outgoingPaymentId: outgoingPayment.id, txid, raw, ageMs: 0})
  else await waitOutgoingPayment(to, outgoingPayment.id, {...tooDear(maxFee - outgoingPayment.maxFee), ms: lateRetryMs})
}

/** Stores the next attempt; false if it comes too late, or costs more than the treasury has. */
async function store(
  {pool}: Context,
  {outgoingPayment, kind}: PlannedAttempt,
  {txid, raw, amount, maxFee, feeDetails}: Signed,
): Promise<boolean> {
  const {rows} = await pool.query<{is_stored: boolean}>(
    'select app.store_signed($1, $2, $3, $4, $5, $6, $7, $8) as is_stored',
    [
      outgoingPayment.id,
      (outgoingPayment.newest?.number ?? 0) + 1,
      kind,
      txid,
      raw,
      amount,
      String(maxFee),
      feeDetails,
    ],
  )
  return rows[0]!.is_stored
}

/** Has an outgoing payment wait for what custody refused; gives up what it refuses for good. */
export async function refused(
  to: Context,
  {outgoingPayment, kind}: PlannedAttempt,
  {code, message}: Refusal<unknown>,
): Promise<void> {
  to.log.warn(
    {outgoingPayment: outgoingPayment.id, chain: outgoingPayment.chain, code},
    `custody did not sign: ${message}`,
  )
  const {ends, isSlow} = reasonOf(code)
  const ms = isSlow ? slowRetryMs : kind === 'cancel' ? cancelRetryMs : refusedRetryMs
  await waitOutgoingPayment(to, outgoingPayment.id, {reason: code, detail: message, ms})
  if (outgoingPayment.cancelling || ends === 'by itself') return
  // What custody refuses for good is given up: it holds up later nonces, or keeps outputs. (For a payout,
  // advance-payout.ts decides.)
  if (outgoingPayment.expires && (outgoingPayment.newest || code === 'transaction_expired')) {
    const {failsAs, afterMs} = endOf(to, code)
    await to.pool.query('select app.expire_payment($1, $2, $3, $4)', [outgoingPayment.id, failsAs, message, afterMs])
  } else if (!outgoingPayment.newest) {
    await to.pool.query('select app.give_up_outgoing_payment($1, $2)', [
      outgoingPayment.id,
      `custody refused it: ${message}`,
    ])
  }
}

/**
 * How a payment ends whose transactions have all expired, if custody signs no other. Only the whitelist may still
 * change.
 */
function endOf(
  {payoutTimeoutMs}: Context,
  code: RefusalCode | 'error',
): {failsAs: FailureCode | undefined; afterMs: number} {
  if (code === 'exceeds_received') return {failsAs: 'deposit_reorged', afterMs: 0} // what it claims was there when the first one was signed
  return {failsAs: reasonOf(code).fails, afterMs: code === 'not_whitelisted' ? payoutTimeoutMs : 0}
}

function tooDear(more: bigint): Partial<Wait> {
  return more > 0n
    ? {reason: 'insufficient_treasury_funds', detail: `the network fee needs ${more} base units more`}
    : {}
}
