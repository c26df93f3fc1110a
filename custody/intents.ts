// What the intents of all families share, and custody's responses. Each family's intents are in its folder.
// docs/custody.md explains them.
import {z} from 'zod'
import type {RefusalCode} from '../base/reasons.ts'
import {type ChainCode, chainCodes, chains, type Family} from '../chains/registry.ts'

/** An amount in base units. */
export const units = z.string().regex(/^(0|[1-9]\d{0,76})$/, 'must be a whole number in base units, as a string')
export const id = z.guid().toLowerCase()

export const chainOf = (family: Family) => z.enum(chains.filter(chain => chain.family === family).map(({code}) => code))

const fromAddress = {chain: z.enum(chainCodes), token: z.string().max(50), address: z.string().max(100)}
const OfSweep = z.strictObject({outgoing_payment_id: id, ...fromAddress, amount: units})
const Trial = z.strictObject(fromAddress)

/** A sweep of a token that was begun, whose authorisation is asked for before its transaction. */
export type OfSweep = z.infer<typeof OfSweep>
/** An authorisation of nothing: whether the token would let this address go can be asked of a node with it. */
export type Trial = z.infer<typeof Trial>
export const Authorise = z.union([OfSweep, Trial])
export type Authorise = OfSweep | Trial

/** What a signature is for. */
export type Kind = 'pay' | 'sweep' | 'withdraw' | 'cancel' | 'fund' | 'defund' | StakingKind
/** What is done with the treasury's stake; it moves no coins to anybody. */
export type StakingKind = 'delegate' | 'undelegate' | 'stake' | 'unstake' | 'reclaim'
const stakingKinds: readonly Kind[] = ['delegate', 'undelegate', 'stake', 'unstake', 'reclaim']
export const isStaking = (kind: Kind): kind is StakingKind => stakingKinds.includes(kind)

/** An intent of any family, and the row that it is for. Its name says what it asks for, and which family. */
export type Intent = {intent: string} & (
  | {payout_id: string}
  | {outgoing_payment_id: string; chain?: ChainCode}
  | {chain: ChainCode; sender: string; nonce: number}
)

/** What an intent asks for: the first word of its name. A CPFP child is a sweep. */
export function kindOf({intent}: Intent): Kind {
  const [word] = intent.split('_') as [Kind | 'cpfp']
  return word === 'cpfp' ? 'sweep' : word
}

/** The intents that every family has, whose names end alike, with what else they name. */
export function intentsOf<F extends Family, E extends string, More extends z.ZodRawShape>(
  family: F,
  end: E,
  more: More,
) {
  return [
    z.strictObject({intent: z.literal(`pay_${end}`), payout_id: id, ...more}),
    z.strictObject({intent: z.literal(`sweep_${end}`), chain: chainOf(family), outgoing_payment_id: id, ...more}),
    z.strictObject({intent: z.literal(`withdraw_${end}`), outgoing_payment_id: id, ...more}),
  ] as const
}

/** For gas of addresses, there and back. */
export const gasIntentsOf = <F extends Family, E extends string>(family: F, end: E) =>
  [
    z.strictObject({intent: z.literal(`fund_${end}`), chain: chainOf(family), outgoing_payment_id: id}),
    z.strictObject({intent: z.literal(`defund_${end}`), chain: chainOf(family), outgoing_payment_id: id}),
  ] as const

/** For the treasury's stake. */
export const stakingIntentsOf = <F extends Family, E extends string>(family: F, end: E) => {
  const fields = {chain: chainOf(family), outgoing_payment_id: id}
  return [
    z.strictObject({intent: z.literal(`delegate_${end}`), ...fields}),
    z.strictObject({intent: z.literal(`undelegate_${end}`), ...fields}),
    z.strictObject({intent: z.literal(`stake_${end}`), ...fields}),
    z.strictObject({intent: z.literal(`unstake_${end}`), ...fields}),
    z.strictObject({intent: z.literal(`reclaim_${end}`), ...fields}),
  ] as const
}

/** Why something is not signed. `needed`, for fee_too_low: the least that a replacement must pay. */
export interface Refused {
  ok: false
  code: RefusalCode
  message: string
  needed?: Record<string, string>
}

/** What was signed, with the fees in the bytes, by family. A repeated intent gets the bytes that were signed before. */
export interface SignedResult {
  ok: true
  txid: string
  raw: string
  amount: string
}

/** The data of the call that uses an authorisation. */
export type AuthoriseResult = {ok: true; data: string} | Refused
export type SignResult = SignedResult | Refused
export type CheckResult = {ok: true} | Refused
