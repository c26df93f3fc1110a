// Reads final blocks once more and leaves the database as the chain is, for every chain in the same way, while the live indexer goes on.
//
// Promises:
//   1. Before anything is written, the blocks of the range, and those above it, are linked one to the next up to the block that is final here. Every
//      block that is read has the hash that it has in that chain.
//   2. Written is only the difference to what is stored, some blocks in a transaction, and with it how far this is; so it can be stopped or killed
//      at any moment and resumed, and changes nothing where nothing is wrong. What follows from it is settled at COMMIT, as for the live indexer.
//   3. What is stored disappears, or changes, only where the block was told whole and twice: an empty answer is no fact.
//   4. Nothing is written above the final block, nor while the chain is halted or to be rewound, nor on another chain than the one that was proven.
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
import {bare, Hashes} from './reindex/hashes.ts'
import {begin, finish, lastRun, type Place, plan, type Reindexed, type Run} from './reindex/runs.ts'
import {type Target, write} from './reindex/write.ts'

export interface ReindexOptions {
  /** The owner's, and nobody else uses it meanwhile. */
  db: pg.Client
  chain: string
  source: HistorySource
  /** The form in which people see an address that came in the form of a match key. */
  display: (address: string) => string
  /** The lowest block; absent: the newest run that did not end goes on. */
  from?: number
  /** The highest block; absent: the final one. */
  to?: number
  /** Called now and then, with the heights that are done of those that are to be. */
  onProgress?: (step: 'linking' | 'reading', done: number, total: number) => void
  /** Ends it after what is being written. */
  signal?: AbortSignal
  retryMs?: number
}

/** The signal came. What is done is done; the rest can be resumed. */
export class Interrupted extends Error {
  override name = 'Interrupted'
}

/** What is read in one transaction: blocks until they hold so many transactions and transfers. */
const itemsPerTransaction = 5000
/** How often in a row reading may fail. */
const threshold = 5
/** No step of a source takes longer. */
const stepTimeoutMs = 300_000
const retryOf = new Set(['40001', '40P01'])

export async function reindex(options: ReindexOptions): Promise<Reindexed> {
  const {db, chain, source, display} = options
  const lock = `hashtextextended('sluice.reindex.' || $1, 0)`
  const {rows} = await db.query<{held: boolean}>(`select pg_try_advisory_lock(${lock}) as held`, [chain])
  if (!rows[0]!.held)
    throw new PermanentError(`${chain} is being read again by another process; wait for it, or stop it`)
  try {
    const query: Query = async (sql, values) => (await db.query(sql, values)).rows
    const anchor = await openAnchor({query, chain, source})
    return await new Reindex(options, {db, query, chain, source, display, anchor}).run()
  } finally {
    await db.query(`select pg_advisory_unlock(${lock})`, [chain]).catch(() => {}) // a lost connection has lost it, too
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

  // What the chain is ------------------------------------------------------------------------------------------------------------------------

  /** The hashes of the chain that leads from where reading goes on to our final block. */
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
          (hashes.count === 0 || hashes.at(final.height) === bare(final.hash))
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

  // Reading --------------------------------------------------------------------------------------------------------------------------------

  async #read(run: Run, hashes: Hashes): Promise<void> {
    this.#options.onProgress?.('reading', run.next - run.from, run.to - run.from + 1)
    for (let failures = 0; run.next <= run.to; ) {
      const before = run.next
      try {
        for await (const blocks of stepsInTime(this.#options.source.blocks(run.next, run.to)))
          for (const piece of pieces(blocks)) await this.#take(run, piece, hashes)
        if (run.next <= run.to) throw new RetryableError(`the node gave no block ${run.next}`)
      } catch (error) {
        if (isFinalWord(error)) throw error
        failures = run.next > before ? 1 : failures + 1
        if (failures === threshold) return await this.#giveUp(run, error as Error)
        await sleep(this.#options.retryMs ?? 1000)
      }
    }
  }

  /** A node may have forgotten meanwhile what it could give before. */
  async #giveUp(run: Run, error: Error): Promise<never> {
    await assertServed(this.#options.source, run.next, this.#target.anchor.final)
    throw new RetryableError(`block ${run.next} of ${this.#options.chain} cannot be read: ${error.message}`)
  }

  async #take(run: Run, blocks: ReadBlock[], hashes: Hashes): Promise<void> {
    this.#assertGoingOn()
    let height = run.next
    for (const block of blocks) {
      if (block.height !== height || bare(block.hash) !== hashes.at(height))
        throw new RetryableError(
          `the node gave another block (${block.height}, ${block.hash}) than block ${height} of its own chain`,
        )
      height += 1
    }
    const next = {next: height, lastHash: blocks.at(-1)!.hash}
    await this.#correct(run, blocks, next)
    Object.assign(run, next)
    this.#options.onProgress?.('reading', run.next - run.from, run.to - run.from + 1)
  }

  /** One transaction, or none where it would take away something that was not confirmed; then it is confirmed first. */
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

  /** Throws unless the node tells the same of the block once more. */
  async #confirm(block: ReadBlock): Promise<void> {
    const again = await this.#options.source.again(block.height)
    if (contentsOf(again) !== contentsOf(block))
      throw new RetryableError(`the node tells of block ${block.height} now one thing and now another`)
  }

  #assertGoingOn(): void {
    if (this.#options.signal?.aborted) throw new Interrupted('stopped')
  }
}

/** Blocks of which one transaction is made. */
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

/** Everything that a block says, whatever the order in which a server tells it. */
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

/** As the source gives it; rejects where it does not go on in time. */
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
