// What the families differ in whose chains have accounts, not outputs (flow.ts). All amounts are in base units.
import type {CommonSettings} from '../../../chains/chain-settings.ts'
import type {Context, Payout, Wait} from '../context.ts'
import type {Holding, Sweep} from './holdings.ts'

export interface Rules {
  settings: CommonSettings
  /** About how many addresses a node is asked at once. */
  atOnce: number
  /** What transactions cost at this moment; or why nothing is begun or signed. */
  now(to: Context): Promise<Now | Wait>
  /** The fee of a payment, or why it is not begun. Absent where none needs more than the reserve. */
  estimate?(to: Context, payment: Payment): Promise<bigint | Wait>
  /** The most that a sweep of a token may cost; absent where there are no tokens. */
  maxTokenSweepFee?: bigint
  /** Why nothing can be swept to the treasury now; `from`: one of the addresses, and what would go. */
  cannotSweep(to: Context, of: Sweeping & {from: {address: string; amount: bigint}}): Promise<Wait | undefined>
  /** Why the recipient cannot be paid this much, as far as that is known before there is a payment. */
  unpayable(payment: Payment): Promise<Wait | undefined>
  /** What the treasury lacks for a payout, in words of the family; absent: as SQL said it. */
  shortOf?(to: Context, payout: Payout, short: string): Promise<Wait>
  /** What else the family does now and then, whatever is paid. */
  tend?(to: Context): Promise<void>
}

export interface Now {
  /** What the treasury must have besides the amount of a payment, in the chain's coin. */
  reserve: bigint
  /**
   * No payment costs less: the node need not be asked for an estimate if the treasury lacks this. Absent without
   * estimates.
   */
  leastFee?: bigint
  /** The most that sending an address gas costs; absent where none needs any. */
  fundFee?: bigint
  /** The most that lending an address energy costs, and how much may be lent at once; absent where none is lent. */
  delegates?: {fee: bigint; mostLent: bigint}
  /** What a sweep of an address is likely to cost, with its gas, before a node is asked about it. */
  likelySweepFee(token: string): bigint
  /**
   * What a sweep of each holding moves and may cost; undefined for one that has just changed. It may be too little to
   * be worth it.
   */
  sweeps(to: Context, of: Sweeping, holdings: Holding[]): Promise<(Sweep | undefined)[]>
}

/** What is swept, and to where. */
export interface Sweeping {
  token: string
  treasury: string
}

export interface Payment {
  token: string
  amount: bigint
  /** The treasury. */
  source: string
  recipient: string
}

export const isWait = (found: object): found is Wait => 'ms' in found
