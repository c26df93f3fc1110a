// The request to sign an EVM attempt, and custody's response.

import {z} from 'zod'
import {most} from '../../../base/bigints.ts'
import {responses as responsesOf, type Signed, units} from '../custody-client.ts'
import type {EvmAttempt} from './plan-attempt.ts'

const Offered = z.object({max_fee_per_gas: units, max_priority_fee_per_gas: units})
export type Offered = z.infer<typeof Offered>

const Response = Offered.extend({
  ok: z.literal(true),
  txid: z.string().regex(/^0x[0-9a-f]{64}$/),
  raw: z.string().regex(/^0x[0-9a-f]+$/),
  amount: units,
  gas_limit: z.int(),
}).transform(({ok, txid, raw, amount, ...feeDetails}): Signed => {
  return {ok, txid, raw, amount, feeDetails, maxFee: BigInt(feeDetails.max_fee_per_gas) * BigInt(feeDetails.gas_limit)}
})

export const responses = responsesOf(Response, Offered)

export function intentOf({outgoingPayment, kind, amount, fees, gasLimit}: EvmAttempt): object {
  const offered = {
    nonce: outgoingPayment.nonce,
    max_fee_per_gas: String(fees.maxFeePerGas),
    max_priority_fee_per_gas: String(fees.maxPriorityFeePerGas),
    gas_limit: Number(gasLimit),
  }
  const {chain, token, feePayer: sender} = outgoingPayment
  if (kind === 'cancel') return {intent: 'cancel', chain, sender, ...offered}
  if (outgoingPayment.kind === 'withdrawal')
    return {intent: 'withdraw', outgoing_payment_id: outgoingPayment.id, ...offered}
  if (outgoingPayment.kind === 'fund')
    return {intent: 'fund', outgoing_payment_id: outgoingPayment.id, chain, ...offered}
  if (outgoingPayment.kind === 'payout') return {intent: 'pay', payout_id: outgoingPayment.payoutId, ...offered}
  const sweep = {chain, token, address: outgoingPayment.source, amount: String(amount)}
  return {intent: outgoingPayment.kind, outgoing_payment_id: outgoingPayment.id, ...sweep, ...offered}
}

/** With the lowest fees that custody accepts; undefined if they are above the cap. */
export function raised(attempt: EvmAttempt, needed: Offered): EvmAttempt | undefined {
  const fees = {
    maxFeePerGas: most(BigInt(needed.max_fee_per_gas), attempt.fees.maxFeePerGas),
    maxPriorityFeePerGas: most(BigInt(needed.max_priority_fee_per_gas), attempt.fees.maxPriorityFeePerGas),
  }
  return fees.maxFeePerGas <= attempt.cap ? {...attempt, fees} : undefined
}
