// Plans the next attempt of each outgoing payment: its kind, amount, fees and gas. Promises: the nonce never changes. A
// replacement outbids the earlier attempt. No fee is above the operator's cap. If no attempt can be made now, the
// outgoing payment says why.
import {least} from '../../../base/bigints.ts'
import {isWorthItsFee} from '../../../chains/chain-settings.ts'
import {tooDear} from '../accounts/flow.ts'
import {beginFunds, freeGas} from '../accounts/holdings.ts'
import {type Context, type PlannedAttempt, shortOfFunds} from '../context.ts'
import {type OutgoingPayment, waitOutgoingPayment} from '../outgoing-payments.ts'
import {capOf, type FeeMarket, type Fees, nativeSweep, offer, outbid} from './fees.ts'
import {fundGas, gasLimits, isNativeSweep} from './gas.ts'
import type {Evm} from './node.ts'
import {aboveCap} from './offered.ts'

/** The fees and the gas limit of an earlier attempt. */
interface Offered extends Fees {
  gasLimit: bigint
}

export interface EvmAttempt extends PlannedAttempt {
  amount: bigint
  fees: Fees
  gasLimit: bigint
  /** The operator's, for a unit of gas. */
  cap: bigint
}

const retryMs = 5000

/** The attempts that can be made now; the others wait. Throws RetryableError if the node cannot be reached. */
export async function plan(to: Context, chain: Evm, outgoingPayments: OutgoingPayment[]): Promise<EvmAttempt[]> {
  const market = await chain.node.feeMarket(chain.settings.chain.leastTip)
  const earlier = await earlierOffers(to, outgoingPayments)
  const limits = await gasLimits(to, chain, outgoingPayments, id => earlier.get(id)?.gasLimit)
  const priced: EvmAttempt[] = []
  for (const outgoingPayment of outgoingPayments) {
    const {id, cancelling, newest} = outgoingPayment
    const gasLimit = limits.get(id)
    if (gasLimit === undefined) continue
    const cap = capFor(outgoingPayment, chain, gasLimit)
    const fees = feesOf(outgoingPayment, chain, market, {cap, gasLimit, earlier: earlier.get(id)})
    const kind = cancelling ? 'cancel' : 'effect'
    const amount = cancelling ? 0n : (newest?.amount ?? outgoingPayment.amount)
    if (fees && kind === 'effect' && isTooDear(outgoingPayment, chain, fees.maxFeePerGas * gasLimit))
      await to.pool.query('select app.give_up_outgoing_payment($1, $2)', [
        id,
        tooDear(chain.settings, chain.settings.tokenSweepFee),
      ]) // else it would hold up the treasury's nonces; a cancel costs a fraction
    else if (fees) priced.push({outgoingPayment, kind, amount, fees, gasLimit, cap})
    else await waitOutgoingPayment(to, id, {...aboveCap(chain, market, gasLimit), ms: retryMs})
  }
  return await withinGas(to, chain, market, await withinFunds(to, chain, priced))
}

/** The most that an attempt may offer for a unit of gas. What a sweep may cost is compared with what it brings. */
function capFor({kind, cancelling}: OutgoingPayment, {settings}: Evm, gasLimit: bigint): bigint {
  const {maxFeePerGas, maxPaymentFee} = settings
  const isSweep = (kind === 'sweep' || kind === 'defund') && !cancelling
  return isSweep ? maxFeePerGas : capOf(maxFeePerGas, maxPaymentFee, gasLimit)
}

/** The fees of each outgoing payment's newest attempt, by id of the outgoing payment. */
async function earlierOffers({pool}: Context, outgoingPayments: OutgoingPayment[]): Promise<Map<string, Offered>> {
  const newest = outgoingPayments.flatMap(outgoingPayment => outgoingPayment.newest ?? [])
  if (!newest.length) return new Map()
  const {rows} = await pool.query<{outgoing_payment_id: string; fee: string; tip: string; gas: string}>(
    `select outgoing_payment_id, fee_details ->> 'max_fee_per_gas' as fee, fee_details ->> 'max_priority_fee_per_gas' as tip,
       fee_details ->> 'gas_limit' as gas
     from app.outgoing_attempt where chain = $1 and txid = any($2)`,
    [outgoingPayments[0]!.chain, newest.map(({txid}) => txid)],
  )
  return new Map(
    rows.map(({outgoing_payment_id, fee, tip, gas}) => [
      outgoing_payment_id,
      {maxFeePerGas: BigInt(fee), maxPriorityFeePerGas: BigInt(tip), gasLimit: BigInt(gas)},
    ]),
  )
}

function feesOf(
  {maxFee, ...outgoingPayment}: OutgoingPayment,
  chain: Evm,
  market: FeeMarket,
  {cap, gasLimit, earlier}: {cap: bigint; gasLimit: bigint; earlier: Offered | undefined},
): Fees | undefined {
  const {baseFee, priorityFee} = market
  const now = offer(market, cap)
  if (earlier) return outbid(earlier, now, cap)
  // The amount of a native sweep was chosen together with its fee, and so was the gas of an address. As long as that
  // fee is enough, it stays.
  const chosen = maxFee / gasLimit
  const isOfAddress = isNativeSweep(outgoingPayment, chain) || outgoingPayment.fromGas
  const isChosen = isOfAddress && chosen >= baseFee + priorityFee && chosen <= cap
  return isChosen ? {maxFeePerGas: chosen, maxPriorityFeePerGas: priorityFee} : now
}

