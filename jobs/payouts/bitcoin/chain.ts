// The payout chain of the Bitcoin family: outputs instead of accounts. One transaction spends final outputs of the
// merchant's addresses, plus the treasury's for what is missing, and pays the merchant; the rest goes to the treasury.
// So no sweep comes first, unless the payment would need too many inputs.

import type {Logger} from '../../../base/log.ts'
import {step} from '../../../base/step.ts'
import {dustLimit, scriptOfAddress} from '../../../chains/bitcoin/script.ts'
import type {BitcoinSettings} from '../../../chains/bitcoin/settings.ts'
import {
  type Context,
  type Outcome,
  type Payout,
  type PayoutChain,
  resendByAge,
  retryMs,
  shortOfFunds,
  untilSwept,
  type Wait,
} from '../context.ts'
import {openNode} from './node.ts'
import {claimedOutputs, freeOutputs} from './outputs.ts'
import {type Bitcoin, type BitcoinAttempt, plan, priced} from './plan-attempt.ts'
import {ratesOf} from './rates.ts'
import {readSigned} from './second-reader.ts'
import {costOfInput, type Failure, mostInputs, type Output, type Price, selectPayment} from './select.ts'
import {whyShort} from './shortage.ts'
import {intentOf, type Needed, responses} from './signing.ts'
import {beginSweep, collectMerchants} from './sweep.ts'

export function open(settings: BitcoinSettings, log: Logger): PayoutChain<BitcoinAttempt, Needed> {
  const chain: Bitcoin = {settings, node: openNode(settings, log)}
  return {
    sweep: (to, payout) => sweep(to, payout, chain),
    plan: (to, outgoingPayments) => plan(to, chain, outgoingPayments),
    intentOf,
    responses,
    raise: (to, attempt, {fee}) => priced(to, {...attempt, price: {...attempt.price, least: BigInt(fee)}}),
    readSigned: (_to, planned, signed) => readSigned(planned, signed),
    isStuck: ({isOverdue}) => isOverdue,
    resendAfterMs: resendByAge,
    broadcast: raws => chain.node.broadcast(raws),
    collect: to => collectMerchants(to, chain),
    close: () => chain.node.close(),
  }
}

async function sweep(to: Context, payout: Payout, chain: Bitcoin): Promise<Outcome> {
  const {settings} = chain
  const script = scriptOfAddress(payout.recipient, settings.chain.networks[settings.network])
  if (payout.amount < dustLimit(script)) return belowDust(payout, dustLimit(script))
  const price = await priceOf(chain)
  if ('reason' in price) return price
  const {must, may} = await candidates(to, payout, price)
  const select = (more: Output[] = []) =>
    selectPayment({amount: payout.amount, scriptLength: script.length}, must, [...may, ...more], price)
  const found = select()
  if ('aboveCap' in found) return aboveCap(settings)
  if ('short' in found) {
    const unswept = await untilSwept(to, payout)
    if (unswept) return unswept
    const detail = `the free outputs of the merchant and the treasury are ${found.short} sat short, including the network fee`
    return {...(await whyShort(to, payout, detail, select)), ms: retryMs.soon}
  }
  if (found.inputs.length > mostInputs) return await sweepFirst(to, payout, found.inputs, price, settings)
  step('payment: before begin')
  const {rows} = await to.pool.query<{short: string | null}>('select app.begin_output_payment($1, $2, $3) as short', [
    payout.id,
    found.inputs.map(({outpoint}) => outpoint),
    String(found.fee),
  ])
  step('payment: after begin')
  const {short} = rows[0]!
  if (short) return shortOfFunds(short)
  return (payout.sweepFirst && (await untilSwept(to, payout))) || 'next'
}

/** No node relays such an output, and waiting does not change that. */
function belowDust({amount}: Payout, least: bigint): Wait {
  const detail = `${amount} sat would be dust: nodes accept no payment below ${least} sat to such an address`
  return {reason: 'below_dust', detail, ms: retryMs.soon, fails: {as: 'broadcast_rejected', afterMs: 0}}
}

async function priceOf({node, settings}: Bitcoin): Promise<Price | Wait> {
  const rates = ratesOf(await node.feeRates(), settings)
  return rates ? {rate: rates.first, cap: settings.maxFeeRate} : aboveCap(settings)
}

function aboveCap({chain, maxFeeRate}: BitcoinSettings): Wait {
  const detail = `the network fee is above ${chain.code}_MAX_FEE_RATE (${maxFeeRate} sat/vB), or the fee of a sweep above ${chain.code}_SWEEP_FEE_PERCENT`
  return {reason: 'fee_above_cap', detail, ms: retryMs.soon}
}

/** With sweepFirst, all claimed outputs that are worth their fee are spent, whether the payment needs them or not. */
async function candidates({pool}: Context, payout: Payout, {rate}: Price): Promise<{must: Output[]; may: Output[]}> {
  const [merchants, treasurys, claimed] = await Promise.all([
    freeOutputs(pool, payout.chain, payout.merchantId),
    freeOutputs(pool, payout.chain, null),
    payout.sweepFirst ? claimedOutputs(pool, payout.id) : [],
  ])
  const must = claimed.filter(({amount}) => amount > costOfInput(rate))
  const taken = new Set(must.map(({outpoint}) => outpoint))
  return {must, may: [...merchants.filter(({outpoint}) => !taken.has(outpoint)), ...treasurys]}
}

/**
 * For too many inputs for one transaction: each sweep turns 500 of the merchant's outputs into one of the treasury's,
 * as often as needed.
 */
async function sweepFirst(
  to: Context,
  payout: Payout,
  inputs: Output[],
  price: Price,
  settings: BitcoinSettings,
): Promise<Outcome> {
  const before = await untilSwept(to, payout)
  if (before) return before
  const own = inputs.filter(({isTreasury}) => !isTreasury)
  const count = Math.ceil((inputs.length - mostInputs) / (mostInputs - 1))
  let why: Failure | string | undefined
  step('sweep: before begin')
  for (let i = 0; i < count && !why; i++)
    why = await beginSweep(to, payout, own.slice(i * mostInputs, (i + 1) * mostInputs), price, settings)
  step('sweep: after begin')
  const begun = await untilSwept(to, payout)
  if (begun) return begun
  if (typeof why === 'string') return shortOfFunds(why)
  return why && 'aboveCap' in why
    ? aboveCap(settings)
    : shortOfFunds("the treasury's money is in more outputs than one transaction can spend")
}
