// Moves the final height of a chain. Promises: a block becomes final only if the node returns its hash and ours is the
// same. Time alone, or a height alone, makes nothing final. A fork below our final block is believed only after several
// observations in a row, because a lagging node behind a balancer can look the same once.
import type {BlockRef, ChainCursor, Cursor} from './cursor.ts'

/** What a chain's node must provide. */
export interface FinalitySource {
  /**
   * The newest block that the node, or the chain's rule of N confirmations, calls final; undefined if it cannot say.
   */
  finalBlock(): Promise<BlockRef | undefined>
  /**
   * The confirmations that a final block needs on our own chain, itself included; 1 if the node's statement is enough.
   */
  confirmations: number
  /** The hash at a height; undefined if the node has no block there. */
  hashAt(height: number): Promise<string | undefined>
}

/** While catching up, a block this far below the node's final block is final too, if the node has both. */
const burialBlocks = 128

/** How many observations in a row of a fork below our final block count. */
export const threshold = 5

/** Polls once, and moves the final height if it can. `before`: our position, if it was read just before. */
export async function advanceFinality(source: FinalitySource, cursor: ChainCursor, before?: Cursor): Promise<void> {
  const final = await source.finalBlock()
  if (!final || (before && final.height <= before.finalHeight)) return
  const at = await cursor.read() // once the node has answered, so that ours is as new
  if (!at || final.height <= at.finalHeight) return
  // Our own chain must be long enough too: behind a balancer, head and final block may come from two nodes on two
  // forks.
  const confirmed = at.headHeight - source.confirmations + 1
  if (final.height <= confirmed) {
    await cursor.finalise(final.height, final.hash)
    return
  }
  const deep = final.height <= at.headHeight ? confirmed : Math.min(confirmed, final.height - burialBlocks)
  const buried = await cursor.newestBlock(deep)
  if (!buried || buried.height <= at.finalHeight) return
  if ((await source.hashAt(final.height)) !== final.hash) return // otherwise a height that is far too high would make everything final
  if ((await source.hashAt(buried.height)) === buried.hash) await cursor.finalise(buried.height, buried.hash)
}

/** The node's block at our final height. If the node has no block there, it lags, which proves nothing. */
export async function finalBlockAtNode(
  source: FinalitySource,
  at: Cursor,
): Promise<'same' | 'unknown' | {theirs: string}> {
  const theirs = await source.hashAt(at.finalHeight)
  if (theirs === at.finalHash) return 'same'
  return theirs ? {theirs} : 'unknown'
}
