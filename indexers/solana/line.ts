// Blocks that were seen, by height, each with its slot. Promises: what is said to be below a block is linked to it by
// hashes, so it is on the chain of whoever shows that block. The slot of a height alone is a hint: forks have others.
import type {Header} from '../../chains/solana/responses.ts'

const mostBlocks = 4000

export class Line {
  readonly #seen = new Map<number, Header>()

  note({slot, height, hash, parentSlot, parentHash, time}: Header): void {
    this.#seen.delete(height) // the newest come last
    this.#seen.set(height, {slot, height, hash, parentSlot, parentHash, time})
    if (this.#seen.size <= mostBlocks) return
    const [oldest] = this.#seen.keys()
    this.#seen.delete(oldest!)
  }

  at(height: number): Header | undefined {
    return this.#seen.get(height)
  }

  /** The block at a height on the chain of `top`; undefined if a block between them was not seen. */
  below(top: Header, height: number): Header | undefined {
    let at: Header | undefined = top
    while (at && at.height > height) at = this.parent(at)
    return at?.height === height ? at : undefined
  }

  parent({height, parentHash}: Header): Header | undefined {
    const seen = this.#seen.get(height - 1)
    return seen?.hash === parentHash ? seen : undefined
  }

  /** The nearest blocks at or below a height, and at or above it, that are not above `highest`. */
  around(height: number, highest: number): {low: Header | undefined; high: Header | undefined} {
    let [low, high]: (Header | undefined)[] = []
    for (const seen of this.#seen.values()) {
      if (seen.height > highest) continue
      if (seen.height <= height && seen.height >= (low?.height ?? 0)) low = seen
      if (seen.height >= height && seen.height <= (high?.height ?? highest)) high = seen
    }
    return {low, high}
  }
}
