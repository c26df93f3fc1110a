// How a transaction of an EVM chain is made. Promises: a payment keeps one nonce for ever, so at most one of its
// signatures can be mined. A nonce serves one purpose, or is cancelled. No nonce is used before the one below it. A
// sweep moves no more than it was begun with. No fee is above the operator's caps.
import {leastGas} from '../../chains/evm/gas-limits.ts'
import {type EvmSettings, evmSettings} from '../../chains/evm/settings.ts'
import type {Case} from '../family.ts'
import type {Entry} from '../journal/file.ts'
import {entryColumns} from '../journal/journal.ts'
import {type Attempt, checkRows} from '../judge/attempts.ts'
import {
  checkSweepFee,
  checkTokenSweep,
  checkTokenSweepFee,
  type Decision,
  type FamilyContext,
  findOwn,
  type Own,
  type Plan,
} from '../judge/plan.ts'
import {Refusal} from '../judge/refusal.ts'
import type {EvmIntent, SweepIntent, WireFees} from './intents.ts'
import type {Fees} from './sign.ts'

/**
 * The fee payer signs the transaction. If the source is another address, it signs an authorisation to take its tokens.
 */
export interface EvmTerms {
  amount: bigint
  nonce: number
  conflictKey: string
  fees: Fees
  maxFee: bigint
}

export type Details = Entry['details'] & WireFees

const nativeOf = (settings: EvmSettings) => settings.chain.assets[0].token

export const keysOf = ({nonce}: EvmIntent, {address}: Own): string[] => [`${address}:${nonce}`]

export async function planOf(context: FamilyContext, of: Case, intent: EvmIntent): Promise<Decision<EvmTerms>> {
  const {purpose, outgoingPayment, payer, before} = of
  const {kind, chain, token} = purpose
  const {nonce} = intent
  const settings = evmSettings(context.chains.get(chain))
  const isNative = token === nativeOf(settings)
  const isSweep = intent.intent === 'sweep' || intent.intent === 'defund'
  const fees = checkFees(settings, intent, {isSweep})
  const amount = isSweep ? await sweptAmount(context, of, intent, isNative) : purpose.amount
  checkNonce(nonce, kind === 'cancel' ? [outgoingPayment] : [...before, outgoingPayment])
  const {isFinal} = await checkNext(context, chain, payer, nonce)
  if (isFinal && kind === 'cancel') throw new Refusal('wrong_state', `nonce ${nonce} is used: its transaction is final`)
  checkGas(fees, {isNative, isByTreasury: kind === 'sweep' && payer !== of.from})
  const maxFee = fees.maxFeePerGas * fees.gasLimit
  if (isNative && kind === 'sweep') await checkCoins(context, outgoingPayment.id, amount + maxFee)
  return decide(of, {amount, nonce, conflictKey: `${payer.address}:${nonce}`, fees, maxFee})
}

/**
 * A sweep of coins takes no more, with its fee, than its address holds for whom it is: what is there besides is gas,
 * which is the operator's.
 */
async function checkCoins({client}: FamilyContext, sweepId: string, takes: bigint): Promise<void> {
  const {rows} = await client.query<{coins: string}>({
    name: 'coins_to_sweep',
    text: 'select app.coins_to_sweep($1) as coins',
    values: [sweepId],
  })
  const {coins} = rows[0]!
  if (takes > BigInt(coins))
    throw new Refusal(
      'sweep_too_dear',
      `the sweep may take ${takes} base units from its address, with its fee, and ${coins} are there for it`,
    )
}

/**
 * A later attempt must not move more; of a token it moves the same: where there is an authorisation, all of them have
 * one.
 */
async function sweptAmount(context: FamilyContext, of: Case, sweep: SweepIntent, isNative: boolean): Promise<bigint> {
  const {attempts, purpose} = of
  const {kind, subjectId, token} = purpose
  const {address} = await checkAsBegun(context, of, sweep)
  const amount = BigInt(sweep.amount)
  const earlier = attempts.filter(attempt => attempt.subjectId === subjectId && attempt.kind !== 'cancel')
  if (!isNative && !earlier.length) await checkTokenSweep(context, {...purpose, amount}, address)
  for (const before of earlier) {
    const isOther =
      before.nonce !== sweep.nonce || before.token !== token || before.source !== address || before.kind !== kind
    if (isOther || (isNative ? amount > before.amount : amount !== before.amount))
      throw new Refusal(
        'settlement_changed',
        'a sweep must keep the nonce, address and token of its first signature, and must not move more',
      )
  }
  return amount
}

