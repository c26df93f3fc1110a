// What custody judges alike on all chains of accounts whose transactions expire: the intents, and what is checked before a payment, a withdrawal or a
// sweep is signed. policy.ts has what all families share; expiry.ts says when there is another transaction at all. Promises: a payment has at most one
// transaction that can still be mined. An intent names only the row that it is for, and in some families a fee; amount, recipient and source are read here.
// There are no cancels, because what is not signed again ends by itself.
import {z} from 'zod'
import {type ChainSettings, familyOf} from '../chains/families.ts'
import type {ChainCode, Family} from '../chains/registry.ts'
import {type Attempt, attemptsFor, checkJournal, findAttempts} from './attempts.ts'
import {attemptToRepeat, type Lifetime} from './expiry.ts'
import {chainOf, id} from './intents.ts'
import type {KeyPath} from './keys.ts'
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
} from './policy.ts'
import {Refusal} from './refusal.ts'

/** The intents of a family, whose name ends theirs, and what they name besides their row. */
export function expiringIntents<F extends Family, More extends z.ZodRawShape>(family: F, more: More) {
  return z.discriminatedUnion('intent', [
    z.strictObject({intent: z.literal(`pay_${family}`), payout_id: id, ...more}),
    z.strictObject({intent: z.literal(`sweep_${family}`), chain: chainOf(family), outgoing_payment_id: id, ...more}),
    z.strictObject({intent: z.literal(`withdraw_${family}`), outgoing_payment_id: id, ...more}),
  ])
}

type Sweep = {chain: ChainCode; outgoing_payment_id: string}
type Withdraw = {outgoing_payment_id: string}
export type ExpiringIntent = {intent: string} & ({payout_id: string} | Sweep | Withdraw)

/** What a family adds to a plan. */
interface Terms {
  maxFee: bigint
  lifetime: Lifetime
}

export interface ExpiringPlan extends Plan, Terms {
  /** Of the key of the address that the money comes from. */
  path: KeyPath
  /** Of the key of who pays the fee: mostly the same. */
  feePayerPath: KeyPath
}

/** What the families differ in. */
export interface Rules<T extends Terms> {
  /** After this many transactions of a payment that expired, there is no other. */
  maxLapses(settings: ChainSettings): number
  /** The terms of the next transaction, which so many keys sign. Throws a Refusal. */
  terms(context: FamilyContext, purpose: Purpose, signatures: 1 | 2): Promise<T>
}

export const subjectOf = (intent: ExpiringIntent): string =>
  'payout_id' in intent ? intent.payout_id : intent.outgoing_payment_id

export async function judgeExpiring<T extends Terms>(
  context: FamilyContext,
  intent: ExpiringIntent,
  rules: Rules<T>,
): Promise<Decision<ExpiringPlan & T>> {
  if ('payout_id' in intent) return await judgePay(context, intent.payout_id, rules)
  if ('chain' in intent) return await judgeSweep(context, intent, rules)
  return await judgeWithdraw(context, intent, rules)
}

async function judgePay<T extends Terms>(context: FamilyContext, payoutId: string, rules: Rules<T>) {
  const locked = await lockOutgoingPayment(context, {payoutId})
  const payout = await findPayout(context, payoutId)
  const {id: outgoingPaymentId} = await findOutgoingPayment(context, payout.chain, locked)
  const purpose = purposeOfPayout(payout)
  const {before, attempt} = await earlierOf(context, purpose, rules)
  await checkPay(context, payout, before, {isFirst: !attempt})
  if (attempt) return {attempt}
  return await planOf(context, purpose, rules, {own: context.treasury, outgoingPaymentId, before})
}

async function judgeWithdraw<T extends Terms>(context: FamilyContext, intent: Withdraw, rules: Rules<T>) {
  const locked = await lockOutgoingPayment(context, {id: intent.outgoing_payment_id})
  const withdrawal = await findWithdrawal(context, locked)
  const purpose = purposeOfWithdrawal(withdrawal)
  const {before, attempt} = await earlierOf(context, purpose, rules)
  await checkWithdraw(context, withdrawal, before, {isFirst: !attempt})
  if (attempt) return {attempt}
  return await planOf(context, purpose, rules, {own: context.treasury, outgoingPaymentId: withdrawal.id, before})
}

async function judgeSweep<T extends Terms>(
  context: FamilyContext,
  {chain, outgoing_payment_id}: Sweep,
  rules: Rules<T>,
) {
  const locked = await lockOutgoingPayment(context, {id: outgoing_payment_id})
  checkJournal(context, chain)
  const {
    id: outgoingPaymentId,
    kind,
    token,
    amount,
    source,
    feePayer,
  } = await findOutgoingPayment(context, chain, locked)
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
  const {attempt} = await earlierOf(context, purpose, rules)
  if (attempt) return {attempt}
  const payer = payerOf(context, chain, own, feePayer)
  return await planOf(context, purpose, rules, {own, payer, outgoingPaymentId, before: []})
}

/** Who pays for a sweep as it was begun: the address itself or, where the chain lets another account pay, the treasury. */
function payerOf({chains, treasury}: FamilyContext, chain: ChainCode, own: Own, feePayer: string): Own {
  if (feePayer === own.address) return own
  const {nativeSweepsPaidBy} = familyOf(chains.get(chain)!)
  if (feePayer === treasury.address && nativeSweepsPaidBy === 'treasury') return treasury
  throw new Refusal('not_ours', `${feePayer} pays for no sweep of ${own.address}`)
}

interface Earlier {
  before: Attempt[]
  /** What is given again. */
  attempt?: Attempt
}

async function earlierOf(
  context: FamilyContext,
  {kind, chain, subjectId}: Purpose,
  {maxLapses}: Pick<Rules<Terms>, 'maxLapses'>,
): Promise<Earlier> {
  const before = attemptsFor(await findAttempts(context, chain, [], subjectId), kind, subjectId!)
  return {before, attempt: attemptToRepeat(before, {maxLapses: maxLapses(context.chains.get(chain)!)})}
}

interface Use {
  /** Whose money moves. */
  own: Own
  /** Who pays the fee; absent: the same. */
  payer?: Pick<Own, 'address' | 'path'>
  outgoingPaymentId: string
  before: Attempt[]
}

async function planOf<T extends Terms>(
  context: FamilyContext,
  purpose: Purpose,
  rules: Rules<T>,
  {own: {address, path}, payer = {address, path}, outgoingPaymentId, before}: Use,
): Promise<{plan: ExpiringPlan & T}> {
  const plan = {
    ...purpose,
    source: address,
    feePayer: payer.address,
    nonce: null,
    conflictKey: null,
    outgoingPaymentId,
    isForPaymentUnderWay: before.length > 0,
    path,
    feePayerPath: payer.path,
    ...(await rules.terms(context, purpose, payer.address === address ? 1 : 2)),
  }
  return {plan}
}

async function findOwn({client, family}: FamilyContext, address: string): Promise<Own> {
  const {rows} = await client.query<OwnRow>({
    name: 'find_own_expiring',
    text: 'select address, purpose, derivation_index as index, merchant_id from custody.address where family = $1 and address = $2',
    values: [family, address],
  })
  const [own] = rows
  if (!own) throw new Refusal('not_ours', `${address} is not an address of this service`)
  return ownOf(family, own)
}
