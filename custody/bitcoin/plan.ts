// How a Bitcoin transaction is made. Promises: all signatures of a subject spend the same first input, so at most one
// of them can ever be mined. An output serves one subject until every signature that spends it is dead or final
// (app.attempt_fate). Money leaves only for the destination; the rest, minus a network fee within the cap, goes to the
// treasury. outputs.ts says what may be spent.
import {dustLimit, scriptOfAddress} from '../../chains/bitcoin/script.ts'
import {type BitcoinSettings, bitcoinSettings} from '../../chains/bitcoin/settings.ts'
import {AddressError} from '../../chains/family.ts'
import type {Case} from '../family.ts'
import type {Entry} from '../journal/file.ts'
import type {Attempt} from '../judge/attempts.ts'
import {checkSweepFee, type Decision, type FamilyContext, type Plan, type Purpose} from '../judge/plan.ts'
import {Refusal} from '../judge/refusal.ts'
import type {BitcoinIntent} from './intents.ts'
import {findOutputs, findUnconfirmed, type OwnOutput} from './outputs.ts'
import {type Input, largestVsize, type Output} from './sign.ts'

export interface BitcoinTerms {
  amount: bigint
  merchantId: string | null
  conflictKey: string
  maxFee: bigint
  inputs: Input[]
  outputs: Output[]
  /** What goes back to the treasury, in addition to the amount. */
  change: bigint
  /** An operator's command to speed up an unconfirmed incoming payment. It may cost more than other sweeps. */
  isCpfp: boolean
}

export type Details = Entry['details'] & {inputs: string[]; network_fee: string; vsize: number}

const detailsOf = ({details}: Attempt) => details as Details

export const keysOf = ({inputs}: BitcoinIntent): string[] => inputs

/**
 * Compares with earlier attempts for this subject and with these outputs: repeats the same one, replaces it for more,
 * or refuses another subject.
 */
export async function planOf(context: FamilyContext, of: Case, asked: BitcoinIntent): Promise<Decision<BitcoinTerms>> {
  const {purpose, outgoingPayment, attempts} = of
  const {kind, subjectId} = purpose
  const fee = BigInt(asked.fee)
  const mine = attempts.filter(attempt => attempt.subjectId === subjectId)
  if (kind === 'sweep' && mine.some(attempt => attempt.kind !== 'sweep' && attempt.kind !== 'cancel'))
    throw new Refusal('settlement_changed', 'this outgoing payment was not begun as a sweep')
  const cpfp = await findCpfp(context, outgoingPayment.id)
  if (asked.intent === 'cpfp_outputs') checkCpfp(cpfp, of, asked)
  const isSame = (attempt: Attempt) => attempt.kind === kind && hasSameInputs(attempt, asked)
  const identical = mine.find(attempt => isSame(attempt) && BigInt(detailsOf(attempt).network_fee) === fee)
  if (identical) return {attempt: identical}
  const newest = mine.at(-1)
  if (newest) checkInputsKept(newest, asked)
  if (attempts.some(({subjectId: other, fate}) => other !== subjectId && (fate === 'open' || fate === 'in_block')))
    throw new Refusal('nonce_taken', 'an input was signed for another transaction, which can still be mined')
  if (outgoingPayment.firstInput !== asked.inputs[0])
    throw new Refusal('settlement_changed', 'the first input must be the one that the outgoing payment was begun with')
  const settings = bitcoinSettings(context.chains.get(purpose.chain))
  const isChild = asked.intent === 'cpfp_outputs'
  const from = isChild
    ? await findUnconfirmed(context, purpose, asked.inputs)
    : await findOutputs(context, purpose, outgoingPayment, asked.inputs)
  const plan: BitcoinTerms = {
    ...transactionOf(settings, context.treasury.address, purpose, {from, fee}),
    isCpfp: cpfp !== undefined,
  }
  const {inputs, outputs} = plan
  const vsize = largestVsize(
    inputs.length,
    outputs.map(({script}) => script),
  )
  checkFee(settings, fee, vsize + (isChild ? cpfp!.parentVsize : 0))
  const needed = newest ? leastFee(detailsOf(newest), vsize) : 0n
  if (fee >= needed) return {plan}
  if (newest && isSame(newest)) return {attempt: newest}
  throw new Refusal(
    'fee_too_low',
    `it was signed before with a fee of ${detailsOf(newest!).network_fee} sat; replacing that needs at least ${needed} sat`,
    {fee: String(needed)},
  )
}

interface Begun {
  outputs: string[]
  /** Virtual bytes of the parent that the fee also pays for. */
  parentVsize: number
}

