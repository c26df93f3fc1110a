// The intents that custody takes on EVM chains. A signed transaction uses a nonce of an address. The worker has these
// shapes too (jobs/payouts/evm/).
import {z} from 'zod'
import {mostGas} from '../../chains/evm/gas-limits.ts'
import {chainOf, id, units} from '../intents.ts'

const address = z.string().regex(/^0x[0-9a-fA-F]{40}$/, 'must be an address: 0x and 40 hex digits')
const chain = chainOf('evm')

const nonceAndFees = {
  nonce: z
    .int()
    .min(0)
    .max(2 ** 31 - 1),
  max_fee_per_gas: units,
  max_priority_fee_per_gas: units,
  gas_limit: z.int().min(1).max(Number(mostGas)),
}

const Pay = z.strictObject({intent: z.literal('pay'), payout_id: id, ...nonceAndFees})
const Sweep = z.strictObject({
  intent: z.literal('sweep'),
  outgoing_payment_id: id,
  chain,
  token: z.string().max(50),
  address,
  amount: units,
  ...nonceAndFees,
})
const Defund = z.strictObject({...Sweep.shape, intent: z.literal('defund')})
const Withdraw = z.strictObject({intent: z.literal('withdraw'), outgoing_payment_id: id, ...nonceAndFees})
const Fund = z.strictObject({intent: z.literal('fund'), outgoing_payment_id: id, chain, ...nonceAndFees})
const Cancel = z.strictObject({intent: z.literal('cancel'), chain, sender: address, ...nonceAndFees})

export const EvmIntent = z.discriminatedUnion('intent', [Pay, Sweep, Withdraw, Fund, Defund, Cancel])

/** What an address moves to the treasury. */
export type SweepIntent = z.infer<typeof Sweep> | z.infer<typeof Defund>
export type EvmIntent = z.infer<typeof EvmIntent>

/** Fees as requests, responses and the journal have them. */
export interface WireFees {
  max_fee_per_gas: string
  max_priority_fee_per_gas: string
  gas_limit: number
}
