// The intents that custody takes on Bitcoin. A signed transaction spends outputs; its first input identifies it. The
// worker has these shapes too (jobs/payouts/bitcoin/).
import {z} from 'zod'
import {chainOf, id, intentsOf, units} from '../intents.ts'

const chain = chainOf('bitcoin')
/** Nodes relay transactions with up to about 1,470 inputs. */
const mostInputs = 500
const outpoint = z
  .string()
  .regex(/^[0-9a-f]{64}:(0|[1-9]\d{0,5})$/, 'must be an outpoint: 64 lower-case hex digits, a colon, a number')

const inputsAndFee = {
  inputs: z
    .array(outpoint)
    .min(1)
    .max(mostInputs)
    .refine(inputs => new Set(inputs).size === inputs.length, 'must not name an output twice'),
  fee: units,
}

const ofRow = {outgoing_payment_id: id, chain, ...inputsAndFee}
const Cpfp = z.strictObject({intent: z.literal('cpfp_outputs'), ...ofRow})
const Cancel = z.strictObject({intent: z.literal('cancel_outputs'), ...ofRow})

export const BitcoinIntent = z.discriminatedUnion('intent', [
  ...intentsOf('bitcoin', 'outputs', inputsAndFee),
  Cpfp,
  Cancel,
])
export type BitcoinIntent = z.infer<typeof BitcoinIntent>
