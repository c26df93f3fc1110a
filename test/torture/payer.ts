// Pays the merchant's users on one chain in every way, and makes the chain's faults. Every transaction is recorded
// before it is sent; at the end the chain says what became of it.
import {setTimeout as sleep} from 'node:timers/promises'
import type {ChainCode} from '../../chains/registry.ts'
import type {Random} from './random.ts'
import type {Ours, Truth} from './truth.ts'

export interface Payer {
  readonly chain: ChainCode
  readonly counts: Record<string, number>
  /**
   * Prepares accounts, makes the first payments final, and gives the treasury what it needs besides the supervisor's
   * coins.
   */
  begin(treasury: string): Promise<void>
  /** Pays and makes faults until `stopped`. */
  actors(stopped: AbortSignal): Promise<void>[]
  /** A foreign address, of any kind that the service pays to. */
  newAddress(random: Random): string
  /** The height at or below which every payment is; undefined while some wait to be mined. */
  lastHeight(): Promise<number | undefined>
  /** The truth of the chain. It no longer changes: none of our transactions waits, and all of them are final. */
  truth(ours: Ours): Promise<Truth>
  /**
   * Whether the chain may have made the service believe that a payment would never confirm, or no longer be confirmed.
   */
  mayBeReorged(txid: string): boolean
}

/**
 * Runs `work` again and again until `stopped`, with pauses of at most `mostMs`, and counts it. A chain that is down is
 * no mistake.
 */
export async function often(
  {counts}: Pick<Payer, 'counts'>,
  what: string,
  {stopped, random, mostMs}: {stopped: AbortSignal; random: Random; mostMs: number},
  work: () => Promise<unknown>,
): Promise<void> {
  while (!stopped.aborted) {
    await sleep(random.between(50, mostMs))
    const done = await work().then(
      () => what,
      () => `${what} that failed`,
    )
    counts[done] = (counts[done] ?? 0) + 1
  }
}
