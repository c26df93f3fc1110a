// Plans the next attempt of each outgoing payment: its kind, amount, fees and gas. Promises: the nonce never changes. A replacement outbids the
// earlier attempt. No fee is above the operator's cap. If no attempt can be made now, the outgoing payment says why.
import type {Context, PlannedAttempt} from '../context.ts'
import {type OutgoingPayment, waitOutgoingPayment} from '../outgoing-payments.ts'
import {type FeeMarket, type Fees, gas, isWorthSweeping, least, nativeSweep, offer, outbid, withRoom} from './fees.ts'
import {type Call, contractOf, type Evm, tokenTransfer} from './node.ts'
import {isTokenSweepTooDear} from './sweep.ts'

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
  const cap = chain.settings.maxFeePerGas
  const market = await chain.node.feeMarket()
  const now = offer(market, cap)
  const earlier = await earlierOffers(to, outgoingPayments)
  const priced: EvmAttempt[] = []
  for (const outgoingPayment of outgoingPayments) {
    const before = earlier.get(outgoingPayment.id)
    const fees = feesOf(outgoingPayment, chain, market, now, cap, before)
    const kind = outgoingPayment.cancelling ? 'cancel' : 'effect'
    const amount = outgoingPayment.cancelling ? 0n : (outgoingPayment.newest?.amount ?? outgoingPayment.amount)
    const gasLimit = gasOf(outgoingPayment, chain, before)
    if (fees && kind === 'effect' && isTooDear(outgoingPayment, chain, fees.maxFeePerGas * gasLimit))
      await to.pool.query('select app.cancel_outgoing_payment($1)', [outgoingPayment.id]) // else it would hold up the treasury's nonces; a cancel costs a fraction
    else if (fees) priced.push({outgoingPayment, kind, amount, fees, gasLimit, cap})
    else
      await waitOutgoingPayment(to, outgoingPayment.id, {
        reason: 'fee_above_cap',
        detail: aboveCap(chain, market),
        ms: retryMs,
      })
  }
  return await withinFunds(to, chain, await withEstimates(to, chain, priced))
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
  {baseFee, priorityFee}: FeeMarket,
  now: Fees | undefined,
  cap: bigint,
  earlier: Offered | undefined,
): Fees | undefined {
  if (earlier) return outbid(earlier, now, cap)
  // The amount of a native sweep was chosen together with its fee. As long as that fee is enough, it stays.
  const chosen = maxFee / gas.transfer
  const isChosen = isNativeSweep(outgoingPayment, chain) && chosen >= baseFee + priorityFee && chosen <= cap
  return isChosen ? {maxFeePerGas: chosen, maxPriorityFeePerGas: priorityFee} : now
}

function aboveCap({settings}: Evm, {baseFee, priorityFee}: FeeMarket): string {
  const code = settings.chain.code
  const [asked, cap] = [baseFee + priorityFee, settings.maxFeePerGas].map(wei => Number(wei) / 1e9)
  return `the chain asks for ${asked} gwei, and a replacement needs an eighth more than before; ${code}_MAX_FEE_GWEI allows ${cap}`
}

/** The gas limit; 0 if it has to be estimated. */
function gasOf({cancelling, ...outgoingPayment}: OutgoingPayment, chain: Evm, earlier: Offered | undefined): bigint {
  if (cancelling) return gas.transfer
  if (earlier) return earlier.gasLimit
  if (outgoingPayment.kind !== 'sweep') return 0n
  return isNativeSweep(outgoingPayment, chain) ? gas.transfer : gas.authorization
}

function isNativeSweep({kind, token}: {kind: string; token: string}, {native}: Evm): boolean {
  return kind === 'sweep' && token === native
}

function isTooDear({kind, token}: OutgoingPayment, chain: Evm, fee: bigint): boolean {
  return kind === 'sweep' && isTokenSweepTooDear(chain, token, fee)
}

/** The recipient of a payment may be a contract. So the node estimates the gas, and a payment that would fail is not made. */
async function withEstimates(to: Context, chain: Evm, plans: EvmAttempt[]): Promise<EvmAttempt[]> {
  const open = plans.filter(({gasLimit}) => gasLimit === 0n)
  const estimates = open.length
    ? await chain.node.estimates(open.map(({outgoingPayment}) => paymentCall(chain, outgoingPayment)))
    : []
  const refused = new Set<EvmAttempt>()
  for (const [i, item] of open.entries()) {
    const limit = paymentGas(estimates[i]!)
    if ('gas' in limit) {
      item.gasLimit = limit.gas
      continue
    }
    refused.add(item)
    await waitOutgoingPayment(to, item.outgoingPayment.id, {reason: 'would_revert', detail: limit.failure, ms: retryMs})
  }
  return plans.filter(item => !refused.has(item))
}

/** The call that a payment or a withdrawal makes. */
export function paymentCall(
  chain: Evm,
  {token, amount, source, recipient}: Pick<OutgoingPayment, 'token' | 'amount' | 'source' | 'recipient'>,
): Call {
  const contract = contractOf(chain, token)
  return contract
    ? {from: source, to: contract, data: tokenTransfer(recipient, amount)}
    : {from: source, to: recipient, value: amount}
}

/** The gas limit of a payment, or why it is not made. */
export function paymentGas(estimate: {gas: bigint} | {failure: string}): {gas: bigint} | {failure: string} {
  if ('failure' in estimate) return estimate
  if (estimate.gas > gas.paymentMost)
    return {failure: `the payment would use ${estimate.gas} gas, and may use at most ${gas.paymentMost}`}
  return {gas: least(withRoom(estimate.gas, 25n), gas.paymentMost)}
}

/** A native sweep pays its fee out of the amount that it moves. With a higher fee it moves less. If nothing is left, it is given up. */
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
    const left = nativeSweep({balance, holding: outgoingPayment.holding, fee: feeOf(item)})
    item.amount = least(left, item.amount)
    if (isWorthSweeping(item.amount, feeOf(item), chain.settings.sweepFeePercent)) continue
    refused.add(item)
    if (item.amount > 0n)
      await waitOutgoingPayment(to, outgoingPayment.id, {
        reason: 'sweep_too_dear',
        detail: `the fee is ${feeOf(item)} wei now, and the sweep moves ${item.amount} wei: that is more than SWEEP_FEE_PERCENT allows`,
        ms: retryMs,
      })
    else if (balance >= feeOf(item)) await to.pool.query('select app.cancel_outgoing_payment($1)', [outgoingPayment.id])
    else
      await waitOutgoingPayment(to, outgoingPayment.id, {
        reason: 'fee_above_funds',
        detail: `the address holds ${balance} wei, and the fee alone is ${feeOf(item)} wei`,
        ms: retryMs,
      })
  }
  return plans.filter(item => !refused.has(item))
}
