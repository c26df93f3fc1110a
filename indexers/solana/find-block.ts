// Finds the block of a height, whose slot the node alone knows. Promises: what is found has this height by the node's
// own word; nothing is concluded from what a node leaves out. Heights rise by one, slots by one or more, so two blocks
// of a chain bound the slots of those between them.
import {eachOf} from '../../base/each-of.ts'
import {RetryableError} from '../../base/errors.ts'
import {type Commitment, type Header, Pruned, type SolanaNode} from '../../chains/solana/client.ts'
import type {Line} from './line.ts'

/** Blocks this far below the newest are on every fork. */
const settled = 200
/** Up to so many heights it is cheaper to go from parent to parent. */
const fewHeights = 8
const mostSteps = 60
/** Nodes keep more blocks than these. */
const surelyKept = 1000

interface Place {
  slot: number
  height: number
}

const firstOfAll: Place = {slot: 0, height: 0}

export class BlockFinder {
  readonly #node: SolanaNode
  readonly #commitment: Commitment
  readonly #line: Line

  constructor(node: SolanaNode, commitment: Commitment, line: Line) {
    this.#node = node
    this.#commitment = commitment
    this.#line = line
  }

  /**
   * Undefined if the node's chain is not as high. Throws RetryableError if the node does not show the block now, and
   * Pruned if it no longer has it.
   */
  async find(height: number): Promise<Header | undefined> {
    const known = this.#line.at(height)
    const there = known && (await this.#header(known.slot))
    if (there?.height === height) return there
    const top = await this.#node.latest(this.#commitment)
    if (height > top.height) return undefined
    const {low, high} = this.#line.around(height, top.height - settled)
    const found = await this.#search(height, await this.#lowest(height, top, low), high ?? top)
    if (found) return found
    await this.#lowestKept(height)
    throw new RetryableError(`the node does not show block ${height} now`)
  }

  /** The block at a height on the chain of a block above; undefined if the node does not show one between them now. */
  async descend(from: Header, height: number): Promise<Header | undefined> {
    let at: Header | undefined = from
    while (at && at.height > height) {
      const {parentHash, parentSlot}: Header = at
      const parent: Header | undefined = this.#line.parent(at) ?? (await this.#header(parentSlot))
      at = parent?.hash === parentHash ? parent : undefined
    }
    return at?.height === height ? at : undefined
  }

  /** Notes the blocks in the slots below a block that the node lists, as many as there are heights, some at a time. */
  async prefetch(top: Header, heights: number): Promise<void> {
    const listed = await this.#node.slots(Math.max(0, top.slot - 2 * heights - 16), top.slot - 1, this.#commitment)
    await eachOf(listed.slice(-heights), slot => this.#header(slot))
  }

  /** A block at or below a height. */
  async #lowest(height: number, top: Place, seen: Place | undefined): Promise<Place> {
    if (seen) return seen
    return top.height - height < surelyKept ? firstOfAll : await this.#lowestKept(height)
  }

  /** The lowest block that the node has. Throws Pruned if it is above a height. */
  async #lowestKept(height: number): Promise<Place> {
    const slot = await this.#node.firstSlot()
    const first = slot === 0 ? firstOfAll : await this.#firstIn(slot, slot + surelyKept)
    if (!first) throw new RetryableError(`the node does not show its first block, in slot ${slot}`)
    if (first.height <= height) return first
    throw new Pruned(`the node has no block below height ${first.height} (slot ${slot})`)
  }

  async #search(height: number, low: Place, high: Place): Promise<Header | undefined> {
    for (let step = 1; step <= mostSteps; step++) {
      const least = low.slot + height - low.height
      const most = high.slot - (high.height - height)
      if (least > most) return undefined // the node contradicts itself
      const share = step % 3 === 0 ? 0.5 : (height - low.height) / Math.max(1, high.height - low.height)
      const guess = Math.min(most, Math.max(least, Math.round(low.slot + share * (high.slot - low.slot))))
      const found = await this.#firstIn(guess, most)
      if (found && found.height >= height && found.height - height <= fewHeights)
        return await this.descend(found, height)
      if (found && found.height < height) low = found
      else high = {slot: guess - 1, height: found ? found.height - 1 : height} // it is not in these slots
    }
    return undefined
  }

  /** The first block that the node shows in these slots. */
  async #firstIn(from: number, to: number): Promise<Header | undefined> {
    const near = await this.#node.slots(from, Math.min(to, from + 127), this.#commitment)
    const listed = near.length || to <= from + 127 ? near : await this.#node.slots(from, to, this.#commitment)
    for (const slot of listed.slice(0, 3)) {
      const header = await this.#header(slot)
      if (header) return header
    }
    return undefined
  }

  async #header(slot: number): Promise<Header | undefined> {
    const header = await this.#node.header(slot, this.#commitment)
    if (header) this.#line.note(header)
    return header
  }
}
