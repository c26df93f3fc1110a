// What happens when blocks of an EVM chain cannot be read. Promises: a failure of the node ends nothing: it is what the
// chain waits for (waits.ts), until blocks are read again. A failure to write is none of the node's, and is thrown.
import {setTimeout as sleep} from 'node:timers/promises'
import type {Logger} from '../../base/log.ts'
import {failureOf} from '../../db/client/failure.ts'
import type {ChainCursor} from '../cursor.ts'
import {nodeErrors} from '../metrics.ts'
import {type BatchRequest, type BlockSource, isTooDeepFork, replace} from '../subsquid/source.ts'
import {whyOf} from '../waits.ts'
import type {FetchedBlock, StreamedBlock} from './block.ts'
import {refusalIn} from './refusals.ts'

/** What a node fails to give may be there at the next request: it is told when it lasts. */
const quietMs = 20_000
const longestPauseMs = 20_000

export class Reading {
  readonly #cursor: ChainCursor
  readonly #log: Logger
  readonly #ofWriting = new WeakSet<object>()

  constructor(cursor: ChainCursor, log: Logger) {
    this.#cursor = cursor
    this.#log = log
  }

  /** Blocks were read. */
  works(): Promise<void> {
    return this.#cursor.waits.end('reading')
  }

  /** Resolves when the failure is told; throws it if it is not the node's. `above`: the newest block that was read. */
  async fails(error: unknown, above?: number): Promise<void> {
    if (this.#ofWriting.has(error as object) || failureOf(error) || isTooDeepFork(error)) throw error // the next start sees how deep (resume.ts)
    const {chain} = this.#cursor
    const refusal = refusalIn(error, chain, above)
    nodeErrors.inc({chain})
    const afterMs = refusal ? 0 : quietMs
    await this.#cursor.waits.tell('reading', whyOf(refusal ?? error), {log: this.#log, afterMs})
  }

  /** The same; if it fails, that is no failure of the node. */
  async written<T>(writing: Promise<T>): Promise<T> {
    try {
      return await writing
    } catch (error) {
      this.#ofWriting.add(error as object)
      throw error
    }
  }
}

/** Reads these blocks, completed, for as long as it takes: after each failure of the node, from where it was. */
export function readFinalPatiently(
  source: BlockSource<StreamedBlock>,
  complete: (blocks: StreamedBlock[]) => Promise<FetchedBlock[]>,
  {reading, retryMs}: {reading: Reading; retryMs: number},
): void {
  const read = source.getFinalizedBlocks.bind(source)
  const getFinalizedBlocks: typeof source.getFinalizedBlocks = async function* (requests, stopOnHead) {
    let next = requests[0]!.range.from
    for (let pauseMs = retryMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
      try {
        for await (const batch of read(from(requests, next), stopOnHead)) {
          const blocks = await complete(batch.blocks)
          await reading.works()
          pauseMs = retryMs
          next = (blocks.at(-1)?.header.height ?? next - 1) + 1
          yield {...batch, blocks}
        }
        return
      } catch (error) {
        await reading.fails(error, next - 1)
        await sleep(pauseMs) // many blocks are asked for again
      }
    }
  }
  replace(source, {getFinalizedBlocks})
}

function from(requests: BatchRequest[], height: number): BatchRequest[] {
  return requests.map(request => ({...request, range: {...request.range, from: Math.max(request.range.from, height)}}))
}
