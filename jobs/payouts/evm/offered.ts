// The fee of a first attempt now, or why nothing is begun. Throws RetryableError if the node cannot be asked.
import type {Payment} from '../accounts/rules.ts'
import {treasuryLacks} from '../accounts/tokens.ts'
import {retryMs, type Wait} from '../context.ts'
import {capOf, type FeeMarket, type Fees, offer} from './fees.ts'
import {balancesOf, type Evm} from './node.ts'
import {paymentCall, paymentGas, refusedByRecipient} from './payment.ts'

export async function offered(chain: Evm): Promise<Fees | Wait> {
  const market = await chain.node.feeMarket(chain.settings.chain.leastTip)
  return offer(market, chain.settings.maxFeePerGas) ?? {...aboveCap(chain, market), ms: retryMs.soon}
}

/**
 * The most that a payment may cost now, in wei; or why it is not begun: it would fail, or cost more than the operator
 * allows for one.
 */
export async function paymentFee(chain: Evm, payment: Payment): Promise<bigint | Wait> {
  const {chain: registered, maxFeePerGas, maxPaymentFee} = chain.settings
  const [estimate] = await chain.node.estimates([paymentCall(chain, payment)])
  const limit = paymentGas(estimate!)
  if ('failure' in limit) {
    const refused = await refusedByRecipient(chain, payment)
    if (refused) return refused
    const [holds = 0n] = await balancesOf(chain, payment.token, [payment.source])
    return {reason: 'would_revert', detail: treasuryLacks(payment, holds) ?? limit.failure, ms: retryMs.soon}
  }
  const market = await chain.node.feeMarket(registered.leastTip)
  const fees = offer(market, capOf(maxFeePerGas, maxPaymentFee, limit.gas))
  return fees ? fees.maxFeePerGas * limit.gas : {...aboveCap(chain, market, limit.gas), ms: retryMs.soon}
}

/** Why a transaction is not sent: its price, or what it costs with that much gas. */
export function aboveCap(
  {settings}: Evm,
  {baseFee, priorityFee}: FeeMarket,
  gasLimit?: bigint,
): Pick<Wait, 'reason' | 'detail'> {
  const {code} = settings.chain
  const price = baseFee + priorityFee
  const more = 'and a transaction must be able to cost an eighth more twice, to be replaced'
  const [asked, cap] = [price, settings.maxFeePerGas].map(wei => Number(wei) / 1e9)
  const isForGas = gasLimit !== undefined && price <= (settings.maxFeePerGas * 64n) / 81n
  // What needs so much gas is the recipient's code: it must not hold a nonce for longer than a payment that would fail.
  const reason = isForGas ? 'would_revert' : 'fee_above_cap'
  const detail = isForGas
    ? `the payment needs up to ${gasLimit} gas, which costs ${price * gasLimit} wei now, ${more}; ${code}_MAX_PAYMENT_FEE allows ${settings.maxPaymentFee}`
    : `the chain asks for ${asked} gwei, ${more}; ${code}_MAX_FEE_GWEI allows ${cap}`
  return {reason, detail}
}
