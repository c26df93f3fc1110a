// The money of payments: each payment has its own purse, so that each can be mined without the others. Two payments of
// one purse exclude each other.
import type {Payment} from './chain.ts'

export class Purses {
  readonly #spentBy = new Map<string, number>()
  #taken = 0

  /** A new purse, or the purse of the payment to exclude. */
  take(insteadOf?: Payment): number {
    return insteadOf ? this.of(insteadOf) : this.#taken++
  }

  spend(purse: number, {txid}: Payment): void {
    this.#spentBy.set(txid, purse)
  }

  of({txid}: Payment): number {
    return this.#spentBy.get(txid)!
  }
}
