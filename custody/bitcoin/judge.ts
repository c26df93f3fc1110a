// What custody signs on Bitcoin, and what it refuses; ../policy.ts has what all families share. Promises: it spends only final outputs of ours that
// the indexer saw. (Only a CPFP child, begun by an operator, spends unconfirmed ones.) All signatures of a subject spend the same first input, so at
// most one of them can ever be mined. An output serves one subject until every signature that spends it is dead or final
// (app.attempt_fate). Money leaves only for the destination; the rest, minus a network fee within the cap, goes to the treasury.

import {dustLimit, scriptOfAddress} from '../../chains/bitcoin/script.ts'
import {type BitcoinSettings, bitcoinSettings} from '../../chains/bitcoin/settings.ts'
import {AddressError} from '../../chains/family.ts'
import type {ChainCode} from '../../chains/registry.ts'
import {type Attempt, attemptsFor, checkJournal, findAttempts} from '../attempts.ts'
import type {Entry} from '../journal-file.ts'
import {
  checkPay,
  checkSweepFee,
  checkWithdraw,
  type Decision,
  type FamilyContext,
  findOutgoingPayment,
  findPayout,
  findWithdrawal,
  type Locked,
  lockOutgoingPayment,
  type OutgoingPayment,
  type Own,
  type OwnRow,
  ownOf,
  type Plan,
  type Purpose,
  purposeOfPayout,
  purposeOfWithdrawal,
} from '../policy.ts'
import {type Kind, Refusal} from '../refusal.ts'
import type {BitcoinIntent, Cancel, Cpfp, Pay, Sweep, Withdraw} from './intents.ts'
import {type Input, largestVsize, type Output} from './sign.ts'

export interface BitcoinPlan extends Plan {
  inputs: Input[]
  outputs: Output[]
  /** What goes back to the treasury, in addition to the amount. */
  change: bigint
  /** An operator's command to speed up an unconfirmed incoming payment. It may cost more than other sweeps. */
  isCpfp: boolean
}

export type Details = Entry['details'] & {inputs: string[]; network_fee: string; vsize: number}

interface BitcoinAttempt extends Attempt<Details> {
  firstInput: string
  inputs: string[]
  fee: bigint
  vsize: number
}

type BitcoinDecision = Decision<BitcoinPlan>

interface Asked {
  inputs: string[]
  fee: string
}

export async function judge(context: FamilyContext, intent: BitcoinIntent): Promise<BitcoinDecision> {
  if (intent.intent === 'pay_outputs') return await judgePay(context, intent)
  if (intent.intent === 'sweep_outputs') return await judgeSweep(context, intent)
  if (intent.intent === 'cpfp_outputs') return await judgeCpfp(context, intent)
  if (intent.intent === 'withdraw_outputs') return await judgeWithdraw(context, intent)
  return await judgeCancel(context, intent)
}

async function judgePay(context: FamilyContext, intent: Pay): Promise<BitcoinDecision> {
  const locked = await lockOutgoingPayment(context, {payoutId: intent.payout_id})
  const payout = await findPayout(context, intent.payout_id)
  const attempts = await attemptsOn(context, payout.chain, intent.inputs, payout.id)
  const before = attemptsFor(attempts, 'pay', payout.id)
  await checkPay(context, payout, before)
  const outgoingPayment = await findOutgoingPayment(context, payout.chain, locked)
  return await decide(context, purposeOfPayout(payout), outgoingPayment, intent, attempts)
}

async function judgeSweep(context: FamilyContext, intent: Sweep): Promise<BitcoinDecision> {
  const locked = await lockOutgoingPayment(context, {id: intent.outgoing_payment_id})
  return await judgeLockedSweep(context, intent, locked, findOutputs)
}

