// What a family of chains is to payouts, and to an operator who moves money of his own: a folder here, and one line in families.ts.
import type pg from 'pg'
import type {Logger} from '../../base/log.ts'
import type {CommonSettings} from '../../chains/chain-settings.ts'
import type {PayoutChain} from './context.ts'

export interface PayoutFamily<S extends CommonSettings> {
  /** A chain that has a node. */
  open(settings: S, log: Logger): PayoutChain
  /** Whether a node has to be asked before a withdrawal begins. */
  asksBeforeWithdrawal: boolean
  /** Begins a withdrawal of the operator's own money; its id. Custody asks the whitelist again, and the limits. */
  beginWithdrawal(db: pg.Client, settings: S, withdrawal: Withdrawal): Promise<string>
  /**
   * Has an unconfirmed payment of somebody else to us mined sooner, by a transaction that pays for both. Custody reads again whose the money is, and
   * that it is not final. Absent where no transaction can pay for another one.
   */
  beginCpfp?(db: pg.Client, settings: S, of: {txid: string; feeRate: number}): Promise<Cpfp>
}

export interface Withdrawal {
  token: string
  /** In base units. */
  amount: bigint
  /** In its display form. */
  to: string
}

export interface Cpfp {
  id: string
  fee: bigint
  /** What is left after it, for the treasury. */
  amount: bigint
}
