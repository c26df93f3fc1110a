// Follows a chain: a short loop that copies blocks from any ChainSource into the store. Promises: at every moment, the
// stored blocks are one linked chain that the source has shown; whatever the source does, the loop continues from what
// is stored, or ends and says why.
//
// These invariants hold for any source, even one that lags, repeats itself, returns nothing, fails, mixes forks, or is
// on another network:
//   1. `#tracked` mirrors the store: first the newest block that the store cannot undo, then the blocks that it can. On
//      any error it is cleared and read again. So only the store decides whether a commit happened.
//   2. A block is written only if it links to the block before it, down to the first block that was followed. So each
//      round compares the stored head with the source: by its hash, or by the parent hash of the block above it.
//   3. One transaction removes blocks and inserts their replacements. A replacement ends no lower than the blocks that
//      it replaces.
//   4. A final block stays. Nothing is written on a fork without the final block, on another network, or on a fork
//      deeper than the store can undo. Repeated observations of one end the loop; resume.ts then judges it at the next
//      start.
//   5. What the source learns late about a block is written at that block's height, in the same order, final or not.
//      The rows that were there before are written again in the same transaction, which makes no event.
// Finality is decided elsewhere, by one rule for all chains (finality.ts). chain.cursor has the head, its age and the
// reorganisations.
import assert from 'node:assert/strict'
import {setTimeout as sleep} from 'node:timers/promises'
import type {Store} from '@subsquid/typeorm-store'
import {RetryableError} from '../base/errors.ts'
import type {Logger} from '../base/log.ts'
import type {ReadBlock} from './block.ts'
import type {BlockRef, ChainCursor, Cursor} from './cursor.ts'
import type {ChainView} from './family.ts'
import {threshold} from './finality.ts'
import {failedRounds} from './metrics.ts'
import {slower} from './pace.ts'
import type {ChainDatabase} from './subsquid/store.ts'
import {whyOf} from './waits.ts'

/**
 * What a chain must provide to be followed. Every call ends within a timeout of its own; any response may be stale or
 * wrong.
 */
export interface ChainSource extends ChainView {
  /** The newest block. */
  head(): Promise<BlockRef>
  /** Up to `limit` blocks above a height, ascending, each linked to the one before. Heights may have holes. */
  blocksAbove(height: number, limit: number): Promise<ReadBlock[]>
  /**
   * Resolves when a new poll may find something; undefined while the source cannot tell. The loop also polls at
   * intervals, but less often while it is told.
   */
  changed?(signal: AbortSignal): Promise<void> | undefined
  /** How long to wait until a poll may find the next block, where that is known better than by `pollMs`. */
  pauseMs?(pollMs: number): number
  /** The lowest height of a block, returned before, that the source now knows more about. Each one is returned once. */
  takeInvalidatedHeight?(): number | undefined
}

/** The blocks of the source cannot be followed. One observation proves nothing: a node that lags looks the same. */
export class CannotFollow extends RetryableError {
  override name = 'CannotFollow'
}

export interface FollowOptions {
  database: ChainDatabase
  cursor: ChainCursor
  source: ChainSource
  /** What `source.network()` must return. */
  network: string
  write: (store: Store, blocks: ReadBlock[]) => Promise<void>
  log: Logger
  /** How often the source is polled when it reports no change. */
  pollMs: number
  retryMs?: number
  /** For how long rounds fail before status and /readyz say why. */
  quietMs?: number
  /** Blocks per transaction, at most 199. */
  batch?: number
  /**
   * The store can undo this many blocks below the source's head, or all blocks that are not final if those are fewer.
   */
  horizon?: number
}

/** With more new undoable blocks than this in one call, the store keeps only some of their rows. */
const storeLimit = 199