async function judgeLockedSweep(
  context: FamilyContext,
  {chain, outgoing_payment_id, ...asked}: Sweep | Cpfp,
  locked: Locked,
  find: typeof findOutputs,
): Promise<BitcoinDecision> {
  checkJournal(context, chain)
  const attempts = await attemptsOn(context, chain, asked.inputs, outgoing_payment_id)
  const outgoingPayment = await findOutgoingPayment(context, chain, locked)
  const isOther = ({kind, subjectId}: BitcoinAttempt) =>
    subjectId === outgoing_payment_id && kind !== 'sweep' && kind !== 'cancel'
  if (outgoingPayment.kind !== 'sweep' || attempts.some(isOther))
    throw new Refusal('settlement_changed', 'this outgoing payment was not begun as a sweep')
  return await decide(
    context,
    purposeOfTreasury(context, chain, 'sweep', outgoing_payment_id),
    outgoingPayment,
    asked,
    attempts,
    find,
  )
}

/** A sweep of outputs that are not final. It also pays for their parent transaction. Only the owner of the database can make the row. */
async function judgeCpfp(context: FamilyContext, intent: Cpfp): Promise<BitcoinDecision> {
  const {chain, outgoing_payment_id, inputs} = intent
  const locked = await lockOutgoingPayment(context, {id: outgoing_payment_id})
  const {rows} = await context.client.query<{firstInput: string; outputs: string[]; vsize: number}>({
    name: 'find_cpfp',
    text: `select s.first_input as "firstInput", b.outputs, b.parent_vsize as vsize from app.cpfp b join app.outgoing_payment s on s.id = b.outgoing_payment_id
      where b.outgoing_payment_id = $1 and s.chain = $2 and s.status <> 'final'`,
    values: [outgoing_payment_id, chain],
  })
  const [cpfp] = rows
  if (!cpfp) throw new Refusal('unknown_settlement', `there is no open CPFP child ${outgoing_payment_id}`)
  const known = new Set(cpfp.outputs)
  if (cpfp.firstInput !== inputs[0] || known.size !== inputs.length || !inputs.every(input => known.has(input)))
    throw new Refusal(
      'settlement_changed',
      'a CPFP child must spend exactly the outputs that it was begun with, and the same one first',
    )
  return await judgeLockedSweep(context, intent, locked, async (...of) => ({
    ...(await findUnconfirmed(...of)),
    parentVsize: cpfp.vsize,
  }))
}

async function judgeWithdraw(context: FamilyContext, intent: Withdraw): Promise<BitcoinDecision> {
  const locked = await lockOutgoingPayment(context, {id: intent.outgoing_payment_id})
  const outgoingPayment = await findWithdrawal(context, locked)
  const attempts = await attemptsOn(context, outgoingPayment.chain, intent.inputs, outgoingPayment.id)
  const before = attemptsFor(attempts, 'withdraw', outgoingPayment.id)
  await checkWithdraw(context, outgoingPayment, before)
  return await decide(
    context,
    purposeOfWithdrawal(outgoingPayment),
    await findOutgoingPayment(context, outgoingPayment.chain, locked),
    intent,
    attempts,
  )
}

/** Replaces everything that was signed with this first input: once the cancel is final, none of that can ever be mined. */
async function judgeCancel(context: FamilyContext, intent: Cancel): Promise<BitcoinDecision> {
  const {chain, outgoing_payment_id, inputs} = intent
  const locked = await lockOutgoingPayment(context, {id: outgoing_payment_id})
  checkJournal(context, chain)
  const attempts = await attemptsOn(context, chain, inputs, outgoing_payment_id)
  const outgoingPayment = await findOutgoingPayment(context, chain, locked, {cancelling: true})
  const subjectId = attempts.find(({firstInput}) => firstInput === inputs[0])?.subjectId ?? outgoing_payment_id
  return await decide(
    context,
    purposeOfTreasury(context, chain, 'cancel', subjectId),
    outgoingPayment,
    intent,
    attempts,
  )
}

/** The purpose of a transaction that sends everything to the treasury. Its inputs give the amount and the owner. */
function purposeOfTreasury(
  {chains, treasury}: FamilyContext,
  chain: ChainCode,
  kind: 'sweep' | 'cancel',
  subjectId: string,
): Purpose {
  const {token} = bitcoinSettings(chains.get(chain)).chain.assets[0]
  const destination = treasury.address
  return {kind, chain, subjectId, merchantId: null, token, amount: 0n, destination, details: {}}
}