/**
 * What a CPFP child was begun with; undefined if the outgoing payment is none. Only the owner of the database can make
 * the row.
 */
async function findCpfp({client}: FamilyContext, id: string): Promise<Begun | undefined> {
  const {rows} = await client.query<Begun>({
    name: 'find_cpfp',
    text: 'select outputs, parent_vsize as "parentVsize" from app.cpfp where outgoing_payment_id = $1',
    values: [id],
  })
  return rows[0]
}

function checkCpfp(cpfp: Begun | undefined, {outgoingPayment}: Case, {inputs}: BitcoinIntent): asserts cpfp is Begun {
  if (!cpfp) throw new Refusal('unknown_settlement', `there is no open CPFP child ${outgoingPayment.id}`)
  const known = new Set(cpfp.outputs)
  const {firstInput} = outgoingPayment
  if (firstInput !== inputs[0] || known.size !== inputs.length || !inputs.every(input => known.has(input)))
    throw new Refusal(
      'settlement_changed',
      'a CPFP child must spend exactly the outputs that it was begun with, and the same one first',
    )
}

/** The check of every family, except for a CPFP child: without it, the money might not arrive at all. */
export function checkSweep(settings: BitcoinSettings, sweep: Plan & BitcoinTerms): void {
  if (!sweep.isCpfp) checkSweepFee(settings, sweep)
}

function checkFee({chain, maxFeeRate}: BitcoinSettings, fee: bigint, vsize: number): void {
  const cap = BigInt(maxFeeRate) * BigInt(vsize)
  if (fee > cap)
    throw new Refusal(
      'fee_above_cap',
      `${fee} sat for ${vsize} vB is more than ${chain.code}_MAX_FEE_RATE allows (${maxFeeRate} sat/vB: ${cap})`,
    )
}

function hasSameInputs(attempt: Attempt, asked: BitcoinIntent): boolean {
  const {inputs} = detailsOf(attempt)
  const known = new Set(inputs)
  return (
    inputs[0] === asked.inputs[0] && known.size === asked.inputs.length && asked.inputs.every(input => known.has(input))
  )
}

/**
 * All signatures of a subject exclude each other, and an output that one of them spends serves nothing else in the
 * meantime.
 */
function checkInputsKept(newest: Attempt, {inputs}: BitcoinIntent): void {
  const kept = new Set(inputs)
  const before = detailsOf(newest).inputs
  if (before[0] === inputs[0] && before.every(input => kept.has(input))) return
  throw new Refusal(
    'settlement_changed',
    'a replacement must keep the first input, and every other input of the previous signature',
  )
}

/**
 * The least fee for which nodes replace a transaction: a higher rate per virtual byte, plus the relay fee of the
 * replacement.
 */
function leastFee(newest: Details, vsize: number): bigint {
  const fee = BigInt(newest.network_fee)
  const relayed = fee + BigInt(Math.ceil(1.02 * vsize)) // with exactly 1 sat/vB more, rounding may make nodes refuse it
  const rated = (fee * BigInt(vsize)) / BigInt(newest.vsize) + 1n
  return relayed > rated ? relayed : rated
}

/** The transaction: it pays its purpose, and the rest goes to the treasury. What a sweep moves is the rest. */
function transactionOf(
  {chain, network}: BitcoinSettings,
  treasury: string,
  {kind, amount, destination, merchantId}: Purpose,
  {from, fee}: {from: OwnOutput[]; fee: bigint},
): Omit<BitcoinTerms, 'isCpfp'> {
  const scriptOf = (address: string) => scriptOfAddress(address, chain.networks[network])
  const paid = kind === 'pay' || kind === 'withdraw' ? amount : undefined
  const rest = from.reduce((sum, {value}) => sum + value, 0n) - fee - (paid ?? 0n)
  if (rest < 0n)
    throw new Refusal('insufficient_inputs', `the inputs are ${-rest} sat less than the payment and its fee`)
  const outputs = paid === undefined ? [] : [{script: destinationScript(destination, scriptOf), value: paid}]
  if (rest > 0n || paid === undefined) outputs.push({script: scriptOf(treasury), value: rest})
  for (const {script, value} of outputs)
    if (value < dustLimit(script))
      throw new Refusal('dust', `an output of ${value} sat would be dust: it is below ${dustLimit(script)} sat`)
  const isSweep = kind === 'sweep'
  const inputs = from.map(({outpoint, value, own}) => ({outpoint, value, path: own.path}))
  return {
    amount: isSweep ? rest : amount,
    merchantId: merchantId ?? from.find(({own}) => own.merchantId)?.own.merchantId ?? null,
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
