// What a family of chains is to payouts: a folder here, and one line in families.ts.
import type {Logger} from '../../base/log.ts'
import type {CommonSettings} from '../../chains/chain-settings.ts'
import type {PayoutChain} from './context.ts'

export interface PayoutFamily<S extends CommonSettings> {
  /** A chain that has a node. */
  open(settings: S, log: Logger): PayoutChain
}