/** Compares with earlier attempts for this subject and with these outputs: repeats the same one, replaces it for more, or refuses another subject. */
async function decide(
  context: FamilyContext,
  purpose: Purpose,
  outgoingPayment: OutgoingPayment,
  asked: Asked,
  attempts: BitcoinAttempt[],
  find = findOutputs,
): Promise<BitcoinDecision> {
  const {kind, subjectId} = purpose
  const fee = BigInt(asked.fee)
  const mine = attempts.filter(attempt => attempt.subjectId === subjectId)
  const isSame = (attempt: BitcoinAttempt) => attempt.kind === kind && hasSameInputs(attempt, asked)
  const identical = mine.find(attempt => isSame(attempt) && attempt.fee === fee)
  if (identical) return {attempt: identical}
  const newest = mine.at(-1)
  if (newest) checkInputsKept(newest, asked)
  if (attempts.some(({subjectId: other, fate}) => other !== subjectId && (fate === 'open' || fate === 'in_block')))
    throw new Refusal('nonce_taken', 'an input was signed for another transaction, which can still be mined')
  if (outgoingPayment.firstInput !== asked.inputs[0])
    throw new Refusal('settlement_changed', 'the first input must be the one that the outgoing payment was begun with')
  const {outputs, parentVsize} = await find(context, purpose, asked.inputs)
  if (find === findOutputs) await checkReserved(context, purpose.chain, outgoingPayment, asked.inputs)
  const isForPaymentUnderWay = outgoingPayment.kind !== 'sweep' && (kind === 'cancel' || mine.length > 0)
  const isCpfp = await isBegunAsCpfp(context, outgoingPayment)
  const plan: BitcoinPlan = {
    ...build(context, purpose, outputs, fee),
    outgoingPaymentId: outgoingPayment.id,
    isForPaymentUnderWay,
    isCpfp,
  }
  const vsize = largestVsize(
    plan.inputs.length,
    plan.outputs.map(({script}) => script),
  )
  const {maxFeeRate} = bitcoinSettings(context.chains.get(purpose.chain))
  const cap = BigInt(maxFeeRate) * BigInt(vsize + parentVsize)
  if (fee > cap)
    throw new Refusal(
      'fee_above_cap',
      `${fee} sat for ${vsize + parentVsize} vB is more than ${purpose.chain}_MAX_FEE_RATE allows (${maxFeeRate} sat/vB: ${cap})`,
    )
  const needed = newest ? leastFee(newest, vsize) : 0n
  if (fee >= needed) return {plan}
  if (newest && isSame(newest)) return {attempt: newest}
  throw new Refusal(
    'fee_too_low',
    `it was signed before with a fee of ${newest!.fee} sat; replacing that needs at least ${needed} sat`,
    {
      fee: String(needed),
    },
  )
}

async function isBegunAsCpfp({client}: FamilyContext, {id}: OutgoingPayment): Promise<boolean> {
  const {rowCount} = await client.query({
    name: 'is_cpfp',
    text: 'select from app.cpfp where outgoing_payment_id = $1',
    values: [id],
  })
  return rowCount === 1
}

/** The check of every family, except for a CPFP child: without it, the money might not arrive at all. */
export function checkSweep(settings: BitcoinSettings, sweep: BitcoinPlan): void {
  if (!sweep.isCpfp) checkSweepFee(settings, sweep)
}

function hasSameInputs({firstInput, inputs}: BitcoinAttempt, asked: Asked): boolean {
  const known = new Set(inputs)
  return (
    firstInput === asked.inputs[0] &&
    known.size === asked.inputs.length &&
    asked.inputs.every(input => known.has(input))
  )
}

/** All signatures of a subject exclude each other, and an output that one of them spends serves nothing else in the meantime. */
function checkInputsKept(newest: BitcoinAttempt, {inputs}: Asked): void {
  const kept = new Set(inputs)
  if (newest.firstInput === inputs[0] && newest.inputs.every(input => kept.has(input))) return
  throw new Refusal(
    'settlement_changed',
    'a replacement must keep the first input, and every other input of the previous signature',
  )
}

/** The least fee for which nodes replace a transaction: a higher rate per virtual byte, plus the relay fee of the replacement. */
function leastFee(newest: BitcoinAttempt, vsize: number): bigint {
  const relayed = newest.fee + BigInt(Math.ceil(1.02 * vsize)) // with exactly 1 sat/vB more, rounding may make nodes refuse it
  const rated = (newest.fee * BigInt(vsize)) / BigInt(newest.vsize) + 1n
  return relayed > rated ? relayed : rated
}

