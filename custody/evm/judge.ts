// What custody signs on EVM chains, and what it refuses; ../policy.ts has what all families share. Promises: a payout has one nonce for ever, so
// at most one of its signatures can be mined; a nonce serves one purpose, or is cancelled; none is used before the one below it was.

import {evmSettings} from '../../chains/evm/settings.ts'
import type {ChainCode} from '../../chains/registry.ts'
import type {Cancel, EvmIntent, Pay, Sweep, WireFees, Withdraw} from '../intents.ts'
import {entryColumns} from '../journal.ts'
import type {Entry} from '../journal-file.ts'
import {
  checkAsset,
  checkChain,
  checkJournal,
  checkPay,
  checkRows,
  checkWithdraw,
  findPayout,
  findSpend,
  findWithdrawal,
  type Own,
  type OwnRow,
  ownOf,
  type PolicyContext,
  type Purpose,
  purposeOfPayout,
  purposeOfWithdrawal,
} from '../policy.ts'
import {type Kind, Refusal} from '../refusal.ts'
import type {Fees} from './sign.ts'

/** What is to be signed, once nothing speaks against it. */
export interface Plan extends Purpose {
  source: Own
  sender: Own
  nonce: number
  fees: Fees
  spendId: string
  /** Replaces what was signed for a payment or a withdrawal, or cancels one. */
  isForPaymentUnderWay: boolean
}

/** An attempt that was signed before. */
export interface Attempt {
  kind: Kind
  subjectId: string | null
  token: string
  amount: bigint
  destination: string
  source: string
  nonce: number
  fees: Fees
  txid: string
  raw: string
}

/** A plan to sign, or the bytes that were signed for it before. */
type Decision = {plan: Plan} | {attempt: Attempt}

const transferGas = 21_000n
const gasCap = 300_000n

export async function judge(context: PolicyContext, intent: EvmIntent): Promise<Decision> {
  if (intent.intent === 'pay') return await judgePay(context, intent)
  if (intent.intent === 'sweep') return await judgeSweep(context, intent)
  if (intent.intent === 'withdraw') return await judgeWithdraw(context, intent)
  return await judgeCancel(context, intent)
}

async function judgePay(context: PolicyContext, intent: Pay): Promise<Decision> {
  const {nonce} = intent
  const {evm: treasury} = context.treasuries
  const payout = await findPayout(context, intent.payout_id, 'evm')
  const fees = checkFees(context, payout.chain, intent, gasCap)
  const attempts = await findAttempts(context, payout.chain, treasury.address, nonce, payout.id)
  const before = attempts.filter(({kind, subjectId}) => kind === 'pay' && subjectId === payout.id)
  checkNonce(nonce, before)
  await checkPay(context, payout, before)
  const spend = await findSpend(context, payout.chain, {payoutId: payout.id})
  checkNonce(nonce, [spend])
  await checkNext(context, payout.chain, treasury, nonce)
  const common = {source: treasury, sender: treasury, nonce, fees, spendId: spend.id}
  return decide({...purposeOfPayout(payout), ...common, isForPaymentUnderWay: before.length > 0}, attempts)
}

async function judgeSweep(context: PolicyContext, intent: Sweep): Promise<Decision> {
  const {chain, token, nonce} = intent
  checkJournal(context, chain)
  const isNative = checkAsset(context, intent).contract === undefined
  const fees = checkFees(context, chain, intent, isNative ? transferGas : gasCap)
  const source = await findOwn(context, intent.address)
  if (source.path.purpose !== 'deposit') throw new Refusal('not_ours', 'only deposit addresses are swept')
  const amount = BigInt(intent.amount)
  if (amount === 0n) throw new Refusal('settlement_changed', 'a sweep moves more than nothing')
  const {evm: treasury} = context.treasuries
  const sender = isNative ? source : treasury
  const spend = await findSpend(context, chain, {id: intent.spend_id})
  const isAsBegun =
    spend.kind === 'sweep' &&
    spend.token === token &&
    spend.source === source.address &&
    spend.sender === sender.address
  if (!isAsBegun || spend.nonce !== nonce || amount > spend.amount)
    throw new Refusal(
      'settlement_changed',
      'a sweep is signed with the address, token and nonce that it was begun with, and moves no more than that',
    )
  const attempts = await findAttempts(context, chain, sender.address, nonce, intent.spend_id)
  for (const before of attempts.filter(({subjectId, kind}) => subjectId === intent.spend_id && kind !== 'cancel')) {
    const isOther =
      before.nonce !== nonce || before.token !== token || before.source !== source.address || before.kind !== 'sweep'
    if (isOther || (isNative ? amount > before.amount : amount !== before.amount))
      throw new Refusal(
        'settlement_changed',
        'a sweep keeps its nonce, address and token, and moves no more than at first',
      )
  }
  await checkNext(context, chain, sender, nonce)
  return decide(
    {
      kind: 'sweep',
      chain,
      subjectId: intent.spend_id,
      merchantId: source.merchantId,
      token,
      amount,
      destination: treasury.address,
      source,
      sender,
      nonce,
      fees,
      spendId: spend.id,
      isForPaymentUnderWay: false,
      details: {},
    },
    attempts,
  )
}

