// What custody signs on EVM chains, and what it refuses; ../policy.ts has what all families share. Promises: a payout keeps one nonce for ever, so
// at most one of its signatures can be mined. A nonce serves one purpose, or is cancelled. No nonce is used before the one below it.

import {leastGas} from '../../chains/evm/gas-limits.ts'
import {type EvmSettings, evmSettings} from '../../chains/evm/settings.ts'
import type {ChainCode} from '../../chains/registry.ts'
import {type Attempt, attemptsFor, checkJournal, checkRows, findAttempts} from '../attempts.ts'
import type {OfSweep} from '../intents.ts'
import {entryColumns} from '../journal.ts'
import type {Entry} from '../journal-file.ts'
import type {KeyPath} from '../keys.ts'
import {
  checkAsset,
  checkPay,
  checkSweepFee,
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
import type {Cancel, EvmIntent, Pay, Sweep, WireFees, Withdraw} from './intents.ts'
import type {Fees} from './sign.ts'

/** The sender signs the transaction. If the source is another address, it signs an authorisation to take its tokens. */
export interface EvmPlan extends Plan {
  nonce: number
  paths: Record<'source' | 'sender', KeyPath>
  fees: Fees
}

export type Details = Entry['details'] & WireFees
type EvmAttempt = Attempt<Details> & {fees: Fees}
type EvmDecision = Decision<EvmPlan>

export async function judge(context: FamilyContext, intent: EvmIntent): Promise<EvmDecision> {
  if (intent.intent === 'pay') return await judgePay(context, intent)
  if (intent.intent === 'sweep') return await judgeSweep(context, intent)
  if (intent.intent === 'withdraw') return await judgeWithdraw(context, intent)
  return await judgeCancel(context, intent)
}

async function judgePay(context: FamilyContext, intent: Pay): Promise<EvmDecision> {
  const {nonce} = intent
  const {treasury} = context
  const locked = await lockOutgoingPayment(context, {payoutId: intent.payout_id})
  const payout = await findPayout(context, intent.payout_id)
  const fees = checkPaymentFees(context, payout.chain, intent)
  const attempts = await attemptsAt(context, payout.chain, treasury.address, nonce, payout.id)
  const before = attemptsFor(attempts, 'pay', payout.id)
  checkNonce(nonce, before)
  await checkPay(context, payout, before)
  const outgoingPayment = await findOutgoingPayment(context, payout.chain, locked)
  checkNonce(nonce, [outgoingPayment])
  await checkNext(context, payout.chain, treasury, nonce)
  const use = {source: treasury, sender: treasury, nonce, fees, outgoingPaymentId: outgoingPayment.id}
  return decide(
    planOf(purposeOfPayout(payout), {...use, isForPaymentUnderWay: before.length > 0}, isToken(context, payout)),
    attempts,
  )
}

async function judgeSweep(context: FamilyContext, intent: Sweep): Promise<EvmDecision> {
  const {chain, token, nonce} = intent
  const {source, sender, outgoingPayment, isNative} = await findSweep(context, intent)
  const fees = checkFees(context, chain, intent)
  const amount = BigInt(intent.amount)
  if (outgoingPayment.nonce !== nonce)
    throw new Refusal('settlement_changed', 'a sweep must keep the nonce that it was begun with')
  const attempts = await attemptsAt(context, chain, sender.address, nonce, intent.outgoing_payment_id)
  const earlier = attempts.filter(({subjectId, kind}) => subjectId === intent.outgoing_payment_id && kind !== 'cancel')
  if (!isNative && !earlier.length) await checkAmount(context, intent)
  for (const before of earlier) {
    const isOther =
      before.nonce !== nonce || before.token !== token || before.source !== source.address || before.kind !== 'sweep'
    if (isOther || (isNative ? amount > before.amount : amount !== before.amount))
      throw new Refusal(
        'settlement_changed',
        'a sweep must keep the nonce, address and token of its first signature, and must not move more',
      )
  }
  await checkNext(context, chain, sender, nonce)
  const purpose: Purpose = {
    kind: 'sweep',
    chain,
    subjectId: intent.outgoing_payment_id,
    merchantId: source.merchantId,
    token,
    amount,
    destination: context.treasury.address,
    details: {},
  }
  const use = {source, sender, nonce, fees, outgoingPaymentId: outgoingPayment.id, isForPaymentUnderWay: false}
  return decide(planOf(purpose, use, !isNative), attempts)
}

/** A sweep that was begun, and whose it is. Throws a Refusal unless it is as it was begun. */
export async function findSweep(context: FamilyContext, sweep: OfSweep) {
  const {chain, token} = sweep
  const locked = await lockOutgoingPayment(context, {id: sweep.outgoing_payment_id})
  checkJournal(context, chain)
  const isNative = checkAsset(context, sweep) === evmSettings(context.chains.get(chain)).chain.assets[0]
  const source = await findOwn(context, sweep.address)
  if (source.path.purpose !== 'deposit') throw new Refusal('not_ours', 'only deposit addresses can be swept')
  const amount = BigInt(sweep.amount)
  if (amount === 0n) throw new Refusal('settlement_changed', 'the amount of a sweep must be above zero')
  const sender = isNative ? source : context.treasury
  const outgoingPayment = await findOutgoingPayment(context, chain, locked)
  const isAsBegun =
    outgoingPayment.kind === 'sweep' &&
    outgoingPayment.token === token &&
    outgoingPayment.source === source.address &&
    outgoingPayment.feePayer === sender.address
  if (!isAsBegun || amount > outgoingPayment.amount)
    throw new Refusal(
      'settlement_changed',
      'a sweep must keep the address and token that it was begun with, and must not move more than it was begun with',
    )
  return {source, sender, outgoingPayment, isNative}
}

async function judgeWithdraw(context: FamilyContext, intent: Withdraw): Promise<EvmDecision> {
  const {nonce} = intent
  const {treasury} = context
  const locked = await lockOutgoingPayment(context, {id: intent.outgoing_payment_id})
  const outgoingPayment = await findWithdrawal(context, locked)
  const fees = checkPaymentFees(context, outgoingPayment.chain, intent)
  const attempts = await attemptsAt(context, outgoingPayment.chain, treasury.address, nonce, outgoingPayment.id)
  const before = attemptsFor(attempts, 'withdraw', outgoingPayment.id)
  checkNonce(nonce, [...before, outgoingPayment])
  await checkWithdraw(context, outgoingPayment, before)
  await checkNext(context, outgoingPayment.chain, treasury, nonce)
  const use = {source: treasury, sender: treasury, nonce, fees, outgoingPaymentId: outgoingPayment.id}
  return decide(
    planOf(
      purposeOfWithdrawal(outgoingPayment),
      {...use, isForPaymentUnderWay: before.length > 0},
      isToken(context, outgoingPayment),
    ),
    attempts,
  )
}

/** Uses up the nonce of a cancelled outgoing payment with a transaction that moves nothing. */
async function judgeCancel(context: FamilyContext, intent: Cancel): Promise<EvmDecision> {
  const {chain, nonce} = intent
  const sender = await findOwn(context, intent.sender)
  const locked = await lockOutgoingPayment(context, {chain, feePayer: sender.address, nonce})
  checkJournal(context, chain)
  const fees = checkPaymentFees(context, chain, intent)
  const attempts = await attemptsAt(context, chain, sender.address, nonce, null)
  const outgoingPayment = await findOutgoingPayment(context, chain, locked, {cancelling: true})
  checkNonce(nonce, [outgoingPayment])
  const {isFinal} = await checkNext(context, chain, sender, nonce)
  if (isFinal) throw new Refusal('wrong_state', `nonce ${nonce} is used: its transaction is final`)
  const purpose: Purpose = {
    kind: 'cancel',
    chain,
    subjectId: attempts.find(attempt => attempt.subjectId)?.subjectId ?? outgoingPayment.id,
    merchantId: sender.merchantId,
    token: evmSettings(context.chains.get(chain)).chain.assets[0].token,
    amount: 0n,
    destination: sender.address,
    details: {},
  }
  const isForPaymentUnderWay = outgoingPayment.kind !== 'sweep'
  return decide(
    planOf(
      purpose,
      {source: sender, sender, nonce, fees, outgoingPaymentId: outgoingPayment.id, isForPaymentUnderWay},
      false,
    ),
    attempts,
  )
}

const isToken = ({chains}: FamilyContext, {chain, token}: {chain: ChainCode; token: string}) =>
  token !== evmSettings(chains.get(chain)).chain.assets[0].token

interface Use extends Pick<EvmPlan, 'nonce' | 'fees' | 'outgoingPaymentId' | 'isForPaymentUnderWay'> {
  source: Own
  sender: Own
}

function planOf(purpose: Purpose, {source, sender, ...use}: Use, isToken: boolean): EvmPlan {
  checkGas(use.fees, isToken, purpose.kind === 'sweep')
  return {
    ...purpose,
    ...use,
    source: source.address,
    feePayer: sender.address,
    conflictKey: `${sender.address}:${use.nonce}`,
    paths: {source: source.path, sender: sender.path},
    maxFee: use.fees.maxFeePerGas * use.fees.gasLimit,
  }
}

/**
 * Less than the minimum is signed only if it is all on its address that counts in the balance: it was worth a sweep once. Otherwise another sweep is to
 * be begun, so the worker gives this one's nonce up.
 */
async function checkAmount({client, chains}: FamilyContext, {chain, token, address, amount}: Sweep): Promise<void> {
  const least = evmSettings(chains.get(chain)).sweepMin.get(token)!
  if (BigInt(amount) >= least) return
  const {rows} = await client.query<{amount: string}>({
    name: 'collectable_amount',
    text: 'select app.collectable_amount($1, $2, $3) as amount',
    values: [chain, address, token],
  })
  const counts = BigInt(rows[0]!.amount)
  if (counts > 0n && BigInt(amount) >= counts) return
  throw new Refusal(
    'sweep_too_small',
    `${amount} base units of ${token} is too little to sweep (${chain}_SWEEP_MIN: ${least}), and not all that counts there`,
  )
}

/** The native coin has the check of every family. A token sweep has a maximum fee. */
export function checkSweep(settings: EvmSettings, sweep: EvmPlan): void {
  const {chain, tokenSweepFee} = settings
  const {token, maxFee} = sweep
  if (token === chain.assets[0].token) {
    checkSweepFee(settings, sweep)
    return
  }
  if (maxFee > tokenSweepFee)
    throw new Refusal(
      'sweep_too_dear',
      `the sweep may cost ${maxFee} wei: more than ${chain.code}_TOKEN_SWEEP_FEE allows (${tokenSweepFee})`,
    )
}

/**
 * A transaction signed with a nonce far ahead cannot be mined, and cannot be revoked. So a nonce is signed only after the one below it was signed
 * (custody knows) or is in a block (the indexer knows). A request that comes too early is repeated.
 */
async function checkNext(
  {client, journal}: FamilyContext,
  chain: string,
  {address}: Own,
  nonce: number,
): Promise<{isFinal: boolean}> {
  const {rows: last} = await client.query<Entry>({
    name: 'find_last_nonce',
    text: `select ${entryColumns} from custody.journal j
      where j.stream = $1 and j.sender = $2 and j.nonce is not null order by j.nonce desc limit 1`,
    values: [chain, address],
  })
  checkRows(journal.check(last)) // if a row was deleted, a lower nonce is found, and less can be signed
  const {rows} = await client.query<{mined: number | null; isFinal: boolean}>({
    name: 'find_mined_nonce',
    text: `select (select max(nonce) from chain.confirmed_tx i where i.chain = $1 and i.account = $2) as mined,
        exists (select from chain.confirmed_tx i join chain.cursor c using (chain)
          where i.chain = $1 and i.conflict_key = $2 || ':' || $3::int and i.block_height <= c.final_height) as "isFinal"`,
    values: [chain, address, nonce],
  })
  const {mined, isFinal} = rows[0]!
  const next = 1 + Math.max(last[0]?.nonce ?? -1, mined ?? -1)
  if (nonce <= next) return {isFinal}
  throw new Refusal('nonce_too_high', `nonce ${nonce} is too high: the next nonce to sign with is ${next}`)
}

function checkNonce(nonce: number, before: {nonce: number | null}[]): void {
  if (before.some(attempt => attempt.nonce !== nonce))
    throw new Refusal('settlement_changed', 'an outgoing payment must be signed with the nonce that it was begun with')
}

/** Compares with earlier attempts with this nonce: refuses another purpose, repeats the same one, or replaces it for at least an eighth more. */
function decide(plan: EvmPlan, attempts: EvmAttempt[]): EvmDecision {
  const atNonce = attempts.filter(({nonce}) => nonce === plan.nonce)
  const isSame = ({kind, subjectId}: EvmAttempt) =>
    kind === plan.kind && (kind === 'cancel' || subjectId === plan.subjectId)
  if (plan.kind !== 'cancel' && atNonce.some(({subjectId}) => subjectId !== plan.subjectId))
    throw new Refusal('nonce_taken', `nonce ${plan.nonce} was signed for another purpose`)
  const newest = atNonce.at(-1)
  if (!newest) return {plan}
  const needed = {
    maxFeePerGas: anEighthMore(newest.fees.maxFeePerGas),
    maxPriorityFeePerGas: anEighthMore(newest.fees.maxPriorityFeePerGas),
  }
  const {maxFeePerGas, maxPriorityFeePerGas} = plan.fees
  if (maxFeePerGas >= needed.maxFeePerGas && maxPriorityFeePerGas >= needed.maxPriorityFeePerGas) return {plan}
  const identical = atNonce.find(
    attempt =>
      isSame(attempt) &&
      attempt.amount === plan.amount &&
      attempt.fees.maxFeePerGas === maxFeePerGas &&
      attempt.fees.maxPriorityFeePerGas === maxPriorityFeePerGas,
  )
  if (identical) return {attempt: identical}
  if (isSame(newest)) return {attempt: newest}
  throw new Refusal(
    'fee_too_low',
    `nonce ${plan.nonce} was signed for another transaction before; both fees must be at least an eighth higher to replace it`,
    {
      max_fee_per_gas: String(needed.maxFeePerGas),
      max_priority_fee_per_gas: String(needed.maxPriorityFeePerGas),
    },
  )
}

/** Nodes replace a transaction for 10 % more; 12.5 % is safely above that. */
function anEighthMore(fee: bigint): bigint {
  return (fee * 9n + 7n) / 8n
}

function checkFees({chains}: FamilyContext, chain: ChainCode, asked: WireFees): Fees {
  const fees = feesIn(asked)
  const {maxFeePerGas: cap} = evmSettings(chains.get(chain))
  if (fees.maxFeePerGas > cap)
    throw new Refusal(
      'fee_above_cap',
      `${fees.maxFeePerGas} wei per gas is more than ${chain}_MAX_FEE_GWEI allows (${cap})`,
    )
  if (fees.maxPriorityFeePerGas > fees.maxFeePerGas)
    throw new Refusal('fee_above_cap', 'the priority fee is higher than the maximum fee')
  return fees
}

/** The recipient of a payment may be a contract, which uses what gas it is given: the limit is what it may cost, not how much gas it may use. */
function checkPaymentFees(context: FamilyContext, chain: ChainCode, asked: WireFees): Fees {
  const fees = checkFees(context, chain, asked)
  const {maxPaymentFee} = evmSettings(context.chains.get(chain))
  const fee = fees.maxFeePerGas * fees.gasLimit
  if (fee > maxPaymentFee)
    throw new Refusal(
      'fee_above_cap',
      `the transaction may cost ${fee} wei, which is more than ${chain}_MAX_PAYMENT_FEE allows (${maxPaymentFee})`,
    )
  return fees
}

function feesIn({max_fee_per_gas, max_priority_fee_per_gas, gas_limit}: WireFees): Fees {
  return {
    maxFeePerGas: BigInt(max_fee_per_gas),
    maxPriorityFeePerGas: BigInt(max_priority_fee_per_gas),
    gasLimit: BigInt(gas_limit),
  }
}

/**
 * With less gas than its own bytes need (EIP-2028, EIP-7623), no block can hold a transaction. Signed at the highest price, it could not be replaced
 * either, and its nonce would hold up all later ones for ever. What the call itself needs is not known here; without enough for that it fails in a block.
 */
function checkGas({gasLimit}: Fees, isToken: boolean, isSweep: boolean): void {
  const least = !isToken ? leastGas.transfer : isSweep ? leastGas.tokenSweep : leastGas.tokenTransfer
  if (gasLimit < least)
    throw new Refusal('fee_too_low', `a gas limit of ${gasLimit} is less than any such transaction needs (${least})`)
}

export async function findOwn({client}: FamilyContext, address: string): Promise<Own> {
  const {rows} = await client.query<OwnRow>({
    name: 'find_own',
    text: `select address, purpose, derivation_index as index, merchant_id from custody.address where family = 'evm' and match_key = lower($1)`,
    values: [address],
  })
  const [own] = rows
  if (!own) throw new Refusal('not_ours', `${address} is not an address of this service`)
  return ownOf('evm', own)
}

/** Everything that was signed with this nonce, or for this subject, in order. */
async function attemptsAt(
  context: FamilyContext,
  chain: string,
  sender: string,
  nonce: number,
  subjectId: string | null,
): Promise<EvmAttempt[]> {
  const attempts = await findAttempts<Details>(context, chain, [`${sender}:${nonce}`], subjectId)
  return attempts.map(attempt => ({...attempt, fees: feesIn(attempt.details)}))
}