/** Follows the chain until the signal. Rejects with CannotFollow after `threshold` such rounds in a row. */
export async function follow(options: FollowOptions, signal: AbortSignal): Promise<void> {
  const {source, cursor, log, pollMs, retryMs = 1000, quietMs: afterMs = 20_000} = options
  const follower = new Follower(options)
  for (let observations = 0; !signal.aborted; ) {
    const over = new AbortController()
    const changed = source.changed?.(AbortSignal.any([signal, over.signal])) // subscribed before the poll, so no change is missed in between
    try {
      const moved = await follower.round()
      observations = 0
      await cursor.waits.end('reading')
      const pauseMs = () => (changed ? slower * pollMs : (source.pauseMs?.(pollMs) ?? pollMs))
      const poll = () => sleep(pauseMs(), undefined, {signal: over.signal})
      if (!moved) await Promise.race([poll(), ...(changed ? [changed] : [])])
    } catch (error) {
      failedRounds.inc({chain: cursor.chain})
      if (error instanceof CannotFollow && ++observations >= threshold) throw error
      await cursor.waits.tell('reading', whyOf(error), {log, afterMs})
      await follower.forget()
      await sleep(retryMs)
    } finally {
      over.abort()
    }
  }
  await follower.forget()
}

export class Follower {
  readonly #options: FollowOptions
  #tracked: BlockRef[] = []
  /** Blocks from this height on must be written again. Survives errors. */
  #invalidatedHeight = Number.POSITIVE_INFINITY

  constructor(options: FollowOptions) {
    this.#options = options
  }

  /** Undefined until the store has been read. */
  get tip(): BlockRef | undefined {
    return this.#tracked.at(-1)
  }

  async forget(): Promise<void> {
    this.#tracked = []
    await this.#options.database.disconnect().catch(() => {})
  }

