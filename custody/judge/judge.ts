// May this be signed? One judge for all families, in this order: the row that it is for, locked; whose money it is;
// what was signed before; whether it may be paid; how its family would do that; whether the chain is halted, the
// journal whole, and the fee worth it and within the budget. custody.ts then signs, and writes the journal. Custody
// trusts no other process. An intent names only a row, and what it offers for its place in a block. Everything else is
// read here, from rows that neither the API nor the worker can write (custody.*, chain.*), or from rows that do no harm
// if they are forged.
//
// Promises: the signatures of a purpose exclude each other, by a nonce or an output that all of them use (the family's
// plan), or each expires, and the next one is signed only if every earlier one is proven dead (expiring.ts). So at most
// one of them can be mined. Sweeps and cancels go only to the treasury, or nowhere. payments.ts and limits.ts say to
// whom, and how much, may leave.
import {type ChainSettings, familyOf as chainFamilyOf} from '../../chains/families.ts'
import type {CustodyFamily, Matter} from '../family.ts'
import {type Intent, isStaking, kindOf} from '../intents.ts'
import {type Attempt, attemptsFor, checkJournal, conflictKeyOf, findAttempts} from './attempts.ts'
import type {Budget} from './budget.ts'
import {checkDelegate, checkUndelegate, stakingPurpose} from './delegations.ts'
import {attemptToRepeat} from './expiring.ts'
import {checkFund, checkGasLeft, defundMatter, fundPurpose} from './funds.ts'
import {lockOutgoingPayment, type OutgoingPayment} from './outgoing-payments.ts'
import {checkPayment, checkStatus, payoutPurpose, withdrawalPurpose} from './payments.ts'
import {
  checkAsset,
  checkSweepFee,
  type Decision,
  type FamilyContext,
  findOwn,
  type Own,
  type Plan,
  type Purpose,
} from './plan.ts'
import {Refusal} from './refusal.ts'

export async function judge(
  context: FamilyContext,
  family: CustodyFamily,
  intent: Intent,
  budget: Budget,
): Promise<Decision<Plan>> {
  const outgoingPayment = await lockOutgoingPayment(context, intent)
  const matter = await matterOf(context, intent, outgoingPayment, family.funds)
  const {purpose, payer, status} = matter
  const {kind, chain} = purpose
  const settings = settingsOf(context, chain)
  const attempts = await findAttempts(context, chain, family.keysOf?.(intent, payer) ?? [], purpose.subjectId)
  if (kind === 'cancel') purpose.subjectId = subjectOfKey(attempts, outgoingPayment!)
  const before = attemptsFor(attempts, kind, purpose.subjectId)
  if (status !== undefined) checkStatus(status, {isSigned: before.length > 0})
  const expires = 'maxLapses' in settings // a setting of the chains whose transactions expire
  const again = expires ? attemptToRepeat(before, settings) : undefined
  const isFirst = expires ? !again : !before.length
  if (kind === 'pay' || kind === 'withdraw') await checkPayment(context, purpose, before, {isFirst})
  checkBegun(outgoingPayment, chain, {cancelling: kind === 'cancel'})
  if (again) return {attempt: again}

  const decision = await family.plan(context, {...matter, outgoingPayment, attempts, before}, intent)
  if ('attempt' in decision) return decision
  const isPayment = outgoingPayment.kind === 'payout' || outgoingPayment.kind === 'withdrawal'
  // What is lent is taken back whatever the budget has left: else no sweep could use it.
  const isForPaymentUnderWay = (isPayment && (kind === 'cancel' || before.length > 0)) || kind === 'undelegate'
  const plan: Plan = {
    ...purpose,
    source: matter.from.address,
    feePayer: payer.address,
    paths: {source: matter.from.path, feePayer: payer.path},
    nonce: null,
    conflictKey: null,
    outgoingPaymentId: outgoingPayment.id,
    isForPaymentUnderWay,
    ...decision.plan,
  }
  // What replaces or cancels a payment under way has its conflict key: whatever else was signed for it, only one of
  // them can be mined.
  if (expires || !isForPaymentUnderWay) checkWhole(context, chain)
  await budget.checkHalt(chain, outgoingPayment.id)
  if (kind === 'sweep' || kind === 'defund') (family.checkSweep ?? checkSweepFee)(settings, plan)
  if (kind === 'fund') await checkFund(context, plan, before, family.funds!)
  if (kind === 'delegate') await checkDelegate(context, plan, before, family.funds!)
  if (kind === 'undelegate') await checkUndelegate(context, plan)
  if (outgoingPayment.fromGas || kind === 'defund') await checkGasLeft(context, plan)
  await budget.charge(plan)
  return {plan}
}

/** A sweep that was begun, for what is signed beside its transaction: whose money it moves, and from where. */
export async function begunSweep(
  context: FamilyContext,
  intent: {outgoing_payment_id: string; chain: Purpose['chain']},
): Promise<Matter & {outgoingPayment: OutgoingPayment}> {
  const outgoingPayment = await lockOutgoingPayment(context, {intent: 'sweep', ...intent})
  const matter = await matterOf(context, {intent: 'sweep', ...intent}, outgoingPayment)
  checkBegun(outgoingPayment, intent.chain, {cancelling: false})
  return {...matter, outgoingPayment}
}

/**
 * Throws a Refusal that passes while the journal may lack a transaction that a block holds unknown to us or, where
 * transactions expire, that may still be mined. It is asked before each first signature; where transactions expire,
 * each new one is a first one.
 */
