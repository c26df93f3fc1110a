// Where following a chain begins at its first start. Promises: it begins at the newest block that existed before the
// first address of the chain's family was handed out, or lower. So no payment to an address is missed, however long the
// node was away or the chain was not configured. It begins higher only if an operator accepted that (sluice chain start
// --accept-gap). If neither is possible, it does not begin, and says why.
//
// The time of the first address is known; a height is needed. A search through headers finds it with few requests. A
// block is early enough if the median time of it and the blocks below it (the chain says how many) is before that time,
// minus a margin. Medians never fall; single times may. One honest miner among those whose time is not above the median
// is enough: the chosen block is not above any of them.
import type {BlockRef, ChainCursor} from './cursor.ts'
import type {ChainView} from './family.ts'
import {Waiting} from './waits.ts'

export interface StartOptions {
  /** The start height in the settings. */
  startHeight?: number | undefined
}

/** The block above which the chain is read. Throws Waiting if it cannot begin yet. */
export async function startingBlock(
  source: ChainView,
  cursor: ChainCursor,
  {startHeight}: StartOptions,
): Promise<BlockRef & {time: Date}> {
  const {chain} = cursor
  const accepted = await cursor.acceptedStart()
  const final = await source.finalBlock() // read before the addresses: later addresses are paid in later blocks
  let height: number
  if (accepted !== undefined) height = accepted - 1
  else if (startHeight !== undefined && startHeight <= 1) height = 0
  else if (final) height = await latestStart(source, cursor, final.height, startHeight)
  else throw new Waiting('node_unavailable', 'the node does not name a final block')

  if (final && height > final.height) {
    const message = `the chain must be followed from block ${height + 1} on, but the node's final block is ${final.height}`
    throw new Waiting('node_behind', message)
  }
  const first = height + 1
  const needed = accepted === undefined ? first : undefined
  const block = await source.blockAt(height)
  if (!block) throw missing(chain, first, `it has no block ${height}`, needed)
  const why = final && final.height > height ? await source.lacks(first) : undefined
  if (why !== undefined) throw missing(chain, first, why, needed)
  return block
}

async function latestStart(
  source: ChainView,
  cursor: ChainCursor,
  finalHeight: number,
  startHeight?: number,
): Promise<number> {
  const {chain} = cursor
  const at = await cursor.firstAddressAt()
  if (at === undefined)
    throw new Waiting(
      'custody_not_started',
      'custody has made no addresses of this chain yet; the chain is followed once it has',
    )
  if (at === Number.NEGATIVE_INFINITY)
    throw new Waiting(
      'start_unknown',
      "custody's seed is older than this database, so its addresses may have been paid at an unknown earlier time: " +
        `set ${chain}_START_HEIGHT=1 to read the whole chain, or name the first block to read: ${acceptGap(chain)}`,
    )
  const {height: start, isMissing} = await newestSurelyBefore(source, finalHeight, at)
  if (isMissing) throw missing(chain, start, 'it has no such block')
  if (startHeight === undefined) return start
  if (startHeight - 1 <= start) return startHeight - 1
  throw new Waiting(
    'start_height_too_high',
    `${chain}_START_HEIGHT is ${startHeight}, and blocks from ${start + 1} on may pay addresses that were handed out before (the first one ` +
      `at ${new Date(at).toISOString()}): set it to ${start + 1} or unset it; or, if earlier payments may be missed, run ${acceptGap(chain)}`,
    start + 1,
  )
}

function missing(chain: string, height: number, why: string, firstHeight?: number): Waiting {
  return new Waiting(
    'blocks_missing',
    `block ${height} may pay addresses of ours, and the node does not return it (${why}): use a node that has this block; or, if payments ` +
      `before a later block may be missed, run ${acceptGap(chain)}`,
    firstHeight,
  )
}

const acceptGap = (chain: string) => `sluice chain start --chain ${chain} --from HEIGHT --accept-gap`

interface Found {
  height: number
  /** The node does not have the block's time; all blocks above it are too late. */
  isMissing: boolean
}

/**
 * The highest block, at most `top`, that existed before a moment according to the times of blocks; 0 if there is none.
 */
export async function newestSurelyBefore(
  source: Pick<ChainView, 'blockAt' | 'blockTimes'>,
  top: number,
  at: number,
): Promise<Found> {
  const {medianOf, marginMs} = source.blockTimes
  const found = await newestBefore(medianTime, top, at - marginMs)
  return found.isMissing ? found : {...found, height: Math.max(found.height - medianOf + 1, 0)}

  async function medianTime(height: number): Promise<number | undefined> {
    const lowest = Math.max(height - medianOf + 1, 0)
    const heights = Array.from({length: height - lowest + 1}, (_, i) => lowest + i)
    const blocks = await Promise.all(heights.map(each => source.blockAt(each)))
    const times = blocks.flatMap(block => block?.time.getTime() ?? [])
    return times.length < blocks.length ? undefined : times.sort((a, b) => a - b)[Math.floor(times.length / 2)]
  }
}

/**
 * The highest height, at most `top`, whose time is not after `before`; 0 if there is none (height 0 is never asked
 * for). Times never fall as heights rise. A block without a time is missing at the node; missing blocks are assumed to
 * lie below all others.
 */
async function newestBefore(
  timeOf: (height: number) => Promise<number | undefined>,
  top: number,
  before: number,
): Promise<Found> {
  let low: Found = {height: 0, isMissing: false}
  const isLate = async (height: number) => {
    if (height <= 0) return false
    const time = await timeOf(height)
    if (time !== undefined && time > before) return true
    low = {height, isMissing: time === undefined}
    return false
  }
  let high = top + 1
  for (let step = 1; await isLate(high - step); step *= 2) high -= step // it is usually near the head
  while (high - low.height > 1) {
    const middle = low.height + Math.floor((high - low.height) / 2)
    if (await isLate(middle)) high = middle
  }
  return low
}