/** The transaction: it pays its purpose, and the rest goes to the treasury. */
function build(
  context: FamilyContext,
  purpose: Purpose,
  from: OwnOutput[],
  fee: bigint,
): Omit<BitcoinPlan, 'outgoingPaymentId' | 'isForPaymentUnderWay' | 'isCpfp'> {
  const {chain, network} = bitcoinSettings(context.chains.get(purpose.chain))
  const scriptOf = (address: string) => scriptOfAddress(address, chain.networks[network])
  const treasury = scriptOf(context.treasury.address)
  const rest = from.reduce((sum, {value}) => sum + value, 0n) - fee - purpose.amount
  if (rest < 0n)
    throw new Refusal('insufficient_inputs', `the inputs are ${-rest} sat less than the payment and its fee`)
  const isPaid = purpose.kind === 'pay' || purpose.kind === 'withdraw'
  const outputs = isPaid ? [{script: destinationScript(purpose.destination, scriptOf), value: purpose.amount}] : []
  if (rest > 0n || !isPaid) outputs.push({script: treasury, value: rest})
  for (const {script, value} of outputs)
    if (value < dustLimit(script))
      throw new Refusal('dust', `an output of ${value} sat would be dust: it is below ${dustLimit(script)} sat`)
  const isSweep = purpose.kind === 'sweep'
  const inputs = from.map(({outpoint, value, own}) => ({outpoint, value, path: own.path}))
  return {
    ...purpose,
    amount: isSweep ? rest : purpose.amount,
    merchantId: purpose.merchantId ?? from.find(({own}) => own.merchantId)?.own.merchantId ?? null,
    source: context.treasury.address,
    feePayer: context.treasury.address,
    nonce: null,
    conflictKey: inputs[0]!.outpoint,
    maxFee: fee,
    inputs,
    outputs,
    change: isSweep ? 0n : rest,
  }
}

function destinationScript(address: string, scriptOf: (address: string) => Uint8Array): Uint8Array {
  try {
    return scriptOf(address)
  } catch (error) {
    if (!(error instanceof AddressError)) throw error
    throw new Refusal('not_whitelisted', `the destination ${error.message}`)
  }
}

// --- the outputs ---

interface OwnOutput {
  outpoint: string
  value: bigint
  own: Own
}

interface Found {
  outputs: OwnOutput[]
  /** Virtual bytes of parents that the fee also pays for. */
  parentVsize: number
}

/** The outputs, in the order of the request. Refuses outputs that are not ours, not final, already spent, or may not serve this purpose. */
async function findOutputs(
  {client}: FamilyContext,
  {kind, chain, token, merchantId}: Purpose,
  outpoints: string[],
): Promise<Found> {
  const {rows} = await client.query<OutputRow & {is_spent: boolean}>({
    name: 'find_outputs',
    text: `select i.outpoint, t.amount::text as value, a.address, a.purpose, a.derivation_index as index, a.merchant_id,
        exists (select from chain.confirmed_tx s
          where s.chain = $1 and s.conflict_key = i.outpoint and s.block_height <= c.final_height) as is_spent
      from unnest($2::text[]) with ordinality i (outpoint, place)
      join chain.cursor c on c.chain = $1
      join chain.transfer t on t.id = $1 || ':' || i.outpoint and t.chain = $1 and t.token = $3 and t.block_height <= c.final_height
      join custody.address a on a.address = t.recipient and a.family = 'bitcoin'
      order by i.place`,
    values: [chain, outpoints, token],
  })
  checkFound(outpoints, rows, 'is not a final output of an address of this service')
  const spent = rows.find(({is_spent}) => is_spent)
  if (spent) throw new Refusal('wrong_state', `${spent.outpoint} is spent: its transaction is final`)
  const outputs = rows.map(ownOutput)
  checkOwners(kind, merchantId, outputs)
  return {outputs, parentVsize: 0}
}

