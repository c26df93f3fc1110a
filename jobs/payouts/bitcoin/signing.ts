// The request to sign a Bitcoin attempt, and custody's response.
import {z} from 'zod'
import {responses as responsesOf, type Signed, units} from '../custody-client.ts'
import type {BitcoinAttempt} from './plan-attempt.ts'

const Response = z
  .object({
    ok: z.literal(true),
    txid: z.string().regex(/^[0-9a-f]{64}$/),
    raw: z.string().regex(/^[0-9a-f]+$/),
    amount: units,
    fee: units,
    vsize: z.int(),
  })
  .transform(({ok, txid, raw, amount, fee, vsize}): Signed => {
    return {ok, txid, raw, amount, feeDetails: {network_fee: fee, vsize}, maxFee: BigInt(fee)}
  })
const Needed = z.object({fee: units})
export type Needed = z.infer<typeof Needed>

export const responses = responsesOf(Response, Needed)

export function intentOf({outgoingPayment, kind, inputs, parentVsize, fee}: BitcoinAttempt): object {
  const offered = {inputs: inputs.map(({outpoint}) => outpoint), fee: String(fee)}
  const {id, chain} = outgoingPayment
  if (kind === 'cancel') return {intent: 'cancel_outputs', outgoing_payment_id: id, chain, ...offered}
  if (outgoingPayment.kind === 'payout') return {intent: 'pay_outputs', payout_id: outgoingPayment.payoutId, ...offered}
  if (outgoingPayment.kind === 'withdrawal') return {intent: 'withdraw_outputs', outgoing_payment_id: id, ...offered}
  return {intent: parentVsize ? 'cpfp_outputs' : 'sweep_outputs', outgoing_payment_id: id, chain, ...offered}
}
