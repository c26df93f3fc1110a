// What custody can be asked, and what it answers. The worker has these shapes too (jobs/payouts/custody.ts); docs/custody.md explains them.
import {z} from 'zod'
import {chains} from '../chains/registry.ts'

const units = z.string().regex(/^(0|[1-9]\d{0,76})$/, 'must be a whole number in base units, as a string')
const address = z.string().regex(/^0x[0-9a-fA-F]{40}$/, 'must be an address: 0x and 40 hex digits')
const id = z.guid().toLowerCase()
const chain = z.enum(chains.map(({code}) => code))

const fees = {
  nonce: z
    .int()
    .min(0)
    .max(2 ** 31 - 1),
  max_fee_per_gas: units,
  max_priority_fee_per_gas: units,
  gas_limit: z.int().min(21_000),
}

const Pay = z.strictObject({intent: z.literal('pay'), payout_id: id, ...fees})
const Sweep = z.strictObject({
  intent: z.literal('sweep'),
  spend_id: id,
  chain,
  token: z.string().max(50),
  address,
  amount: units,
  ...fees,
})
const Withdraw = z.strictObject({intent: z.literal('withdraw'), spend_id: id, ...fees})
const Cancel = z.strictObject({intent: z.literal('cancel'), chain, sender: address, ...fees})

export const Intent = z.discriminatedUnion('intent', [Pay, Sweep, Withdraw, Cancel])
export type Intent = z.infer<typeof Intent>
export type Pay = z.infer<typeof Pay>
export type Sweep = z.infer<typeof Sweep>
export type Withdraw = z.infer<typeof Withdraw>
export type Cancel = z.infer<typeof Cancel>

export const SignRequest = z.strictObject({intents: z.array(Intent).min(1).max(200)})
export const CheckRequest = z.strictObject({payout_id: id})

export type RefusalCode =
  | 'unknown_settlement'
  | 'wrong_state'
  | 'not_whitelisted'
  | 'amount_not_net'
  | 'above_limit'
  | 'daily_limit'
  | 'exceeds_received'
  | 'settlement_changed'
  | 'nonce_taken'
  | 'fee_above_cap'
  | 'fee_too_low'
  | 'not_ours'
  | 'journal_ahead'

/** Fees as they are on the wire. */
export interface WireFees {
  max_fee_per_gas: string
  max_priority_fee_per_gas: string
}

/** Why something is not signed. `needed`, for fee_too_low: the least that a replacement has to offer. */
export interface Refused {
  ok: false
  code: RefusalCode
  message: string
  needed?: WireFees
}

/** What was signed, with the fees that are in the bytes: a repeated intent gets the bytes that were signed before. */
export interface SignedResult extends WireFees {
  ok: true
  txid: string
  raw: string
  amount: string
  gas_limit: number
}

export type SignResult = SignedResult | Refused
export type CheckResult = {ok: true} | Refused
