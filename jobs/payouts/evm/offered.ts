// The fee of a first attempt now, or why nothing is begun. Throws RetryableError if the node cannot be asked.
import {retryMs, type Wait} from '../context.ts'
import {offer} from './fees.ts'
import type {Evm} from './node.ts'

export async function offered({node, settings}: Evm): Promise<{maxFeePerGas: bigint} | Wait> {
  const market = await node.feeMarket()
  const fees = offer(market, settings.maxFeePerGas)
  if (fees) return fees
  const [asked, cap] = [market.baseFee + market.priorityFee, settings.maxFeePerGas].map(wei => Number(wei) / 1e9)
  const detail = `the chain asks for ${asked} gwei, and ${settings.chain.code}_MAX_FEE_GWEI allows ${cap}`
  return {reason: 'fee_above_cap', detail, ms: retryMs.soon}
}