  /** Polls the source once and runs at most one transaction. Returns true if there may be more to do at once. */
  async round(): Promise<boolean> {
    const {source, cursor} = this.#options
    if (!this.#tracked.length) await this.#connect()
    const head = await source.head()
    this.#invalidatedHeight = Math.min(
      this.#invalidatedHeight,
      source.takeInvalidatedHeight?.() ?? Number.POSITIVE_INFINITY,
    )
    if (this.#invalidatedHeight <= this.#tracked[0]!.height) return this.#writeLate(this.#invalidatedHeight)

    const {base, blocks} = await this.#next(head)
    const next = [...this.#tracked.slice(0, base + 1), ...blocks.map(ref)]
    if (!blocks.length || (next.at(-1)!.height < this.tip!.height && blocks.length < storeLimit)) return false // invariant 3
    const at = await cursor.read()
    assert(at, 'a chain is anchored before it is followed')
    this.#assertFollows(next, at)
    const buried = (await this.#believed(head, next.at(-1)!)) - (this.#options.horizon ?? 100)
    await this.#write(base, next, Math.max(at.finalHeight, buried), blocks)
    this.#invalidatedHeight = Number.POSITIVE_INFINITY
    return this.tip!.hash !== head.hash
  }

  /** How high the chain is: the height of its head if the source has that block, else the height of `top`. */
  async #believed(head: BlockRef, top: BlockRef): Promise<number> {
    if (head.height <= top.height) return top.height
    return (await this.#options.source.hashAt(head.height)) === head.hash ? head.height : top.height
  }

  async #connect(): Promise<void> {
    const {database, source, network} = this.#options
    const responded = await source.network()
    if (responded !== network) throw new CannotFollow(`the node is on ${responded}, expected ${network}`)
    await database.disconnect()
    const {height, hash, top} = await database.connect()
    this.#tracked = [{height, hash}, ...top.map(ref)]
  }

  /**
   * The blocks to write next, and `base`: the index in `#tracked` of the newest block that the source has too and that
   * stays as it is.
   */
  async #next(head: BlockRef): Promise<{base: number; blocks: ReadBlock[]}> {
    const {source, batch = 100} = this.#options
    const base = this.#tracked.length - 1
    const tip = this.tip!
    if (this.#invalidatedHeight <= tip.height)
      return this.#replacement(this.#tracked.findLastIndex(({height}) => height < this.#invalidatedHeight))
    if (head.height < tip.height || (head.height === tip.height && head.hash === tip.hash)) return {base, blocks: []} // it may lag
    if (head.height === tip.height) return this.#replacement(base)
    const blocks = await source.blocksAbove(tip.height, Math.min(batch, storeLimit))
    if (blocks.length && blocks[0]!.parentHash !== tip.hash) return this.#replacement(base)
    return {base, blocks: linked(tip, blocks)}
  }

  /**
   * The blocks that replace ours above the newest block, at index `highest` or lower, that is on the source's chain.
   */
  async #replacement(highest: number): Promise<{base: number; blocks: ReadBlock[]}> {
    const {source} = this.#options
    const theirs = await source.hashesAt(this.#tracked.slice(0, highest + 1).map(({height}) => height))
    const base = this.#tracked.findLastIndex(({hash}, i) => i <= highest && theirs[i] === hash)
    if (base < 0)
      throw new CannotFollow(`block ${this.#tracked[0]!.height} (${this.#tracked[0]!.hash}) is not on the node's chain`)
    const blocks: ReadBlock[] = []
    while (blocks.length < storeLimit && (blocks.at(-1)?.height ?? -1) < this.tip!.height) {
      const more = await source.blocksAbove((blocks.at(-1) ?? this.#tracked[base]!).height, storeLimit - blocks.length)
      if (!more.length) break
      blocks.push(...more)
    }
    return {base, blocks: linked(this.#tracked[base]!, blocks)}
  }

  #assertFollows(next: BlockRef[], at: Cursor): void {
    if (at.finalHeight < next[0]!.height || next.some(({hash}) => hash === at.finalHash)) return
    throw new CannotFollow(`final block ${at.finalHeight} (${at.finalHash}) is not on the node's chain`)
  }

  /** The store cannot undo blocks at or below `fixedHeight` afterwards. */
  async #write(base: number, next: BlockRef[], fixedHeight: number, blocks: ReadBlock[]): Promise<void> {
    const fixed = Math.max(
      0,
      next.findLastIndex(({height}) => height <= fixedHeight),
    )
    assert(linked(next[base]!, blocks).length === blocks.length && blocks.length <= storeLimit)
    await this.#options.database.transactHot2(
      {baseHead: next[base]!, newBlocks: blocks.map(ref), finalizedHead: ref(next[fixed]!)},
      (store, from, to) => this.#options.write(store, blocks.slice(from, to)),
    )
    this.#tracked = next.slice(fixed)
  }

  /** Deletes blocks that the store cannot undo and inserts them again with what is known about them now. */
  async #writeLate(from: number): Promise<boolean> {
    const {database, cursor, source, write} = this.#options
    const fixedHeight = this.#tracked[0]!.height
    const ours = (await cursor.blocksFrom(0)).filter(({height}) => height <= fixedHeight).reverse() // older ones were deleted
    const [base, ...stored] = ours.slice(
      Math.max(
        0,
        ours.findLastIndex(({height}) => height < from),
      ),
    )
    const blocks = await source.blocksAbove(base!.height, Math.min(stored.length, storeLimit))
    if (stored.length && !blocks.length) throw new RetryableError(`the node has no block above ${base!.height}`)
    const same = linked(base!, blocks).filter(({hash}, i) => hash === stored[i]?.hash)
    if (stored.length && !same.length)
      throw new CannotFollow(`block ${stored[0]!.height} (${stored[0]!.hash}) is not on the node's chain`)
    await database.replace(
      same.map(({height}) => height),
      store => write(store, same),
    )
    this.#invalidatedHeight = (same.at(-1) ?? base!).height + 1
    return true
  }
}

/** The leading blocks that form one chain on top of `base`. */
function linked(base: BlockRef, blocks: ReadBlock[]): ReadBlock[] {
  const parents = [base, ...blocks]
  const broken = blocks.findIndex(
    (block, i) => block.parentHash !== parents[i]!.hash || block.height <= parents[i]!.height,
  )
  return broken < 0 ? blocks : blocks.slice(0, broken)
}

const ref = ({height, hash}: BlockRef): BlockRef => ({height, hash})
