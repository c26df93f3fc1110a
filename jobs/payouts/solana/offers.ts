// What the intent of each transaction names, or why it is not signed now, as far as a node says. Promises: nothing is
// proven by it, and nothing is signed for it; a sweep is only said to fail if its own address makes it fail. What the
// treasury lacks, or the node does not know yet, may pass.
import {z} from 'zod'
import {eachOf} from '../../../base/each-of.ts'
import {storable} from '../../../base/text.ts'
import type {Simulation} from '../../../chains/solana/client.ts'
import {messageOf, type Payment, rawOf, signersOf} from '../../../chains/solana/message.ts'
import {transferTo} from '../../../chains/solana/settings.ts'
import {Refusal} from '../accounts/expiring-attempts.ts'
import {type Context, retryable, retryMs, unreachable, type Wait} from '../context.ts'
import type {OutgoingPayment} from '../outgoing-payments.ts'
import {type Moved, priorityFee} from './fees.ts'
import {type Solana, sweepPriorityFee} from './node.ts'
import {type Accounts, accountsOfSweep, blockIfFrozen, whyNotPaid} from './tokens.ts'

/** Of no block: the node puts its newest one there. */
const anyBlockhash = '1'.repeat(32)
/** Any that is enough: custody chooses another one. */
const anyLimit = 200_000
const unsigned = Buffer.alloc(64)
const wouldRevertRetryMs = 5000

/** As in the intents of custody. */
type Offer = {priority_fee: string} & Partial<Accounts>

export async function offers(to: Context, chain: Solana, payments: OutgoingPayment[]): Promise<(Offer | Refusal)[]> {
  const prices = await pricesFor(chain, payments)
  return await eachOf(payments, async payment => {
    const isSweep = payment.kind === 'sweep'
    const accounts = isNative(chain, payment) ? undefined : await accountsOf(chain, payment)
    if (accounts && 'ms' in accounts) return new Refusal(accounts, {givesUp: false})
    const offer = {priority_fee: String(feeOf(chain, payment, prices, accounts)), ...accounts}
    return (isSweep && (await refusalOf(to, chain, payment, offer))) || offer
  })
}

/**
 * What a transfer of a token names; or why it is not signed now, also if no node says. Others need not wait for that.
 */
async function accountsOf(chain: Solana, payment: OutgoingPayment): Promise<Accounts | Wait | undefined> {
  const found: Promise<Accounts | Wait | undefined> =
    payment.kind === 'sweep' ? accountsOfSweep(chain, payment) : whyNotPaid(chain, payment)
  const {code} = chain.settings.chain
  return await retryable(found, async detail => ({...unreachable(code, detail), ms: retryMs.soon}))
}

const isNative = ({settings}: Solana, {token}: OutgoingPayment) => token === settings.chain.assets[0].token

/** A sweep of lamports offers what was reserved for it. */
const isFixed = (chain: Solana, payment: OutgoingPayment) => payment.kind === 'sweep' && isNative(chain, payment)

async function pricesFor(chain: Solana, payments: OutgoingPayment[]): Promise<bigint[]> {
  const paying = payments.filter(payment => !isFixed(chain, payment)).map(({feePayer}) => feePayer)
  return paying.length ? await chain.nodes.ask(node => node.recentFees([...new Set(paying)])) : []
}

function feeOf(chain: Solana, payment: OutgoingPayment, prices: bigint[], accounts: Accounts | undefined): bigint {
  if (isFixed(chain, payment)) return sweepPriorityFee(payment)
  const isOfToken = !isNative(chain, payment)
  const moved: Moved = !isOfToken ? 'coins' : accounts?.new_account === false ? 'token' : 'madeAccount'
  return priorityFee(chain.settings, prices, {attempts: payment.newest?.number ?? 0, moved})
}

/**
 * What prevents a sweep. Where no node says, nothing does: what is left is signed as it is, and expires if it fails. (A
 * node may have had enough requests, or simulate nothing.)
 */
async function refusalOf(
  to: Context,
  chain: Solana,
  sweep: OutgoingPayment,
  offer: Offer,
): Promise<Refusal | undefined> {
  const failure = await failureNow(chain, sweep, offer)
  if (!failure) return undefined
  const ofToken = !isNative(chain, sweep) && failure.isOfAddress ? await blockIfFrozen(to, chain, sweep) : undefined
  if (ofToken !== undefined)
    return new Refusal({reason: 'token_refused', detail: ofToken, ms: wouldRevertRetryMs}, {givesUp: true})
  const wait = {reason: 'would_revert', detail: failure.words, ms: wouldRevertRetryMs} as const
  return new Refusal(wait, {givesUp: failure.isOfAddress})
}

async function failureNow(chain: Solana, sweep: OutgoingPayment, offer: Offer): Promise<Failure | undefined> {
  try {
    return failureOf(await chain.nodes.ask(node => node.simulate(transactionOf(chain, sweep, offer))), sweep)
  } catch {
    return undefined
  }
}

function transactionOf(chain: Solana, sweep: OutgoingPayment, offer: Offer): string {
  const {source: from, feePayer, amount} = sweep
  const common = {from, feePayer, amount, blockhash: anyBlockhash, computeUnitLimit: anyLimit}
  const payment: Payment = {
    ...common,
    priorityFee: BigInt(offer.priority_fee),
    ...moveOf(chain, sweep, offer),
  }
  const raw = rawOf(
    messageOf(payment),
    signersOf(payment).map(() => unsigned),
  )
  return Buffer.from(raw, 'hex').toString('base64')
}

function moveOf(
  chain: Solana,
  {recipient, ...sweep}: OutgoingPayment,
  {account, new_account: isNew}: Offer,
): Pick<Payment, 'to' | 'token'> {
  if (account === undefined) return {to: recipient}
  const of = {token: sweep.token, fromAccount: account, recipient, isMade: isNew ?? false}
  const {to, ...token} = transferTo(chain.settings, of)
  return {to, token}
}

/** Why a sweep would fail. */
interface Failure {
  words: string
  /** Its address makes it fail: another sweep may not. Otherwise it may pass. */
  isOfAddress: boolean
}

const OfAccount = z.object({InsufficientFundsForRent: z.object({account_index: z.int()})})
const OfInstruction = z.object({InstructionError: z.tuple([z.int(), z.unknown()])})

/** The accounts of the message begin with who signs. */
export function failureOf(
  {error, logs}: Simulation,
  {source, feePayer}: Pick<OutgoingPayment, 'source' | 'feePayer'>,
): Failure | undefined {
  if (error === null) return undefined
  const said = typeof error === 'string' ? error : JSON.stringify(error)
  const why = logs.findLast(line => !/^Program \S+ (invoke|consumed|success|failed)/.test(line))
  const account = OfAccount.safeParse(error).data?.InsufficientFundsForRent.account_index
  const isOfAddress =
    account === undefined
      ? OfInstruction.safeParse(error).success
      : signersOf({from: source, feePayer})[account] === source
  return {words: storable(`the node says: ${said}${why ? ` (${why})` : ''}`), isOfAddress}
}
