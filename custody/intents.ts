// What custody can be asked, and what it answers. The worker has these shapes too (jobs/payouts/); docs/custody.md explains them.
import {z} from 'zod'
import {type Chain, chains} from '../chains/registry.ts'

const units = z.string().regex(/^(0|[1-9]\d{0,76})$/, 'must be a whole number in base units, as a string')
const id = z.guid().toLowerCase()

const chainOf = (family: Chain['family']) =>
  z.enum(chains.filter(chain => chain.family === family).map(({code}) => code))

// On EVM chains: what is signed uses a nonce of an address.

const evmAddress = z.string().regex(/^0x[0-9a-fA-F]{40}$/, 'must be an address: 0x and 40 hex digits')
const evmChain = chainOf('evm')

const nonceAndFees = {
  nonce: z
    .int()
    .min(0)
    .max(2 ** 31 - 1),
  max_fee_per_gas: units,
  max_priority_fee_per_gas: units,
  gas_limit: z.int().min(21_000),
}

const Pay = z.strictObject({intent: z.literal('pay'), payout_id: id, ...nonceAndFees})
const Sweep = z.strictObject({
  intent: z.literal('sweep'),
  spend_id: id,
  chain: evmChain,
  token: z.string().max(50),
  address: evmAddress,
  amount: units,
  ...nonceAndFees,
})
const Withdraw = z.strictObject({intent: z.literal('withdraw'), spend_id: id, ...nonceAndFees})
const Cancel = z.strictObject({intent: z.literal('cancel'), chain: evmChain, sender: evmAddress, ...nonceAndFees})

// On Bitcoin: what is signed spends outputs, the first of which stands for all.

/** Nodes pass on transactions with up to about 1,470. */
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

const PayOutputs = z.strictObject({intent: z.literal('pay_outputs'), payout_id: id, ...inputsAndFee})
const SweepOutputs = z.strictObject({
  intent: z.literal('sweep_outputs'),
  spend_id: id,
  chain: chainOf('bitcoin'),
  ...inputsAndFee,
})
const BumpOutputs = z.strictObject({
  intent: z.literal('bump_outputs'),
  spend_id: id,
  chain: chainOf('bitcoin'),
  ...inputsAndFee,
})
const WithdrawOutputs = z.strictObject({intent: z.literal('withdraw_outputs'), spend_id: id, ...inputsAndFee})
const CancelOutputs = z.strictObject({
  intent: z.literal('cancel_outputs'),
  spend_id: id,
  chain: chainOf('bitcoin'),
  ...inputsAndFee,
})

const EvmIntent = z.discriminatedUnion('intent', [Pay, Sweep, Withdraw, Cancel])
const BitcoinIntent = z.discriminatedUnion('intent', [
  PayOutputs,
  SweepOutputs,
  BumpOutputs,
  WithdrawOutputs,
  CancelOutputs,
])
const Intent = z.discriminatedUnion('intent', [EvmIntent, BitcoinIntent])
export type Pay = z.infer<typeof Pay>
export type Sweep = z.infer<typeof Sweep>
export type Withdraw = z.infer<typeof Withdraw>
export type Cancel = z.infer<typeof Cancel>
export type PayOutputs = z.infer<typeof PayOutputs>
export type SweepOutputs = z.infer<typeof SweepOutputs>
export type BumpOutputs = z.infer<typeof BumpOutputs>
export type WithdrawOutputs = z.infer<typeof WithdrawOutputs>
export type CancelOutputs = z.infer<typeof CancelOutputs>
export type EvmIntent = z.infer<typeof EvmIntent>
export type BitcoinIntent = z.infer<typeof BitcoinIntent>
export type Intent = z.infer<typeof Intent>

export const SignRequest = z.strictObject({intents: z.array(Intent).min(1).max(200)})
export const CheckRequest = z.strictObject({payout_id: id})

export const refusalCodes = [
  'unknown_settlement',
  'wrong_state',
  'not_whitelisted',
  'amount_not_net',
  'above_limit',
  'daily_limit',
  'exceeds_received',
  'settlement_changed',
  'nonce_taken',
  'fee_above_cap',
  'fee_too_low',
  'not_ours',
  'insufficient_inputs',
  'dust',
  'nonce_too_high',
  'sweep_too_dear',
  'fee_budget_reached',
  'chain_halted',
  'journal_ahead',
  'journal_changed',
] as const
export type RefusalCode = (typeof refusalCodes)[number]

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
  needed?: WireFees | {fee: string}
}

interface Signed {
  ok: true
  txid: string
  raw: string
  amount: string
}

/** What was signed, with the fees that are in the bytes: a repeated intent gets the bytes that were signed before. */
export type SignedResult = Signed & ((WireFees & {gas_limit: number}) | {fee: string; vsize: number})

export type SignResult = SignedResult | Refused
export type CheckResult = {ok: true} | Refused
