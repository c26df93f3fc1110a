// What a family of chains is to custody. Each is a folder here, and one line in families.ts. Promises asked of it: what excludes each other
// (plan.sender and plan.nonce) is shared by all attempts of a purpose; it judges by the journal, and by rows that policy.ts names; it knows no node.
import type {z} from 'zod'
import type {CommonSettings} from '../chains/chain-settings.ts'
import type {ChainSettings} from '../chains/families.ts'
import type {Details} from './attempts.ts'
import type {Intent} from './intents.ts'
import type {KeyFamily, KeyStore} from './keys.ts'
import type {Decision, FamilyContext, Plan} from './policy.ts'

export interface CustodyFamily<
  S extends CommonSettings = ChainSettings,
  I extends Intent = Intent,
  P extends Plan = Plan,
  D extends Details = Details,
> extends KeyFamily {
  /** The address of a public key, as people see it. The settings are those of one of the chains, which share it. */
  address(publicKey: Uint8Array, settings: S): string
  /** What to do if an address of the database (`known`) is of another network than one of this seed (`made`). Absent where addresses do not differ by that. */
  otherNetwork?(made: string, known: string): string | undefined
  /** What can be asked for, by names that no other family has. */
  intents: z.ZodDiscriminatedUnion & z.ZodType<I>
  /** What is asked for at once is judged in the order of this number, and of the request. */
  place(intent: I): number
  /** What the log calls that for which something is asked. */
  subject(intent: I): string
  /** Throws a Refusal where nothing is to be signed. */
  judge(context: FamilyContext, intent: I): Promise<Decision<P>>
  /** Throws a Refusal unless a sweep is worth what it may cost. */
  checkSweep(settings: S, sweep: P): void
  sign(settings: S, keys: KeyStore, plan: P): Promise<Signed<D>>
  /** What is answered of the fees that are in signed bytes. */
  fees(details: D): Record<string, string | number>
}

/** What was signed, and what the journal keeps of it besides the plan. */
export interface Signed<D extends Details = Details> {
  txid: string
  raw: string
  details: D
}
