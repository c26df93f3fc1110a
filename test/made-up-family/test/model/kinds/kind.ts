// What the model knows of a kind of chains: one for each way in which attempts end.
import type pg from 'pg'
import type {ChainCode} from '../../../chains/registry.ts'
import type {Settings} from '../../../chains/settings.ts'
import type {PayoutChain} from '../../../jobs/payouts/context.ts'
import type {OutgoingPayment} from '../../../jobs/payouts/outgoing-payments.ts'
import type {ModelChain, Rules, Transaction} from '../chain.ts'

/** An outgoing payment that custody may be asked to sign. */
export interface Wanted {
  id: string
  kind: OutgoingPayment['kind']
  payoutId: string | null
  amount: string
  source: string
  feePayer: string
  recipient: string
  nonce: number | null
  /** The outputs that it has reserved, the first input first; and all that are known. */
  inputs: string[]
  outputs: string[]
  cancelling: boolean
}

export interface Kind {
  name: string
  chain: ChainCode
  token: string
  /** The coin in which fees are paid, if that is another one. */
  native?: string
  /** What it needs in the environment. */
  settings: Record<string, string>
  /** The model's amounts are multiples of it. */
  unit: bigint
  /** What a transaction reserves for its fee. */
  fee: bigint
  /**
   * Addresses sweep themselves, with gas that the treasury sends them: then what a transfer of coins, which brings gas
   * back, costs at most.
   */
  coinFee?: bigint
  /** What the treasury has staked, and lends addresses, in the native coin. */
  staked?: bigint
  rules: Rules
  /** Its transactions expire. */
  expires: boolean
  /** So many times the usual number of blocks pass where time passes: its transactions live long. */
  ageing?: number
  parse(raw: string): Transaction
  /** The part of the worker that belongs to the family; its network is the model's chain. */
  worker(settings: Settings, chain: ModelChain): PayoutChain
  /** An intent that asks for a signature; the number chooses what a thief changes in it. */
  intent(wanted: Wanted, a: number): object
  /** As the worker stores it of this transaction. */
  feeDetails(raw: string): object
  /** An address of somebody else. */
  outsider(n: number): string
  /** Begins a withdrawal of the operator's, where outputs are chosen for it. */
  withdraw?(db: pg.Pool, settings: Settings, amount: bigint): Promise<unknown>
  /** Makes the base's chain one of this kind. */
  prepare?: string
}