export function checkWhole({journal}: Pick<FamilyContext, 'journal'>, chain: string): void {
  const why = journal.whyUnproven(chain)
  if (why !== undefined) throw new Refusal('copy_unproven', why)
}

async function matterOf(
  context: FamilyContext,
  intent: Intent,
  outgoingPayment: OutgoingPayment | undefined,
  funds?: CustodyFamily['funds'],
): Promise<Matter> {
  const {treasury} = context
  const ofTreasury = {from: treasury, payer: treasury}
  if ('payout_id' in intent) return {...(await payoutPurpose(context, intent.payout_id)), ...ofTreasury}
  const kind = kindOf(intent)
  const chain = intent.chain ?? outgoingPayment?.chain
  if (chain) checkJournal(context, chain) // an older copy may lack the row
  const isNamed = outgoingPayment && chain === outgoingPayment.chain
  if (!isNamed || (kind === 'withdraw' && outgoingPayment.kind !== 'withdrawal'))
    throw new Refusal('unknown_settlement', 'there is no such outgoing payment')
  checkAsset(context, outgoingPayment)
  if (kind === 'fund') return {...(await fundPurpose(context, outgoingPayment, funds)), payer: context.treasury}
  if (kind === 'defund') return await defundMatter(context, outgoingPayment)
  if (isStaking(kind)) return {purpose: await stakingPurpose(context, outgoingPayment, kind, funds), ...ofTreasury}
  if (kind === 'withdraw') return {purpose: withdrawalPurpose(outgoingPayment), ...ofTreasury}
  return kind === 'cancel' ? await cancelOf(context, outgoingPayment) : await sweepOf(context, outgoingPayment)
}

/** All of it goes to the treasury. */
async function sweepOf(context: FamilyContext, outgoingPayment: OutgoingPayment): Promise<Matter> {
  const {id, kind, chain, token, amount} = outgoingPayment
  if (kind !== 'sweep' || amount <= 0n)
    throw new Refusal('settlement_changed', 'this outgoing payment was not begun as a sweep')
  const {treasury} = context
  const {from, payer} = usesOutputs(settingsOf(context, chain))
    ? {from: treasury, payer: treasury}
    : await sweptAddress(context, outgoingPayment)
  const {merchantId} = from
  const purpose: Purpose = {
    kind: 'sweep',
    chain,
    subjectId: id,
    merchantId,
    token,
    amount,
    destination: treasury.address,
    details: {},
  }
  return {purpose, from, payer}
}

/**
 * An address pays for its own coins, and for a token with the gas that it was sent. For coins of some chains, and for
 * other tokens, the treasury does: an address has none to pay with.
 */
async function sweptAddress(
  context: FamilyContext,
  {chain, token, source, feePayer, fromGas}: OutgoingPayment,
): Promise<{from: Own; payer: Own}> {
  const {treasury} = context
  const settings = settingsOf(context, chain)
  const from = await findOwn(context, source)
  if (from.path.purpose !== 'deposit') throw new Refusal('not_ours', 'only deposit addresses can be swept')
  const isNative = token === settings.chain.assets[0].token
  if ((isNative || fromGas) && feePayer === from.address) return {from, payer: from}
  const mayTreasuryPay = !isNative || chainFamilyOf(settings).nativeSweepsPaidBy === 'treasury'
  if (mayTreasuryPay && feePayer === treasury.address) return {from, payer: treasury}
  throw new Refusal('settlement_changed', `${feePayer} pays for no sweep of ${token} from ${source}`)
}

/** It moves nothing to anybody: it uses up the nonce, or the first input, of an outgoing payment that is cancelled. */
async function cancelOf(context: FamilyContext, {id, chain, feePayer}: OutgoingPayment): Promise<Matter> {
  const settings = settingsOf(context, chain)
  const from = usesOutputs(settings) ? context.treasury : await findOwn(context, feePayer)
  const {merchantId, address: destination} = from
  const {token} = settings.chain.assets[0]
  const purpose: Purpose = {
    kind: 'cancel',
    chain,
    subjectId: id,
    merchantId,
    token,
    amount: 0n,
    destination,
    details: {},
  }
  return {purpose, from, payer: from}
}

/** What was signed with the key that is used up says for which subject; if nothing was, it is the outgoing payment. */
function subjectOfKey(attempts: Attempt[], {id, conflictKey}: OutgoingPayment): string {
  return attempts.find(attempt => conflictKeyOf(attempt) === conflictKey)?.subjectId ?? id
}

function checkBegun(
  outgoingPayment: OutgoingPayment | undefined,
  chain: string,
  {cancelling}: {cancelling: boolean},
): asserts outgoingPayment is OutgoingPayment {
  if (outgoingPayment?.chain !== chain)
    throw new Refusal('unknown_settlement', `there is no such outgoing payment on ${chain}`)
  const {id, status} = outgoingPayment
  if (status === 'final') throw new Refusal('wrong_state', `outgoing payment ${id} is final`)
  if (outgoingPayment.cancelling !== cancelling)
    throw new Refusal('wrong_state', `outgoing payment ${id} is ${cancelling ? 'not ' : ''}being cancelled`)
}

function settingsOf({chains, family}: FamilyContext, chain: Purpose['chain']): ChainSettings {
  const settings = chains.get(chain)
  if (settings?.family !== family) throw new Refusal('unknown_settlement', `this intent is not for ${chain}`)
  return settings
}

const usesOutputs = (settings: ChainSettings) => chainFamilyOf(settings).attemptsExcludeBy === 'output'
