// What a family of chains provides for custody. Each is a folder here, and one line in families.ts. A family must
// promise: all attempts of a purpose share what makes them exclude each other (conflictKey), or each expires. It plans
// what the judge has found (judge/judge.ts), by the journal and by rows that only the indexers and the owner of the
// database write. It knows no node.
import type {z} from 'zod'
import type {CommonSettings} from '../chains/chain-settings.ts'
import type {ChainSettings} from '../chains/families.ts'
import type {Authorise, Intent} from './intents.ts'
import type {Draft} from './journal/journal.ts'
import type {Attempt, Details} from './judge/attempts.ts'
import type {OutgoingPayment} from './judge/outgoing-payments.ts'
import type {Decision, FamilyContext, Own, Plan, Purpose} from './judge/plan.ts'
import type {KeyFamily, KeyStore} from './keys/key-store.ts'

/** `T`: what the family adds to a plan, or says otherwise than the judge. */
export interface CustodyFamily<
  S extends CommonSettings = ChainSettings,
  I extends Intent = Intent,
  T extends Terms = Terms,
  D extends Details = Details,
> extends KeyFamily {
  /**
   * The address of a public key, in its display form. The settings are of any of the family's chains, which share the
   * address.
   */
  address(publicKey: Uint8Array, settings: S): string
  /**
   * The error if a database address (`known`) is of another network than this seed's (`made`). Absent if addresses are
   * the same on all networks.
   */
  otherNetwork?(made: string, known: string): string | undefined
  /** The family's intents. No other family uses their names. */
  intents: z.ZodDiscriminatedUnion & z.ZodType<I>
  /**
   * The intents of a request are judged in the order of this number, then in the order of the request. Absent: in that
   * order alone.
   */
  place?(intent: I): number
  /**
   * What the transaction would use up. Whatever was signed with one of these may still be mined in its place. Absent
   * where attempts expire.
   */
  keysOf?(intent: I, payer: Own): string[]
  /**
   * How the transaction is made that the case asks for, or what was signed before. Throws a Refusal if there may be
   * none.
   */
  plan(context: FamilyContext, of: Case, intent: I): Promise<Decision<T>>
  /** Throws a Refusal unless a sweep is worth its highest possible cost. Absent: by SWEEP_FEE_PERCENT. */
  checkSweep?(settings: S, sweep: Plan & T): void
  /**
   * The tokens that addresses sweep themselves, with gas that the treasury sends them, and the most that a sweep and
   * its gas may cost; how much of the treasury's stake may be lent to addresses at once, in base units. Absent where
   * there are none.
   */
  funds?: {isFunded(settings: S, token: string): boolean; most(settings: S): bigint; mostLent?(settings: S): bigint}
  sign(settings: S, keys: KeyStore, plan: Plan & T): Promise<Signed<D>>
  /**
   * The data of the call that uses the authorisation of a sweep, and its entry of the journal if it is new. Throws a
   * Refusal if there may be none. Absent where what a sweep costs is known without.
   */
  authorise?(context: FamilyContext, keys: KeyStore, request: Authorise): Promise<{data: string; draft?: Draft}>
  /** The fees in signed bytes, as the response names them. */
  fees(details: D): Record<string, string | number>
  /**
   * What stands for its fees in the journal's entry of a transaction that was found in a block, where it cost this.
   * Absent where nothing does.
   */
  found?(fee: string): Details
}

/** What an intent is for, and whose money moves. */
export interface Matter {
  purpose: Purpose
  /** The address that the money comes from; where outputs exclude, their owners are found with them. */
  from: Own
  /** Who pays the network fee. */
  payer: Own
  /** The status of its payout, if it pays one. */
  status?: string
}

/** What a family plans by. */
export interface Case extends Matter {
  outgoingPayment: OutgoingPayment
  /** Everything that was signed with any of the intent's keys, or for this subject, in order. */
  attempts: Attempt[]
  /** Those for the same purpose. */
  before: Attempt[]
}

/** What every family says of a plan. */
export type Terms = Pick<Plan, 'maxFee'> & Partial<Plan>

/** What was signed, and what the journal records of it besides the plan. */
export interface Signed<D extends Details = Details> {
  txid: string
  raw: string
  details: D
}