/** Refuses outputs that the purpose has not reserved: each input costs fees. */
async function checkReserved(
  {client}: FamilyContext,
  chain: string,
  {id}: OutgoingPayment,
  outpoints: string[],
): Promise<void> {
  const {rows} = await client.query<{outpoint: string}>({
    name: 'find_unreserved',
    text: `select i.outpoint from unnest($2::text[]) i (outpoint)
      where not exists (select from app.output u
        where u.chain = $1 and u.txid = split_part(i.outpoint, ':', 1) and u.vout = split_part(i.outpoint, ':', 2)::int and u.outgoing_payment_id = $3)`,
    values: [chain, outpoints, id],
  })
  if (rows[0]) throw new Refusal('settlement_changed', `${rows[0].outpoint} is not reserved for this outgoing payment`)
}

/** Like findOutputs, for one transaction that is not final yet. Once it is final, its outputs are like any others. */
async function findUnconfirmed({client}: FamilyContext, {chain, token}: Purpose, outpoints: string[]): Promise<Found> {
  const {rows} = await client.query<OutputRow & {txid: string}>({
    name: 'find_unconfirmed',
    text: `select i.outpoint, u.txid, u.amount::text as value, a.address, a.purpose, a.derivation_index as index, a.merchant_id
      from unnest($2::text[]) with ordinality i (outpoint, place)
      join chain.cursor c on c.chain = $1
      join chain.unconfirmed u on u.id = $1 || ':' || i.outpoint and u.chain = $1 and u.token = $3
      join custody.address a on a.address = u.recipient and a.family = 'bitcoin'
      where not exists (select from chain.transfer t where t.id = u.id and t.block_height <= c.final_height)
      order by i.place`,
    values: [chain, outpoints, token],
  })
  checkFound(outpoints, rows, 'is not an unconfirmed output of an address of this service')
  const [first] = rows
  if (rows.some(({txid, merchant_id}) => txid !== first!.txid || merchant_id !== first!.merchant_id))
    throw new Refusal(
      'not_ours',
      'a CPFP child may only spend outputs of one transaction, to addresses of one merchant or of the treasury',
    )
  return {outputs: rows.map(ownOutput), parentVsize: 0}
}

interface OutputRow extends OwnRow {
  outpoint: string
  value: string
}

function ownOutput(row: OutputRow): OwnOutput {
  return {outpoint: row.outpoint, value: BigInt(row.value), own: ownOf('bitcoin', row)}
}

function checkFound(outpoints: string[], rows: OutputRow[], isNone: string): void {
  if (rows.length === outpoints.length) return
  const known = new Set(rows.map(({outpoint}) => outpoint))
  throw new Refusal('not_ours', `${outpoints.find(one => !known.has(one))} ${isNone}`)
}

/** No merchant's money pays for another merchant: a transaction spends outputs of one merchant and of the treasury only. */
function checkOwners(kind: Kind, merchantId: string | null, outputs: OwnOutput[]): void {
  const isDeposit = ({own}: OwnOutput) => own.path.purpose === 'deposit'
  const owner = kind === 'pay' ? merchantId : outputs.find(isDeposit)?.own.merchantId
  for (const output of outputs) {
    const input = `input ${output.outpoint} belongs to`
    if (!isDeposit(output)) {
      if (kind === 'sweep')
        throw new Refusal('not_ours', `${input} the treasury; a sweep spends merchants' outputs only`)
    } else if (kind === 'withdraw')
      throw new Refusal('not_ours', `${input} a merchant; a withdrawal spends the treasury's outputs only`)
    else if (output.own.merchantId !== owner) throw new Refusal('not_ours', `${input} another merchant`)
  }
}

// --- the journal ---

/** Everything that was signed with any of these outputs, or for this subject, in order. */
async function attemptsOn(
  context: FamilyContext,
  chain: string,
  inputs: string[],
  subjectId: string,
): Promise<BitcoinAttempt[]> {
  const attempts = await findAttempts<Details>(context, chain, inputs, subjectId)
  return attempts.map(attempt => ({
    ...attempt,
    firstInput: attempt.details.inputs[0]!,
    inputs: attempt.details.inputs,
    fee: BigInt(attempt.details.network_fee),
    vsize: attempt.details.vsize,
  }))
}
