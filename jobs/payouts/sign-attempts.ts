// Asks custody for planned attempts and stores what it signs. Promises: nothing that is not stored is returned; what custody signed before,
// and whose answer was lost, it answers with again, and that is stored then.
import {step} from '../../service/step.ts'
import {type Context, retryable} from './context.ts'
import type {Intent, Result, Signed} from './custody.ts'
import {most} from './fees.ts'
import type {Plan} from './plan-attempt.ts'
import {type Spend, waitSpend} from './spends.ts'

const unreachableRetryMs = 2000
/** Custody writes each refusal down. */
const refusedRetryMs = 10_000
/** A cancel is refused until the nonce before it is signed. */
const cancelRetryMs = 3000
const lateRetryMs = 1000

/** Refusals that say nothing against what was asked. */
export const passing = new Set(['journal_ahead', 'fee_above_cap', 'fee_too_low'])

export interface Stored {
  spendId: string
  txid: string
  raw: string
  ageMs: number
}

/** By id of the spend. Spends whose attempt was not signed, or not stored, wait. */
export async function signAndStore(to: Context, plans: Plan[]): Promise<Map<string, Stored>> {
  const stored = new Map<string, Stored>()
  const answers = await ask(to, plans)
  const again: Plan[] = []
  for (const [i, answer] of answers.entries()) {
    const dearer = outbidding(plans[i]!, answer)
    if (dearer) again.push(dearer)
    else await take(to, plans[i]!, answer, stored)
  }
  for (const [i, answer] of (await ask(to, again)).entries()) await take(to, again[i]!, answer, stored)
  return stored
}

/** The answers of custody, in order; none, and all wait, if it does not answer. */
async function ask(to: Context, plans: Plan[]): Promise<Result[]> {
  if (!plans.length) return []
  step('send: before sign')
  if (plans.some(({spend}) => spend.newest)) step('send: before replace')
  const answers = await retryable(to.custody.sign(plans.map(intentOf)), async detail => {
    for (const {spend} of plans)
      await waitSpend(to, spend.id, {reason: 'custody_unreachable', detail, ms: unreachableRetryMs})
    return []
  })
  step('send: after sign')
  return answers
}

function intentOf({spend, kind, amount, fees, gasLimit}: Plan): Intent {
  const offered = {
    nonce: spend.nonce,
    max_fee_per_gas: String(fees.maxFeePerGas),
    max_priority_fee_per_gas: String(fees.maxPriorityFeePerGas),
    gas_limit: Number(gasLimit),
  }
  const {chain, token, sender} = spend
  if (kind === 'cancel') return {intent: 'cancel', chain, sender, ...offered}
  if (spend.kind === 'withdrawal') return {intent: 'withdraw', spend_id: spend.id, ...offered}
  if (spend.kind === 'payout') return {intent: 'pay', payout_id: spend.payoutId!, ...offered}
  const sweep = {chain, token, address: spend.source, amount: String(amount)}
  return {intent: 'sweep', spend_id: spend.id, ...sweep, ...offered}
}

/** What to ask for where custody signed something with this nonce that is not stored here, and that a cancel has to outbid. */
function outbidding(plan: Plan, answer: Result): Plan | undefined {
  if (answer.ok || !answer.needed) return
  const fees = {
    maxFeePerGas: most(BigInt(answer.needed.max_fee_per_gas), plan.fees.maxFeePerGas),
    maxPriorityFeePerGas: most(BigInt(answer.needed.max_priority_fee_per_gas), plan.fees.maxPriorityFeePerGas),
  }
  return fees.maxFeePerGas <= plan.cap ? {...plan, fees} : undefined
}

async function take(to: Context, plan: Plan, answer: Result, stored: Map<string, Stored>): Promise<void> {
  const {spend} = plan
  if (!answer.ok) {
    to.log.warn({spend: spend.id, chain: spend.chain, code: answer.code}, `custody did not sign: ${answer.message}`)
    const ms = plan.kind === 'cancel' ? cancelRetryMs : refusedRetryMs
    await waitSpend(to, spend.id, {reason: answer.code, detail: answer.message, ms})
    // A nonce that nothing is signed for holds up all that follow. (A payout gives its own up: advance-payout.ts.)
    if (!spend.newest && !spend.cancelling && !passing.has(answer.code))
      await to.pool.query('select app.cancel_spend($1)', [spend.id])
    return
  }
  if (await isStored(to, plan, answer))
    stored.set(spend.id, {spendId: spend.id, txid: answer.txid, raw: answer.raw, ageMs: 0})
  else await waitSpend(to, spend.id, {...tooDear(spend, answer), ms: lateRetryMs})
}

async function isStored({pool}: Context, {spend, kind}: Plan, signed: Signed): Promise<boolean> {
  const {rows} = await pool.query<{is_stored: boolean}>(
    'select app.store_attempt($1, $2, $3, $4, $5, $6, $7, $8, $9) as is_stored',
    [
      spend.id,
      (spend.newest?.number ?? 0) + 1,
      kind,
      signed.txid,
      signed.raw,
      signed.amount,
      signed.max_fee_per_gas,
      signed.max_priority_fee_per_gas,
      signed.gas_limit,
    ],
  )
  step('send: after store')
  return rows[0]!.is_stored
}

/** An attempt is not stored if it comes too late, which passes, or if the treasury cannot pay what it costs more than was reserved. */
function tooDear({maxFee}: Spend, {max_fee_per_gas, gas_limit}: Signed): {reason?: string; detail?: string} {
  const more = BigInt(max_fee_per_gas) * BigInt(gas_limit) - maxFee
  return more > 0n
    ? {reason: 'insufficient_treasury_funds', detail: `${more} wei more are needed for the network fee`}
    : {}
}
