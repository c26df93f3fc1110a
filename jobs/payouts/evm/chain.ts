// The payout chain of the EVM family: accounts. Money on deposit addresses is swept to the treasury, and the treasury pays it out. Each transaction
// takes the next nonce of its sender.

import {step} from '../../../base/step.ts'
import type {EvmSettings} from '../../../chains/evm/settings.ts'
import {beginSweeps, endSweeping, isPayable, shortfall, sweepable, untilTriedAgain, whyUnpaid} from '../accounts.ts'
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
import {collectToken} from './collect.ts'
import {least} from './fees.ts'
import {assumedGas, likelySweepGas} from './gas.ts'
import {type Evm, evm} from './node.ts'
import {offered, paymentFee} from './offered.ts'
import {unpayable} from './payment.ts'
import {type EvmAttempt, plan} from './plan-attempt.ts'
import {refusalOf, tokenRefusal} from './refusals.ts'
import {beginReturn} from './return.ts'
import {intentOf, type Offered, raised, responses} from './signing.ts'
import {isTokenSweepTooDear, sweepsFor, tooDear} from './sweep.ts'

export function open(settings: EvmSettings): PayoutChain<EvmAttempt, Offered> {
  const chain = evm(settings)
  return {
    unpayable: payout => unpayable(chain, payout),
    sweep: (to, payout) => sweep(to, payout, chain),
    beginPayment: (to, payout) => beginPayment(to, payout, chain),
    plan: (to, outgoingPayments) => plan(to, chain, outgoingPayments),
    intentOf,
    responses,
    raise: async (_to, attempt, needed) => raised(attempt, needed),
    isStuck: ({isOverdue, isBehind}) => isOverdue && !isBehind,
    resendAfterMs: resendByAge,
    broadcast: raws => chain.node.broadcast(raws),
    beginReturn: (to, step) => beginReturn(to, chain, step),
    refusal: (to, of) => refusalOf(to, chain, of),
    collect: async to => {
      for (const [token, above] of settings.collectAbove) await collectToken(to, chain, token, above)
    },
    close: () => chain.node.close(),
  }
}

async function sweep(to: Context, payout: Payout, chain: Evm): Promise<Outcome> {
  const fees = await offered(chain)
  if ('reason' in fees) return fees
  const paymentFee = payout.sweepFirst ? undefined : likelyPaymentFee(chain, fees.maxFeePerGas)
  if (paymentFee !== undefined && (await isPayable(to, payout, paymentFee))) return await endSweeping(to, payout)
  const missing = paymentFee === undefined ? undefined : await shortfall(to, payout, paymentFee)
  if (
    missing !== 0n &&
    isTokenSweepTooDear(chain, payout.token, fees.maxFeePerGas * likelySweepGas(chain, payout.token)) &&
    (await sweepable(to, payout, 1n)).length
  )
    return {reason: 'fee_above_cap', detail: tooDear(chain), ms: retryMs.soon}
  const sweeps = missing === 0n ? [] : await sweepsFor(to, chain, payout, fees.maxFeePerGas, missing)
  const refused = sweeps.length ? await tokenRefusal(to, chain, payout.token) : undefined
  if (refused) return refused
  step('sweep: before begin')
  const short = await beginSweeps(to.pool, payout, sweeps, paymentFee)
  step('sweep: after begin')
  const unswept = await untilSwept(to, payout)
  if (unswept) return unswept
  if (short) return shortOfFunds(short)
  return (await untilTriedAgain(to, payout)) ?? (await endSweeping(to, payout))
}

/** What the treasury keeps for the network fee of a payment, before it can be estimated. */
function likelyPaymentFee({settings}: Evm, feePerGas: bigint): bigint {
  return least(feePerGas * assumedGas.payment, settings.maxPaymentFee)
}

async function beginPayment(to: Context, payout: Payout, chain: Evm): Promise<Wait | undefined> {
  const fees = await offered(chain)
  if ('reason' in fees) return fees
  const least = await shortage(
    to,
    'select app.payout_shortage($1, $2) as short',
    payout,
    fees.maxFeePerGas * assumedGas.transfer,
  )
  if (least) return await collectFor(to, payout, chain, fees.maxFeePerGas, least) // the node need not be asked: the treasury cannot pay it
  const fee = await paymentFee(chain, {...payout, source: payout.treasury})
  if (typeof fee === 'object') return fee
  step('payment: before begin')
  const short = await shortage(to, 'select app.begin_payment($1, $2) as short', payout, fee)
  step('payment: after begin')
  return short && (await collectFor(to, payout, chain, fees.maxFeePerGas, short))
}

async function shortage(to: Context, sql: string, {id}: Payout, networkFee: bigint): Promise<Wait | undefined> {
  const {rows} = await to.pool.query<{short: string | null}>(sql, [id, String(networkFee)])
  const detail = rows[0]!.short
  return detail ? shortOfFunds(detail) : undefined
}

/** Another payout used money that this payout counted on: sweeps the merchant's own money that is still on addresses. */
async function collectFor(to: Context, payout: Payout, chain: Evm, feePerGas: bigint, short: Wait): Promise<Wait> {
  const paymentFee = likelyPaymentFee(chain, feePerGas)
  const missing = await shortfall(to, payout, paymentFee)
  const sweeps = missing === 0n ? [] : await sweepsFor(to, chain, payout, feePerGas, missing)
  const refused = sweeps.length ? await tokenRefusal(to, chain, payout.token) : undefined
  if (refused) return refused
  await beginSweeps(to.pool, payout, sweeps, paymentFee)
  return await whyUnpaid(to, payout, paymentFee, short)
}
