// An EVM attempt on the wire and in the database.
import {z} from 'zod'
import {answers, units} from '../custody.ts'
import type {Signing} from '../sign-attempts.ts'
import {most} from './fees.ts'
import type {EvmPlan} from './plan-attempt.ts'

const Offered = z.object({max_fee_per_gas: units, max_priority_fee_per_gas: units})
/** With the fees that are in the bytes, which may be those of an earlier signature. */
const Signed = Offered.extend({
  ok: z.literal(true),
  txid: z.string().regex(/^0x[0-9a-f]{64}$/),
  raw: z.string().regex(/^0x[0-9a-f]+$/),
  amount: units,
  gas_limit: z.int(),
})

export const signing: Signing<EvmPlan, z.infer<typeof Signed>, z.infer<typeof Offered>> = {
  answers: answers(Signed, Offered),

  intentOf({spend, kind, amount, fees, gasLimit}) {
    const offered = {
      nonce: spend.nonce,
      max_fee_per_gas: String(fees.maxFeePerGas),
      max_priority_fee_per_gas: String(fees.maxPriorityFeePerGas),
      gas_limit: Number(gasLimit),
    }
    const {chain, token, sender} = spend
    if (kind === 'cancel') return {intent: 'cancel', chain, sender, ...offered}
    if (spend.kind === 'withdrawal') return {intent: 'withdraw', spend_id: spend.id, ...offered}
    if (spend.kind === 'payout') return {intent: 'pay', payout_id: spend.payoutId, ...offered}
    const sweep = {chain, token, address: spend.source, amount: String(amount)}
    return {intent: 'sweep', spend_id: spend.id, ...sweep, ...offered}
  },

  async dearer(_to, plan, needed) {
    const fees = {
      maxFeePerGas: most(BigInt(needed.max_fee_per_gas), plan.fees.maxFeePerGas),
      maxPriorityFeePerGas: most(BigInt(needed.max_priority_fee_per_gas), plan.fees.maxPriorityFeePerGas),
    }
    return fees.maxFeePerGas <= plan.cap ? {...plan, fees} : undefined
  },

  async store({pool}, {spend, kind}, signed, number) {
    const {rows} = await pool.query<{is_stored: boolean}>(
      'select app.store_attempt($1, $2, $3, $4, $5, $6, $7, $8, $9) as is_stored',
      [
        spend.id,
        number,
        kind,
        signed.txid,
        signed.raw,
        signed.amount,
        signed.max_fee_per_gas,
        signed.max_priority_fee_per_gas,
        signed.gas_limit,
      ],
    )
    return rows[0]!.is_stored
  },

  shortBy: ({spend}, {max_fee_per_gas, gas_limit}) => BigInt(max_fee_per_gas) * BigInt(gas_limit) - spend.maxFee,
}