function isTooDear({kind, token, amount}: OutgoingPayment, {native, settings}: Evm, fee: bigint): boolean {
  if (kind === 'fund') return amount + fee > settings.tokenSweepFee
  return kind === 'sweep' && token !== native && fee > settings.tokenSweepFee
}

/**
 * An address pays with its gas alone. If that is not enough any more for the sweep of a token, the treasury sends more,
 * as long as both together stay within TOKEN_SWEEP_FEE, and the attempt waits for it. A defund moves as much less.
 */
async function withinGas(to: Context, chain: Evm, market: FeeMarket, plans: EvmAttempt[]): Promise<EvmAttempt[]> {
  const within: EvmAttempt[] = []
  for (const item of plans) {
    const {outgoingPayment, fees, gasLimit} = item
    const {id, kind, source, token, fromGas, maxFee, amount} = outgoingPayment
    const fee = fees.maxFeePerGas * gasLimit
    const more = fee - maxFee
    const [free] = fromGas && more > 0n ? await freeGas(to, chain.settings.chain.code, [source]) : []
    if (free === undefined || more <= free || (kind === 'defund' && more < free + amount)) within.push(item)
    else if (kind === 'defund') await waitForLowerFees(to, id, {has: maxFee + free + amount, fee})
    else await waitForGas(to, chain, market, {id, address: source, token, has: maxFee + free, lacks: more - free})
  }
  return within
}

async function waitForGas(
  to: Context,
  {settings}: Evm,
  {baseFee, priorityFee}: FeeMarket,
  {id, address, token, has, lacks}: {id: string; address: string; token: string; has: bigint; lacks: bigint},
): Promise<void> {
  const {code} = settings.chain
  const fundFee = (2n * baseFee + priorityFee) * fundGas
  const cost = has + lacks + fundFee
  if (cost > settings.tokenSweepFee) {
    const detail = `its gas is ${has} wei; with ${lacks} more it may cost ${cost}: more than ${code}_TOKEN_SWEEP_FEE allows (${settings.tokenSweepFee})`
    return await waitOutgoingPayment(to, id, {reason: 'fee_above_cap', detail, ms: retryMs})
  }
  const short = await beginFunds(
    to.pool,
    {id: null, chain: code, token},
    [{address, amount: 0n, maxFee: 0n, lacks}],
    fundFee,
  )
  const wait = short
    ? shortOfFunds(short)
    : {reason: 'gas_under_way' as const, detail: `the treasury sends its address ${lacks} wei`}
  await waitOutgoingPayment(to, id, {...wait, ms: retryMs})
}

function waitForLowerFees(to: Context, id: string, {has, fee}: {has: bigint; fee: bigint}): Promise<void> {
  const detail = `the address holds ${has} wei, and the fee alone is ${fee} wei`
  return waitOutgoingPayment(to, id, {reason: 'fee_above_funds', detail, ms: retryMs})
}

/**
 * A native sweep pays its fee out of the amount that it moves. With a higher fee it moves less. If nothing is left, it
 * is given up.
 */
async function withinFunds(to: Context, chain: Evm, plans: EvmAttempt[]): Promise<EvmAttempt[]> {
  const feeOf = ({fees, gasLimit}: EvmAttempt) => fees.maxFeePerGas * gasLimit
  const tight = plans.filter(
    item =>
      item.kind === 'effect' && isNativeSweep(item.outgoingPayment, chain) && feeOf(item) > item.outgoingPayment.maxFee,
  )
  if (!tight.length) return plans
  const balances = await chain.node.nativeBalances(tight.map(({outgoingPayment}) => outgoingPayment.source))
  const refused = new Set<EvmAttempt>()
  for (const [i, item] of tight.entries()) {
    const balance = balances[i]!
    const {outgoingPayment} = item
    const {id, kind, amount, maxFee} = outgoingPayment
    const holding = kind === 'defund' ? amount + maxFee : outgoingPayment.holding
    const left = nativeSweep({balance, holding, fee: feeOf(item)})
    item.amount = least(left, item.amount)
    if (isWorthItsFee(chain.settings, {amount: item.amount, maxFee: feeOf(item)})) continue
    refused.add(item)
    if (kind === 'defund')
      await to.pool.query('select app.give_up_outgoing_payment($1, $2)', [
        id,
        `the network fee is ${feeOf(item)} wei now, and the gas would not be worth it`,
      ]) // else it would hold up the address's nonces
    else if (item.amount > 0n)
      await waitOutgoingPayment(to, id, {
        reason: 'sweep_too_dear',
        detail: `the fee is ${feeOf(item)} wei now, and the sweep moves ${item.amount} wei: that is more than SWEEP_FEE_PERCENT allows`,
        ms: retryMs,
      })
    else if (balance >= feeOf(item))
      await to.pool.query('select app.give_up_outgoing_payment($1, $2)', [
        id,
        `the network fee is ${feeOf(item)} wei now, more than it would move`,
      ])
    else await waitForLowerFees(to, id, {has: balance, fee: feeOf(item)})
  }
  return plans.filter(item => !refused.has(item))
}