/** Throws a Refusal unless a sweep is asked for as it was begun. Resolves to its address. */
export async function checkAsBegun(
  context: FamilyContext,
  {from, purpose: {token, amount: begun}}: Pick<Case, 'from' | 'purpose'>,
  {address, amount, ...asked}: {token: string; address: string; amount: string},
): Promise<Own> {
  if (BigInt(amount) === 0n) throw new Refusal('settlement_changed', 'the amount of a sweep must be above zero')
  const own = await findOwn(context, address)
  if (asked.token === token && own.address === from.address && BigInt(amount) <= begun) return own
  throw new Refusal(
    'settlement_changed',
    'a sweep must keep the address and token that it was begun with, and must not move more than it was begun with',
  )
}

/** The native coin has the check of every family. A token sweep has a maximum fee. */
export function checkSweep(settings: EvmSettings, sweep: Plan): void {
  if (sweep.token === nativeOf(settings)) checkSweepFee(settings, sweep)
  else checkTokenSweepFee(settings, sweep)
}

/**
 * A transaction signed with a nonce far ahead cannot be mined, and cannot be revoked. So a nonce is signed only after
 * the one below it was signed (custody knows) or is in a block (the indexer knows). A request that comes too early is
 * repeated.
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

/**
 * Compares with earlier attempts with this nonce: refuses another purpose, repeats the same one, or replaces it for at
 * least an eighth more.
 */
function decide({purpose: {kind, subjectId}, attempts}: Case, plan: EvmTerms): Decision<EvmTerms> {
  const atNonce = attempts.filter(({nonce}) => nonce === plan.nonce)
  const isSame = (attempt: Attempt) => attempt.kind === kind && (kind === 'cancel' || attempt.subjectId === subjectId)
  if (kind !== 'cancel' && atNonce.some(attempt => attempt.subjectId !== subjectId))
    throw new Refusal('nonce_taken', `nonce ${plan.nonce} was signed for another purpose`)
  const newest = atNonce.at(-1)
  if (!newest) return {plan}
  const {maxFeePerGas, maxPriorityFeePerGas} = feesOf(newest)
  const needed = {maxFeePerGas: anEighthMore(maxFeePerGas), maxPriorityFeePerGas: anEighthMore(maxPriorityFeePerGas)}
  const {fees} = plan
  if (fees.maxFeePerGas >= needed.maxFeePerGas && fees.maxPriorityFeePerGas >= needed.maxPriorityFeePerGas)
    return {plan}
  const isIdentical = (attempt: Attempt) =>
    isSame(attempt) && attempt.amount === plan.amount && isSamePrice(feesOf(attempt), fees)
  const identical = atNonce.find(isIdentical)
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

const feesOf = ({details}: Attempt): Fees => feesIn(details as Details)

const isSamePrice = (a: Fees, b: Fees) =>
  a.maxFeePerGas === b.maxFeePerGas && a.maxPriorityFeePerGas === b.maxPriorityFeePerGas

/** Nodes replace a transaction for 10 % more; 12.5 % is safely above that. */
function anEighthMore(fee: bigint): bigint {
  return (fee * 9n + 7n) / 8n
}

/**
 * The recipient of a payment may be a contract, which uses what gas it is given: the limit is what it may cost, not how
 * much gas it may use.
 */
function checkFees(settings: EvmSettings, asked: WireFees, {isSweep}: {isSweep: boolean}): Fees {
  const {chain, maxFeePerGas: cap, maxPaymentFee} = settings
  const fees = feesIn(asked)
  if (fees.maxFeePerGas > cap)
    throw new Refusal(
      'fee_above_cap',
      `${fees.maxFeePerGas} wei per gas is more than ${chain.code}_MAX_FEE_GWEI allows (${cap})`,
    )
  if (fees.maxPriorityFeePerGas > fees.maxFeePerGas)
    throw new Refusal('fee_above_cap', 'the priority fee is higher than the maximum fee')
  const fee = fees.maxFeePerGas * fees.gasLimit
  if (!isSweep && fee > maxPaymentFee)
    throw new Refusal(
      'fee_above_cap',
      `the transaction may cost ${fee} wei, which is more than ${chain.code}_MAX_PAYMENT_FEE allows (${maxPaymentFee})`,
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
 * With less gas than its own bytes need (EIP-2028, EIP-7623), no block can hold a transaction. Signed at the highest
 * price, it could not be replaced either, and its nonce would hold up all later ones for ever. What the call itself
 * needs is not known here; without enough for that it fails in a block.
 */
function checkGas({gasLimit}: Fees, {isNative, isByTreasury}: {isNative: boolean; isByTreasury: boolean}): void {
  const least = isNative ? leastGas.transfer : isByTreasury ? leastGas.tokenSweep : leastGas.tokenTransfer
  if (gasLimit < least)
    throw new Refusal('fee_too_low', `a gas limit of ${gasLimit} is less than any such transaction needs (${least})`)
}