async function judgeWithdraw(context: PolicyContext, intent: Withdraw): Promise<Decision> {
  const {nonce} = intent
  const {evm: treasury} = context.treasuries
  const spend = await findWithdrawal(context, intent.spend_id, 'evm')
  const fees = checkFees(context, spend.chain, intent, gasCap)
  const attempts = await findAttempts(context, spend.chain, treasury.address, nonce, spend.id)
  const before = attempts.filter(({subjectId, kind}) => subjectId === spend.id && kind === 'withdraw')
  checkNonce(nonce, [...before, spend])
  await checkWithdraw(context, spend, before)
  await checkNext(context, spend.chain, treasury, nonce)
  const common = {source: treasury, sender: treasury, nonce, fees, spendId: spend.id}
  return decide({...purposeOfWithdrawal(spend), ...common, isForPaymentUnderWay: before.length > 0}, attempts)
}

/** Uses up a nonce by a transaction that moves nothing, where whoever has it is to be cancelled. */
async function judgeCancel(context: PolicyContext, intent: Cancel): Promise<Decision> {
  const {chain, nonce} = intent
  checkJournal(context, chain)
  const fees = checkFees(context, chain, intent, transferGas)
  const sender = await findOwn(context, intent.sender)
  const attempts = await findAttempts(context, chain, sender.address, nonce, null)
  const spend = await findSpend(context, chain, {sender: sender.address, nonce}, {cancelling: true})
  const {isFinal} = await checkNext(context, chain, sender, nonce)
  if (isFinal) throw new Refusal('wrong_state', `nonce ${nonce} is used up: its transaction is final`)
  return decide(
    {
      kind: 'cancel',
      chain,
      subjectId: attempts.find(attempt => attempt.subjectId)?.subjectId ?? null,
      merchantId: sender.merchantId,
      token: evmSettings(context.chains.get(chain)).chain.assets[0].token,
      amount: 0n,
      destination: sender.address,
      source: sender,
      sender,
      nonce,
      fees,
      spendId: spend.id,
      isForPaymentUnderWay: spend.kind !== 'sweep',
      details: {},
    },
    attempts,
  )
}

/**
 * What is signed with a nonce far ahead cannot be mined, and cannot be had back. So a nonce is signed with once the one below it was, or is in a
 * block: nobody but custody and the indexer says so. Whoever asks too early asks again.
 */
async function checkNext(
  {client, journal}: PolicyContext,
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
  checkRows(journal.check(last)) // a lower one, in place of one that was taken away, lets less be signed
  const {rows} = await client.query<{mined: number | null; isFinal: boolean}>({
    name: 'find_mined_nonce',
    text: `select (select max(nonce) from chain.inclusion i where i.chain = $1 and i.sender = $2) as mined,
        exists (select from chain.inclusion i join chain.cursor c using (chain)
          where i.chain = $1 and i.sender = $2 and i.nonce = $3 and i.block_height <= c.final_height) as "isFinal"`,
    values: [chain, address, nonce],
  })
  const {mined, isFinal} = rows[0]!
  const next = 1 + Math.max(last[0]?.nonce ?? -1, mined ?? -1)
  if (nonce <= next) return {isFinal}
  throw new Refusal('nonce_too_high', `nonce ${nonce} is not next: ${next} is, with which nothing was signed yet`)
}

