// What a family of chains provides for custody. Each is a folder here, and one line in families.ts. A family must promise: all attempts of a
// purpose share what makes them exclude each other (plan.conflictKey), or each expires, and the next one is signed by the rules of expiry.ts. It judges by the journal and by the rows that policy.ts names.
// It knows no node.
import type {z} from 'zod'
import type {CommonSettings} from '../chains/chain-settings.ts'
import type {ChainSettings} from '../chains/families.ts'
import type {Details} from './attempts.ts'
import type {Authorise, Intent} from './intents.ts'
import type {Draft} from './journal.ts'
import type {KeyFamily, KeyStore} from './keys.ts'
import type {Decision, FamilyContext, Plan} from './policy.ts'

export interface CustodyFamily<
  S extends CommonSettings = ChainSettings,
  I extends Intent = Intent,
  P extends Plan = Plan,
  D extends Details = Details,
> extends KeyFamily {
  /** The address of a public key, in its display form. The settings are of any of the family's chains, which share the address. */
  address(publicKey: Uint8Array, settings: S): string
  /** The error if a database address (`known`) is of another network than this seed's (`made`). Absent if addresses are the same on all networks. */
  otherNetwork?(made: string, known: string): string | undefined
  /** The family's intents. No other family uses their names. */
  intents: z.ZodDiscriminatedUnion & z.ZodType<I>
  /** The intents of a request are judged in the order of this number, then in the order of the request. */
  place(intent: I): number
  /** The name of the intent's subject in the log. */
  subject(intent: I): string
  /** Throws a Refusal if nothing may be signed. */
  judge(context: FamilyContext, intent: I): Promise<Decision<P>>
  /** Throws a Refusal unless a sweep is worth its highest possible cost. */
  checkSweep(settings: S, sweep: P): void
  sign(settings: S, keys: KeyStore, plan: P): Promise<Signed<D>>
  /**
   * The data of the call that uses the authorisation of a sweep, and its entry of the journal if it is new. Throws a Refusal if there may be none. Absent where
   * what a sweep costs is known without.
   */
  authorise?(context: FamilyContext, keys: KeyStore, request: Authorise): Promise<{data: string; draft?: Draft}>
  /** The fees in signed bytes, as the response names them. */
  fees(details: D): Record<string, string | number>
  /** What stands for its fees in the journal's entry of a transaction that was found in a block, where it cost this. Absent where nothing does. */
  found?(fee: string): Details
}

/** What was signed, and what the journal records of it besides the plan. */
export interface Signed<D extends Details = Details> {
  txid: string
  raw: string
  details: D
}
