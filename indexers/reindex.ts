// Reads final blocks again and makes the database agree with the chain, in the same way for every chain, while the live
// indexer runs.
//
// Promises:
//   1. Before anything is written, the blocks of the range and those above it are linked, up to the block that is final
//      here. Every block that is read has its hash in that chain.
//   2. Only differences to the stored data are written, some blocks per transaction, together with the progress. So a
//      run can be stopped or killed at any moment and resumed, and it changes nothing if nothing is wrong. Deposits are
//      derived at COMMIT, as for the live indexer.
//   3. Stored data is deleted or changed only if the complete block was read twice: an empty response proves nothing.
//   4. Nothing is written above the final block, or while the chain is halted or due for a rewind, or on another chain
//      than the proven one.
//   5. One process at a time reads a chain again (an advisory lock, held by the connection that writes).
import {setTimeout as sleep} from 'node:timers/promises'
import type pg from 'pg'
import {PermanentError, RetryableError} from '../base/errors.ts'
import type {ReadBlock} from './block.ts'
import type {BlockRef} from './cursor.ts'
import type {HistorySource} from './family.ts'
import {inTime} from './in-time.ts'
import type {Query} from './look-up.ts'
import {assertServed, openAnchor} from './reindex/anchor.ts'
import {Hashes} from './reindex/hashes.ts'
import {begin, finish, lastRun, type Place, plan, type Reindexed, type Run} from './reindex/runs.ts'
import {type Target, write} from './reindex/write.ts'

export interface ReindexOptions {
  /** The owner's connection. Nothing else may use it during the run. */
  db: pg.Client
  chain: string
  source: HistorySource
  /** Turns a match key into the address's display form. */
  display: (address: string) => string
  /** The lowest block; absent: resumes the newest unfinished run. */
  from?: number
  /** The highest block; absent: the final block. */
  to?: number
  /** Called now and then with the number of heights that are done and the number of all heights. */
  onProgress?: (step: 'linking' | 'reading', done: number, total: number) => void
  /** Ends the run after the current write. */
  signal?: AbortSignal
  retryMs?: number
}

/** The signal ended the run. Its writes stay, and it can be resumed. */
export class Interrupted extends Error {
  override name = 'Interrupted'
}

/** One transaction writes blocks until they hold this many transactions and transfers. */
const itemsPerTransaction = 5000
/** How many reads in a row may fail. */
const threshold = 5
/** The longest time for a step of a source. */
const stepTimeoutMs = 300_000
const retryOf = new Set(['40001', '40P01'])

export async function reindex(options: ReindexOptions): Promise<Reindexed> {
  const {db, chain, source, display} = options
  const lock = `hashtextextended('sluice.reindex.' || $1, 0)`
  const {rows} = await db.query<{held: boolean}>(`select pg_try_advisory_lock(${lock}) as held`, [chain])
  if (!rows[0]!.held)
    throw new PermanentError(`${chain} is being read again by another process; wait until it is done, or stop it`)
  try {
    const query: Query = async (sql, values) => (await db.query(sql, values)).rows
    const anchor = await openAnchor({query, chain, source})
    return await new Reindex(options, {db, query, chain, source, display, anchor}).run()
  } finally {
    await db.query(`select pg_advisory_unlock(${lock})`, [chain]).catch(() => {}) // a lost connection has lost the lock too
  }
}

class Reindex {
  readonly #options: ReindexOptions
  readonly #target: Target

  constructor(options: ReindexOptions, target: Target) {
    this.#options = options
    this.#target = target
  }

  async run(): Promise<Reindexed> {
    const {query, chain, source, anchor} = this.#target
    const {final} = anchor
    const {from, to} = this.#options
    const planned = from === undefined ? await lastRun(query, chain) : plan(chain, final.height, {from, to})
    await assertServed(source, planned.next, final)
    const hashes = await this.#link(planned, final)
    const run = planned.id ? planned : await begin(query, chain, planned)
    await this.#read(run, hashes)
    return await finish(query, run)
  }

  // Linking the chain
  // -------------------------------------------------------------------------------------------------------------------

  /** The hashes of the chain from the next height to read up to our final block. */
  async #link(run: Run, final: BlockRef): Promise<Hashes> {
    const {source, onProgress} = this.#options
    for (let failures = 0; ; ) {
      const hashes = new Hashes(run.next, run.lastHash)
      try {
        for await (const links of stepsInTime(source.links(run.next, final.height))) {
          this.#assertGoingOn()
          await this.#target.anchor.hold('')
          hashes.extend(links)
          onProgress?.('linking', hashes.count, final.height - run.next + 1)
        }
        if (
          hashes.count === final.height - run.next + 1 &&
          (hashes.count === 0 || hashes.has(final.height, final.hash))
        )
          return hashes
        throw new RetryableError(
          `the node's blocks from ${run.next} on do not lead to block ${final.height} (${final.hash})`,
        )
      } catch (error) {
        if (isFinalWord(error) || ++failures === threshold) throw error
        await sleep(this.#options.retryMs ?? 1000)
      }
    }
  }

