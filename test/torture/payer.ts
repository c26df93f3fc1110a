// Somebody who pays the merchant's users on one chain, in every way there is, and the chain's bad luck. Every transaction is written down
// before it is sent; what became of it is asked of the chain at the end.
import type {ChainCode} from '../../chains/registry.ts'
import type {Random} from './random.ts'
import type {Ours, Truth} from './truth.ts'

export interface Payer {
  readonly chain: ChainCode
  readonly counts: Record<string, number>
  /** Makes ready, and makes the first payments, which become final; and gives the treasury what it needs besides the supervisor's coins. */
  begin(treasury: string): Promise<void>
  /** Everything it does, until `stopped`. */
  actors(stopped: AbortSignal): Promise<void>[]
  /** An address of nobody, of any kind that the service pays to. */
  newAddress(random: Random): string
  /** The height at or below which every payment is; undefined while some wait to be mined. */
  lastHeight(): Promise<number | undefined>
  /** What the chain itself says. It does not change any more: nothing of ours waits, and everything of ours is final. */
  truth(ours: Ours): Promise<Truth>
  /** Whether the chain may have made the service believe that a payment would never be mined, or not be mined any more. */
  mayBeReorged(txid: string): boolean
}
