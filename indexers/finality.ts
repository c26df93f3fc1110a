// Moves the final height of a chain. Promises: a block becomes final only when the node names its hash and we hold the same one; time
// alone, or a height alone, never makes anything final; a fork below our final block is believed only after it was seen several times
// in a row, because a lagging node behind a balancer looks the same once.
import type {BlockRef, ChainCursor, Cursor} from './cursor.ts'

/** What a chain's node must be able to tell. */
export interface FinalitySource {
  /** The newest block that the node, or the chain's rule of N confirmations, calls final; undefined if it cannot say. */
  finalBlock(): Promise<BlockRef | undefined>
  /** How many blocks of our own chain a final one must count, itself included; 1 where the node's word is enough. */
  confirmations: number
  /** The hash at a height; undefined where the node has no block. */
  hashAt(height: number): Promise<string | undefined>
}

/** While catching up, a block this far below the node's final one is final too, if the node has both when asked for them. */
const burialBlocks = 128

/** How often in a row a fork below our final block must be seen. */
export const threshold = 5

/** Looks once, and moves the final height if it can. */
export async function advanceFinality(source: FinalitySource, cursor: ChainCursor): Promise<void> {
  const final = await source.finalBlock()
  const at = await cursor.read()
  if (!final || !at || final.height <= at.finalHeight) return
  // Our own chain must be as long, too: behind a balancer, head and final block may be the words of two nodes on two forks.
  const confirmed = at.headHeight - source.confirmations + 1
  if (final.height <= confirmed) {
    await cursor.finalize(final.height, final.hash)
    return
  }
  const deep = final.height <= at.headHeight ? confirmed : Math.min(confirmed, final.height - burialBlocks)
  const buried = await cursor.newestBlock(deep)
  if (!buried || buried.height <= at.finalHeight) return
  if ((await source.hashAt(final.height)) !== final.hash) return // a height that is far too high would bury everything
  if ((await source.hashAt(buried.height)) === buried.hash) await cursor.finalize(buried.height, buried.hash)
}

/** What the node shows at our final height. A node that has no block there lags, which proves nothing. */
export async function finalBlockAtNode(
  source: FinalitySource,
  at: Cursor,
): Promise<'same' | 'unknown' | {theirs: string}> {
  const theirs = await source.hashAt(at.finalHeight)
  if (theirs === at.finalHash) return 'same'
  return theirs ? {theirs} : 'unknown'
}
