// A Bitcoin attempt on the wire and in the database.
import {z} from 'zod'
import {answers, units} from '../custody.ts'
import type {Signing} from '../sign-attempts.ts'
import {type BitcoinPlan, priced} from './plan-attempt.ts'

/** With the fee and the amount that are in the bytes, which may be those of an earlier signature. */
const Signed = z.object({
  ok: z.literal(true),
  txid: z.string().regex(/^[0-9a-f]{64}$/),
  raw: z.string().regex(/^[0-9a-f]+$/),
  amount: units,
  fee: units,
  vsize: z.int(),
})
const Needed = z.object({fee: units})

export const signing: Signing<BitcoinPlan, z.infer<typeof Signed>, z.infer<typeof Needed>> = {
  answers: answers(Signed, Needed),

  intentOf({spend, kind, inputs, parentVsize, fee}) {
    const offered = {inputs: inputs.map(({outpoint}) => outpoint), fee: String(fee)}
    const {id, chain} = spend
    if (kind === 'cancel') return {intent: 'cancel_outputs', spend_id: id, chain, ...offered}
    if (spend.kind === 'payout') return {intent: 'pay_outputs', payout_id: spend.payoutId, ...offered}
    if (spend.kind === 'withdrawal') return {intent: 'withdraw_outputs', spend_id: id, ...offered}
    return {intent: parentVsize ? 'bump_outputs' : 'sweep_outputs', spend_id: id, chain, ...offered}
  },

  dearer: (to, plan, {fee}) => priced(to, {...plan, price: {...plan.price, least: BigInt(fee)}}),

  async store({pool}, {spend, kind}, {txid, raw, amount, fee, vsize}, number) {
    const {rows} = await pool.query<{is_stored: boolean}>(
      'select app.store_output_attempt($1, $2, $3, $4, $5, $6, $7, $8) as is_stored',
      [spend.id, number, kind, txid, raw, amount, fee, vsize],
    )
    return rows[0]!.is_stored
  },

  shortBy: ({spend}, {fee}) => BigInt(fee) - spend.maxFee,
}
