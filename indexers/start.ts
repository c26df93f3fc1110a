// Where following a chain begins, at its first start. Promises: no later than the newest block that was there before the first address of the
// chain's family was handed out, so that no payment to one is missed, however long the node was away, or the chain not configured; from a
// later one only where an operator has said so (sluice chain start --accept-gap); where neither can be, it does not begin, and says why.
//
// What is known is a time, that of the first address; what is needed is a height. Headers are searched for it, with few questions: a block is
// early enough if the median time of it and of those below it (how many, the chain says) is, less a margin. Medians never fall, single times
// may. One honest miner among those whose time is not above the median is enough: the block that is taken is not above any of them.
import {RetryableError} from '../base/errors.ts'
import type {Failure} from '../db/failure.ts'
import type {BlockRef, ChainCursor} from './cursor.ts'
import type {ChainView} from './family.ts'

/** Why a chain is not followed now, for programs. */
export type WaitingReason =
  | 'node_unavailable'
  | Failure['reason']
  | 'node_behind'
  | 'wrong_network'
  | 'token_refused'
  | 'fork'
  | 'custody_not_started'
  | 'start_unknown'
  | 'start_height_too_high'
  | 'blocks_missing'

/** What keeps a chain from being followed, and does not go away at once. */
export class Waiting extends RetryableError {
  override name = 'Waiting'
  readonly reason: WaitingReason
  /** The first block that is to be read, where that is known. */
  readonly firstHeight: number | undefined

  constructor(reason: WaitingReason, message: string, firstHeight?: number) {
    super(message)
    this.reason = reason
    this.firstHeight = firstHeight
  }
}

export interface StartOptions {
  /** What the settings say. */
  startHeight?: number | undefined
}

/** The block above which the chain is read. Throws Waiting where it cannot begin yet. */
export async function startingBlock(
  source: ChainView,
  cursor: ChainCursor,
  {startHeight}: StartOptions,
): Promise<BlockRef & {time: Date}> {
  const {chain} = cursor
  const accepted = await cursor.acceptedStart()
  const final = await source.finalBlock() // before the addresses are looked at: those that come later were paid later
  let height: number
  if (accepted !== undefined) height = accepted - 1
  else if (startHeight !== undefined && startHeight <= 1) height = 0
  else if (final) height = await latestStart(source, cursor, final.height, startHeight)
  else throw new Waiting('node_unavailable', 'the node does not name a final block')

  if (final && height > final.height) {
    const message = `the chain is to be followed from ${height + 1} on, and the final block is ${final.height}`
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
      'custody has made no addresses of this chain yet; it is followed from then on',
    )
  if (at === Number.NEGATIVE_INFINITY)
    throw new Waiting(
      'start_unknown',
      "custody's seed is older than this database, so addresses of it may have been paid before, and nobody knows since when: " +
        `set ${chain}_START_HEIGHT=1 to read the whole chain, or name the first block to read: ${acceptGap(chain)}`,
    )
  const {height: start, isMissing} = await newestSurelyBefore(source, finalHeight, at)
  if (isMissing) throw missing(chain, start, 'it has no such block')
  if (startHeight === undefined) return start
  if (startHeight - 1 <= start) return startHeight - 1
  throw new Waiting(
    'start_height_too_high',
    `${chain}_START_HEIGHT is ${startHeight}, and blocks from ${start + 1} on may pay to addresses that were handed out before it (the first one ` +
      `at ${new Date(at).toISOString()}): set it to ${start + 1}, or to nothing; or, if what was paid before may be missed, ${acceptGap(chain)}`,
    start + 1,
  )
}

function missing(chain: string, height: number, why: string, firstHeight?: number): Waiting {
  return new Waiting(
    'blocks_missing',
    `block ${height} may pay to addresses of ours, and the node does not give it (${why}): name a node that has it; or, if what was paid ` +
      `before a later one may be missed, ${acceptGap(chain)}`,
    firstHeight,
  )
}

const acceptGap = (chain: string) => `sluice chain start --chain ${chain} --from HEIGHT --accept-gap`

interface Found {
  height: number
  /** It could not be asked for its time; those above it are too late. */
  isMissing: boolean
}

/** The highest block, at most `top`, of which the times of blocks show that it was there before a moment; 0 if there is none. */
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
 * The highest height, at most `top`, whose time is not after `before`; 0, which is never asked for, if there is none. Times never fall with the
 * height. What has no time is missing, and is taken to lie below everything that is there.
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
  for (let step = 1; await isLate(high - step); step *= 2) high -= step // as a rule it is near the head
  while (high - low.height > 1) {
    const middle = low.height + Math.floor((high - low.height) / 2)
    if (await isLate(middle)) high = middle
  }
  return low
}