  // Reading
  // -------------------------------------------------------------------------------------------------------------------

  async #read(run: Run, hashes: Hashes): Promise<void> {
    this.#options.onProgress?.('reading', run.next - run.from, run.to - run.from + 1)
    for (let failures = 0; run.next <= run.to; ) {
      const before = run.next
      try {
        for await (const blocks of stepsInTime(this.#options.source.blocks(run.next, run.to)))
          for (const piece of pieces(blocks)) await this.#take(run, piece, hashes)
        if (run.next <= run.to) throw new RetryableError(`the node returned no block ${run.next}`)
      } catch (error) {
        if (isFinalWord(error)) throw error
        failures = run.next > before ? 1 : failures + 1
        if (failures === threshold) return await this.#giveUp(run, error as Error)
        await sleep(this.#options.retryMs ?? 1000)
      }
    }
  }

  /** The node may meanwhile have pruned blocks that it had before. */
  async #giveUp(run: Run, error: Error): Promise<never> {
    await assertServed(this.#options.source, run.next, this.#target.anchor.final)
    throw new RetryableError(`block ${run.next} of ${this.#options.chain} cannot be read: ${error.message}`)
  }

  async #take(run: Run, blocks: ReadBlock[], hashes: Hashes): Promise<void> {
    this.#assertGoingOn()
    let height = run.next
    for (const block of blocks) {
      if (block.height !== height || !hashes.has(height, block.hash))
        throw new RetryableError(
          `the node returned another block (${block.height}, ${block.hash}) than block ${height} of its own chain`,
        )
      height += 1
    }
    const next = {next: height, lastHash: blocks.at(-1)!.hash}
    await this.#correct(run, blocks, next)
    Object.assign(run, next)
    this.#options.onProgress?.('reading', run.next - run.from, run.to - run.from + 1)
  }

  /**
   * Runs one transaction. If it would delete or change stored data of blocks that were read once, those blocks are read
   * again first.
   */
  async #correct(run: Run, blocks: ReadBlock[], next: Place): Promise<void> {
    const confirmed = new Set<number>()
    for (let attempt = 1; ; attempt++) {
      try {
        const doubtful = await write(this.#target, run, blocks, next, confirmed)
        if (!doubtful.length) return
        for (const block of blocks) if (doubtful.includes(block.height)) await this.#confirm(block)
        for (const height of doubtful) confirmed.add(height)
      } catch (error) {
        if (!retryOf.has((error as pg.DatabaseError).code ?? '') || attempt === threshold) throw error
      }
    }
  }

  /** Reads the block a second time. Throws unless both reads agree. */
  async #confirm(block: ReadBlock): Promise<void> {
    const again = await this.#options.source.again(block.height)
    if (contentsOf(again) !== contentsOf(block))
      throw new RetryableError(`the node returned two different contents of block ${block.height}`)
  }

  #assertGoingOn(): void {
    if (this.#options.signal?.aborted) throw new Interrupted('stopped')
  }
}

/** The blocks of each transaction. */
function* pieces(blocks: ReadBlock[]): Iterable<ReadBlock[]> {
  let piece: ReadBlock[] = []
  let items = 0
  for (const block of blocks) {
    piece.push(block)
    items += block.candidates.length + block.sent.length + block.spends.length
    if (items < itemsPerTransaction) continue
    yield piece
    piece = []
    items = 0
  }
  if (piece.length) yield piece
}

/** All contents of a block, independent of the order in which a server returns them. */
function contentsOf({hash, candidates, sent, spends}: ReadBlock): string {
  const texts = [candidates, sent, spends].map(items => items.map(item => JSON.stringify(item, asText)).sort())
  return JSON.stringify([hash, ...texts])
}

const asText = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? value.toString() : value)

function isFinalWord(error: unknown): boolean {
  return (
    error instanceof PermanentError ||
    error instanceof Interrupted ||
    typeof (error as pg.DatabaseError).severity === 'string'
  )
}

/** The batches of the source; rejects if the next one does not come in time. */
async function* stepsInTime<T>(batches: AsyncIterable<T>): AsyncIterable<T> {
  const iterator = batches[Symbol.asyncIterator]()
  try {
    for (;;) {
      const step = await inTime(iterator.next(), stepTimeoutMs)
      if (step.done) return
      yield step.value
    }
  } finally {
    void iterator.return?.()?.then(undefined, () => {})
  }
}
