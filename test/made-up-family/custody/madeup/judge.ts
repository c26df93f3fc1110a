// What custody signs on chains of the made-up family, and what it refuses; ../policy.ts has what all families share, ../expiry.ts what those share whose
// transactions expire. Promises: a payment has at most one transaction that can still be mined. There are no cancels, because what is not signed
// again ends by itself.
import {z} from 'zod'
import {blockMs, fee, lifetimeBlocks} from '../../chains/madeup/block.ts'
import {madeUpSettings} from '../../chains/madeup/settings.ts'
import type {ChainCode} from '../../chains/registry.ts'
import {type Attempt, attemptsFor, checkJournal, findAttempts} from '../attempts.ts'
import {attemptToRepeat, type Lifetime, lifetimeInBlocks, lifetimeInTime, linkedNow} from '../expiry.ts'
import {chainOf, id} from '../intents.ts'
import type {KeyPath} from '../keys.ts'
import {
  checkAsset,
  checkPay,
  checkWithdraw,
  type Decision,
  type FamilyContext,
  findOutgoingPayment,
  findPayout,
  findWithdrawal,
  lockOutgoingPayment,
  type Own,
  type OwnRow,
  ownOf,
  type Plan,
  type Purpose,
  purposeOfPayout,
  purposeOfWithdrawal,
} from '../policy.ts'
import {Refusal} from '../refusal.ts'

export const Pay = z.strictObject({intent: z.literal('pay_madeup'), payout_id: id})
export const Sweep = z.strictObject({
  intent: z.literal('sweep_madeup'),
  chain: chainOf('madeup'),
  outgoing_payment_id: id,
})
export const Withdraw = z.strictObject({intent: z.literal('withdraw_madeup'), outgoing_payment_id: id})
export const Intent = z.discriminatedUnion('intent', [Pay, Sweep, Withdraw])
export type Intent = z.infer<typeof Intent>

export interface MadeUpPlan extends Plan {
  path: KeyPath
  lifetime: Lifetime
}

export async function judge(context: FamilyContext, intent: Intent): Promise<Decision<MadeUpPlan>> {
  if (intent.intent === 'pay_madeup') return await judgePay(context, intent)
  if (intent.intent === 'withdraw_madeup') return await judgeWithdraw(context, intent)
  return await judgeSweep(context, intent)
}

async function judgePay(context: FamilyContext, intent: z.infer<typeof Pay>): Promise<Decision<MadeUpPlan>> {
  const locked = await lockOutgoingPayment(context, {payoutId: intent.payout_id})
  const payout = await findPayout(context, intent.payout_id)
  const {id: outgoingPaymentId} = await findOutgoingPayment(context, payout.chain, locked)
  const purpose = purposeOfPayout(payout)
  const {before, attempt} = await earlierOf(context, purpose)
  await checkPay(context, payout, before, {isFirst: !attempt})
  if (attempt) return {attempt}
  return {plan: await planOf(context, purpose, {own: context.treasury, outgoingPaymentId, before})}
}

async function judgeWithdraw(context: FamilyContext, intent: z.infer<typeof Withdraw>): Promise<Decision<MadeUpPlan>> {
  const locked = await lockOutgoingPayment(context, {id: intent.outgoing_payment_id})
  const withdrawal = await findWithdrawal(context, locked)
  const purpose = purposeOfWithdrawal(withdrawal)
  const {before, attempt} = await earlierOf(context, purpose)
  await checkWithdraw(context, withdrawal, before, {isFirst: !attempt})
  if (attempt) return {attempt}
  return {plan: await planOf(context, purpose, {own: context.treasury, outgoingPaymentId: withdrawal.id, before})}
}

async function judgeSweep(
  context: FamilyContext,
  {chain, outgoing_payment_id}: z.infer<typeof Sweep>,
): Promise<Decision<MadeUpPlan>> {
  const locked = await lockOutgoingPayment(context, {id: outgoing_payment_id})
  checkJournal(context, chain)
  const {id: outgoingPaymentId, kind, token, amount, source} = await findOutgoingPayment(context, chain, locked)
  checkAsset(context, {chain, token})
  const own = await findOwn(context, source)
  if (kind !== 'sweep' || own.path.purpose !== 'deposit' || amount <= 0n)
    throw new Refusal('not_ours', 'only a sweep moves money, from a deposit address to the treasury')
  const purpose: Purpose = {
    kind: 'sweep',
    chain,
    subjectId: outgoingPaymentId,
    merchantId: own.merchantId,
    token,
    amount,
    destination: context.treasury.address,
    details: {},
  }
  const {attempt} = await earlierOf(context, purpose)
  if (attempt) return {attempt}
  return {plan: await planOf(context, purpose, {own, outgoingPaymentId, before: []})}
}

interface Earlier {
  before: Attempt[]
  /** What is given again. */
  attempt?: Attempt
}

async function earlierOf(context: FamilyContext, {kind, chain, subjectId}: Purpose): Promise<Earlier> {
  const before = attemptsFor(await findAttempts(context, chain, [], subjectId), kind, subjectId!)
  return {before, attempt: attemptToRepeat(before, madeUpSettings(context.chains.get(chain)))}
}

interface Use {
  /** Whose money moves; it pays the fee, too. */
  own: Own
  outgoingPaymentId: string
  before: Attempt[]
}

async function planOf(
  context: FamilyContext,
  purpose: Purpose,
  {own, outgoingPaymentId, before}: Use,
): Promise<MadeUpPlan> {
  return {
    ...purpose,
    source: own.address,
    feePayer: own.address,
    nonce: null,
    conflictKey: null,
    maxFee: fee,
    outgoingPaymentId,
    isForPaymentUnderWay: before.length > 0,
    path: own.path,
    lifetime: await lifetimeNow(context, purpose.chain),
  }
}

/** It ends by height, or by time where app.chain says so. */
async function lifetimeNow(context: FamilyContext, chain: ChainCode): Promise<Lifetime> {
  const linked = await linkedNow(context, chain, madeUpSettings(context.chains.get(chain)))
  const {rowCount} = await context.client.query({
    name: 'ends_by_time',
    text: `select from app.chain where chain = $1 and ends_by = 'time'`,
    values: [chain],
  })
  return rowCount ? lifetimeInTime(linked, lifetimeBlocks * blockMs) : lifetimeInBlocks(linked, lifetimeBlocks, blockMs)
}

async function findOwn({client}: FamilyContext, address: string): Promise<Own> {
  const {rows} = await client.query<OwnRow>({
    name: 'find_own_madeup',
    text: `select address, purpose, derivation_index as index, merchant_id from custody.address where family = 'madeup' and address = $1`,
    values: [address],
  })
  const [own] = rows
  if (!own) throw new Refusal('not_ours', `${address} is not an address of this service`)
  return ownOf('madeup', own)
}
