// Runs beside the stream of blocks: moves the final height, and notices what the stream cannot. Promises: it returns a
// reason when the stream must be restarted: the head does not move although nothing is waited for, the final block is
// no longer on the node's chain, the chain is halted, or an operator asked for a rewind. A node that has fallen below
// our final block is told as what the chain waits for. It looks after each block that is written, but not more often
// than the chain is polled, and less often while none is and all is well.
import {setTimeout as sleep} from 'node:timers/promises'
import type {Logger} from '../base/log.ts'
import type {ChainCursor, Cursor} from './cursor.ts'
import {advanceFinality, type FinalitySource, finalBlockAtNode, threshold} from './finality.ts'
import {type LapseSource, noteLapses} from './lapses.ts'
import {failedRounds} from './metrics.ts'
import {slower} from './pace.ts'
import {type Why, whyOf} from './waits.ts'

export interface WatchOptions {
  pollIntervalMs: number
  /** Resolves when the next blocks are written, or with the signal. */
  written(signal: AbortSignal): Promise<void>
  /** A head that does not move for this long is stalled. */
  stallTimeoutMs: number
  /** Called with the chain's position at each poll (metrics.ts). */
  countReorg: (at: Cursor | undefined) => void
  log: Logger
}

/** Resolves with the reason to restart. */
export async function watch(
  source: FinalitySource & LapseSource,
  cursor: ChainCursor,
  options: WatchOptions,
): Promise<string> {
  const {pollIntervalMs, written, log} = options
  let head = ''
  let movedAt = Date.now()
  let forks = 0
  let behind = 0
  let isCalm = false
  for (;;) {
    const mostMs = isCalm ? slower * pollIntervalMs : pollIntervalMs
    await untilNext(pollIntervalMs, mostMs, written)
    isCalm = false
    try {
      const at = await cursor.read()
      options.countReorg(at)
      if (at?.rewindTo != null || at?.halted != null) return 'an operator asked for a rewind, or the chain is halted'
      if (at && at.headHash !== head) {
        head = at.headHash
        movedAt = Date.now()
      }
      const stillMs = Math.min(Date.now() - movedAt, cursor.waits.silentMs('reading'))
      if (stillMs > options.stallTimeoutMs) return `no new block for ${options.stallTimeoutMs} ms`
      await advanceFinality(source, cursor, at)
      const seen = at && (await finalBlockAtNode(source, at))
      forks = typeof seen === 'object' ? forks + 1 : 0
      if (forks >= threshold) return "the final block is not on the node's chain"
      behind = seen === 'unknown' ? behind + 1 : 0
      if (behind >= threshold) await cursor.waits.tell('finality', nodeIsBehind(at!), {log})
      else if (seen === 'same') await cursor.waits.end('finality')
      if (seen === 'same') await noteLapses(cursor, source) // a node on another chain proves nothing about ours
      isCalm = seen === 'same' || at === undefined
    } catch (error) {
      failedRounds.inc({chain: cursor.chain})
      await cursor.waits.tell('finality', whyOf(error), {log, afterMs: options.stallTimeoutMs})
    }
  }
}

/** Until blocks are written, but at least and at most so long. */
async function untilNext(leastMs: number, mostMs: number, written: WatchOptions['written']): Promise<void> {
  const over = new AbortController()
  const news = written(over.signal)
  await sleep(leastMs)
  await Promise.race([news, sleep(mostMs - leastMs, undefined, {signal: over.signal})])
  over.abort()
}

function nodeIsBehind({finalHeight}: Cursor): Why {
  const message = `the node has no block ${finalHeight}, which was final here: it lost blocks, or is another node that is not as far; it is waited for, or name another node`
  return {reason: 'node_behind', message}
}