function checkNonce(nonce: number, before: {nonce: number}[]): void {
  if (before.some(attempt => attempt.nonce !== nonce))
    throw new Refusal('settlement_changed', 'what was begun with a nonce is signed with that nonce alone')
}

/** Among the attempts with this nonce: another purpose refuses, the same one is repeated, or replaced for at least an eighth more. */
function decide(plan: Plan, attempts: Attempt[]): Decision {
  const atNonce = attempts.filter(({nonce}) => nonce === plan.nonce)
  const isSame = ({kind, subjectId}: Attempt) =>
    kind === plan.kind && (kind === 'cancel' || subjectId === plan.subjectId)
  if (plan.kind !== 'cancel' && atNonce.some(({subjectId}) => subjectId !== plan.subjectId))
    throw new Refusal('nonce_taken', `nonce ${plan.nonce} was signed for something else`)
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
    `nonce ${plan.nonce} was signed for something else before; both fees must be an eighth higher`,
    {
      max_fee_per_gas: String(needed.maxFeePerGas),
      max_priority_fee_per_gas: String(needed.maxPriorityFeePerGas),
    },
  )
}

/** Nodes replace a transaction for 10 % more; 12.5 % leaves no doubt. */
function anEighthMore(fee: bigint): bigint {
  return (fee * 9n + 7n) / 8n
}

function checkFees(
  {chains}: PolicyContext,
  chain: ChainCode,
  asked: WireFees & {gas_limit: number},
  mostGas: bigint,
): Fees {
  const fees: Fees = {
    maxFeePerGas: BigInt(asked.max_fee_per_gas),
    maxPriorityFeePerGas: BigInt(asked.max_priority_fee_per_gas),
    gasLimit: BigInt(asked.gas_limit),
  }
  const {maxFeePerGas: cap} = evmSettings(chains.get(chain))
  if (fees.maxFeePerGas > cap)
    throw new Refusal(
      'fee_above_cap',
      `${fees.maxFeePerGas} wei per gas are more than ${chain}_MAX_FEE_GWEI allows (${cap})`,
    )
  if (fees.maxPriorityFeePerGas > fees.maxFeePerGas)
    throw new Refusal('fee_above_cap', 'the priority fee is higher than the whole fee')
  if (fees.gasLimit > mostGas)
    throw new Refusal('fee_above_cap', `${fees.gasLimit} gas are more than this needs (${mostGas})`)
  return fees
}

async function findOwn({client}: PolicyContext, address: string): Promise<Own> {
  const {rows} = await client.query<OwnRow>({
    name: 'find_own',
    text: `select address, purpose, derivation_index as index, merchant_id from custody.address where family = 'evm' and match_key = lower($1)`,
    values: [address],
  })
  const [own] = rows
  if (!own) throw new Refusal('not_ours', 'the address is none of ours')
  return ownOf('evm', own)
}

interface AttemptRow extends Entry {
  kind: Kind
  token: string
  amount: string
  destination: string
  source: string
  nonce: number
  details: Entry['details'] & WireFees & {gas_limit: number}
  txid: string
  raw: string
}

/** Everything that was signed with this nonce, or for this subject, in its order; as the journal's file has it. */
async function findAttempts(
  {client, journal}: PolicyContext,
  chain: string,
  sender: string,
  nonce: number,
  subjectId: string | null,
): Promise<Attempt[]> {
  const {rows} = await client.query<AttemptRow>({
    name: 'find_attempts',
    text: `select ${entryColumns} from custody.journal j
      where (j.stream = $1 and j.sender = $2 and j.nonce = $3) or j.subject_id = $4 order by j.seq`,
    values: [chain, sender, nonce, subjectId],
  })
  checkRows(journal.checkAttempts(rows, chain, subjectId))
  checkChain(chain, rows)
  return rows.map(({subject_id, amount, details, ...row}) => ({
    ...row,
    subjectId: subject_id,
    amount: BigInt(amount),
    fees: {
      maxFeePerGas: BigInt(details.max_fee_per_gas),
      maxPriorityFeePerGas: BigInt(details.max_priority_fee_per_gas),
      gasLimit: BigInt(details.gas_limit),
    },
  }))
}
