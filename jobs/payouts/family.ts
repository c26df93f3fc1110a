// What a family of chains provides for payouts, and for operators who move their own money: a folder here, and one line
// in families.ts.
import type pg from 'pg'
import type {Logger} from '../../base/log.ts'
import type {CommonSettings} from '../../chains/chain-settings.ts'
import type {PayoutChain} from './context.ts'

export interface PayoutFamily<S extends CommonSettings> {
  /** For a chain that has a node. */
  open(settings: S, log: Logger): PayoutChain
  /**
   * Begins a withdrawal of the operator's own money, after the node was asked whether that can be paid; returns its id.
   * Custody checks the whitelist again, and the limits.
   */
  beginWithdrawal(db: pg.Client, settings: S, withdrawal: Withdrawal): Promise<string>
  /**
   * Begins to stake the operator's own coins, or to unstake some; returns the id. Absent where nothing is staked.
   */
  beginStaking?(db: pg.Client, settings: S, staking: Staking): Promise<string>
  /** Books what the treasury has staked by the node. Resolves to what was booked, in words. */
  recountStake?(db: pg.Client, settings: S): Promise<string[]>
  /**
   * Speeds up an unconfirmed incoming payment with a child transaction (CPFP). Custody checks again whose money it is,
   * and that it is not final. Absent where no transaction can pay for another one.
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

export interface Staking {
  kind: 'stake' | 'unstake'
  resource: 'energy' | 'bandwidth'
  /** In base units. */
  amount: bigint
}

export interface Cpfp {
  id: string
  fee: bigint
  /** What is left for the treasury after the fee. */
  amount: bigint
}
