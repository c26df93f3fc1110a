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
import type {HistorySource, Link} from './family.ts'
import {inTime} from './in-time.ts'
import {inclusionsIn} from './inclusions.ts'
import {lookUp, type Query} from './look-up.ts'
import {noteMined, transfersIn} from './match.ts'

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

export interface Reindexed {
  from: number
  to: number
  added: number
  removed: number
  changed: number
  /** Of this chain, opened since the run began and open now. */
  incidents: number
}

/** The signal came. What is done is done; the rest can be resumed. */
export class Interrupted extends Error {
  override name = 'Interrupted'
}

/** What is read in one transaction: blocks until they hold so many transactions and transfers. */
const itemsPerTransaction = 5000
/** How often in a row reading may fail. */
const patience = 5
/** No step of a source takes longer. */
const stepTimeoutMs = 300_000
const retryOf = new Set(['40001', '40P01'])

export async function reindex(options: ReindexOptions): Promise<Reindexed> {
  const {db, chain} = options
  const lock = `hashtextextended('sluice.reindex.' || $1, 0)`
  const {rows} = await db.query<{held: boolean}>(`select pg_try_advisory_lock(${lock}) as held`, [chain])
  if (!rows[0]!.held)
    throw new PermanentError(`${chain} is being read again by another process; wait for it, or stop it`)
  try {
    return await new Reindex(options).run()
  } finally {
    await db.query(`select pg_advisory_unlock(${lock})`, [chain]).catch(() => {}) // a lost connection has lost it, too
  }
}

interface Run {
  id: string
  from: number
  to: number
  next: number
  lastHash: string | null
}

interface At {
  network: string
  final: BlockRef
}

class Reindex {
  readonly #options: ReindexOptions
  readonly #query: Query
  /** A final block of the chain that was proven. */
  #anchor!: BlockRef

  constructor(options: ReindexOptions) {
    this.#options = options
    this.#query = async (sql, values) => (await options.db.query(sql, values)).rows
  }

  async run(): Promise<Reindexed> {
    const at = await this.#readCursor()
    this.#anchor = at.final
    await this.#assertSameChain(at)
    const planned =
      this.#options.from === undefined ? await this.#lastRun() : this.#plan(at.final.height, this.#options.from)
    await this.#assertServed(planned.next, at.final)
    const hashes = await this.#link(planned, at.final)
    const run = planned.id ? planned : await this.#begin(planned)
    await this.#read(run, hashes)
    return await this.#finish(run)
  }

  // What may be read -------------------------------------------------------------------------------------------------------------------------

  async #readCursor(): Promise<At> {
    const {chain} = this.#options
    const [row] = await this.#query<{network: string; height: number; hash: string} & Going>(
      `select network, final_height as height, final_hash as hash, ${going}
       from chain.cursor where chain = $1`,
      [chain],
    )
    if (!row) throw new PermanentError(`${chain} is not followed; sluice status shows the chains that are`)
    assertGoing(chain, row)
    return {network: row.network, final: {height: row.height, hash: row.hash}}
  }

  async #assertSameChain({network, final}: At): Promise<void> {
    const {source, chain} = this.#options
    const answered = await source.network().catch(error => {
      throw new RetryableError(
        `the node of ${chain} cannot be asked (${error.message}); look at it, and at the settings of ${chain}`,
      )
    })
    if (answered !== network)
      throw new PermanentError(
        `the node is on ${answered}, and ${chain} follows ${network}; check the settings of ${chain}`,
      )
    const hash = await source.hashAt(final.height)
    if (hash === undefined)
      throw new RetryableError(
        `the node has no block ${final.height}, which is final here: it is behind; try again later`,
      )
    if (hash !== final.hash)
      throw new PermanentError(
        `the node has another block ${final.height} (${hash}) than the one that is final here (${final.hash}); nothing was read:` +
          ' sluice status says whether the live indexer agrees with its node',
      )
  }

  #plan(final: number, from: number): Run {
    const {chain, to = final} = this.#options
    if (to > final)
      throw new PermanentError(
        `block ${to} of ${chain} is above the final one (${final}): the live indexer reads what is not final;` +
          ' sluice chain rewind has it read that again',
      )
    if (from > final)
      throw new PermanentError(
        `block ${from} of ${chain} is above the final one (${final}), and only final blocks are read again: begin below it`,
      )
    if (from > to) throw new PermanentError(`there are no blocks from ${from} to ${to}: --from is above --to`)
    if (from < 1) throw new PermanentError('block 0 pays nobody; begin with --from 1')
    return {id: '', from, to, next: from, lastHash: null}
  }

  async #lastRun(): Promise<Run> {
    const {chain} = this.#options
    const [run] = await this.#query<Run & {isDone: boolean}>(
      `select id, from_height as "from", to_height as "to", next_height as next, last_hash as "lastHash", finished_at is not null as "isDone"
       from app.reindex where chain = $1 order by id desc limit 1`,
      [chain],
    )
    if (run && !run.isDone) return run
    throw new PermanentError(
      run
        ? `the last run of ${chain}, from ${run.from} to ${run.to}, is done; say with --from where to begin another`
        : `${chain} was never read again, so there is nothing to resume; say with --from where to begin`,
    )
  }

  /** Throws where the source cannot give the lowest block, and says which it can. */
  async #assertServed(lowest: number, final: BlockRef): Promise<void> {
    const {source} = this.#options
    const why = lowest > final.height ? undefined : await source.lacks(lowest)
    if (why === undefined) return
    const whyFinal = await source.lacks(final.height)
    if (whyFinal !== undefined)
      throw new RetryableError(
        `the node cannot even give block ${final.height}, which is final here (${whyFinal}); look at the node`,
      )
    let [lacking, served] = [lowest, final.height]
    while (served - lacking > 1) {
      const middle = Math.floor((lacking + served) / 2)
      if ((await source.lacks(middle)) === undefined) served = middle
      else lacking = middle
    }
    throw new PermanentError(
      `the node cannot give block ${lowest} any more (${why}); the lowest that it can give is ${served}: --from ${served},` +
        ' or a node that keeps everything',
    )
  }

  async #begin({from, to}: Run): Promise<Run> {
    const [run] = await this.#query<{id: string}>(
      'insert into app.reindex (chain, from_height, to_height, next_height) values ($1, $2, $3, $2) returning id',
      [this.#options.chain, from, to],
    )
    return {id: run!.id, from, to, next: from, lastHash: null}
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
          await this.#holdAnchor('')
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
        if (isFinalWord(error) || ++failures === patience) throw error
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
        if (failures === patience) return await this.#giveUp(run, error as Error)
        await sleep(this.#options.retryMs ?? 1000)
      }
    }
  }

  /** A node may have forgotten meanwhile what it could give before. */
  async #giveUp(run: Run, error: Error): Promise<never> {
    await this.#assertServed(run.next, this.#anchor)
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
  async #correct(run: Run, blocks: ReadBlock[], next: Pick<Run, 'next' | 'lastHash'>): Promise<void> {
    const confirmed = new Set<number>()
    for (let attempt = 1; ; attempt++) {
      try {
        const doubtful = await this.#write(run, blocks, next, confirmed)
        if (!doubtful.length) return
        for (const block of blocks) if (doubtful.includes(block.height)) await this.#confirm(block)
        for (const height of doubtful) confirmed.add(height)
      } catch (error) {
        if (!retryOf.has((error as pg.DatabaseError).code ?? '') || attempt === patience) throw error
      }
    }
  }

  /** Throws unless the node tells the same of the block once more. */
  async #confirm(block: ReadBlock): Promise<void> {
    const again = await this.#options.source.again(block.height)
    if (contentsOf(again) !== contentsOf(block))
      throw new RetryableError(`the node tells of block ${block.height} now one thing and now another`)
  }

  /** Resolves to the heights where something stored would go or change that is not confirmed; then nothing was written. */
  async #write(
    run: Run,
    blocks: ReadBlock[],
    {next, lastHash}: Pick<Run, 'next' | 'lastHash'>,
    confirmed: ReadonlySet<number>,
  ): Promise<number[]> {
    const {db, chain, display} = this.#options
    const options = {chain, display}
    const found = await lookUp(this.#query, chain, blocks)
    await db.query('begin')
    try {
      await this.#holdAnchor('for update')
      const wanted = await this.#withStoredTokens(transfersIn(blocks, found, options))
      const transfers = await this.#correctRows('transfers', blocks, wanted)
      const inclusions = await this.#correctRows(
        'inclusions',
        blocks,
        await inclusionsIn(this.#query, blocks, found, options),
      )
      const doubtful = [...transfers.heights, ...inclusions.heights].filter(height => !confirmed.has(height))
      if (doubtful.length) {
        await db.query('rollback')
        return [...new Set(doubtful)]
      }
      const added = new Set(transfers.added)
      await noteMined(this.#query, chain, blocks, id => added.has(id))
      await db.query(
        `update app.reindex set next_height = $2, last_hash = $3, added = added + $4, removed = removed + $5, changed = changed + $6
         where id = $1`,
        [
          run.id,
          next,
          lastHash,
          transfers.added.length + inclusions.added.length,
          transfers.removed + inclusions.removed,
          transfers.changed + inclusions.changed,
        ],
      )
      await db.query('commit')
      return []
    } catch (error) {
      await db.query('rollback').catch(() => {})
      throw error
    }
  }

  /**
   * Looks where the chain is final now, and goes on from there: of final blocks only the newest are kept. Throws unless the chain is still the one that
   * was proven and may be written to.
   */
  async #holdAnchor(lock: '' | 'for update'): Promise<BlockRef> {
    const {chain} = this.#options
    const [at] = await this.#query<BlockRef & Going>(
      `select final_height as height, final_hash as hash, ${going}
       from chain.cursor where chain = $1 ${lock}`,
      [chain],
    )
    assertGoing(chain, at!)
    const [ours] = await this.#query<{hash: string}>('select hash from chain.block where chain = $1 and height = $2', [
      chain,
      this.#anchor.height,
    ])
    if (at!.height < this.#anchor.height || ours?.hash !== this.#anchor.hash)
      throw new PermanentError(
        `${chain} was rewound meanwhile, and block ${this.#anchor.height} is not what it was; begin again once it is final`,
      )
    this.#anchor = {height: at!.height, hash: at!.hash}
    return this.#anchor
  }

  async #correctRows(what: 'transfers' | 'inclusions', blocks: ReadBlock[], rows: object[]): Promise<Corrected> {
    const [corrected] = await this.#query<Corrected>(`select * from chain.correct_${what}($1, $2, $3, $4)`, [
      this.#options.chain,
      blocks[0]!.height,
      blocks.at(-1)!.height,
      JSON.stringify(rows.map(inColumns)),
    ])
    return corrected!
  }

  /**
   * A token that is known today was stored by its contract while it was not, and stays so: making it known credits nothing. The other way round,
   * a setting is missing, and every deposit of the token would look gone.
   */
  async #withStoredTokens<T extends {id: string; token: string; blockHeight: number}>(rows: T[]): Promise<T[]> {
    const {chain, source} = this.#options
    if (!rows.length) return rows
    const stored = await this.#query<{id: string; token: string; isForgotten: boolean}>(
      `select t.id, t.token, t.token in (select token from app.asset where chain = $3)
         and w.token not in (select token from app.asset where chain = $3) as "isForgotten"
       from unnest($1::text[], $2::text[]) w (id, token)
       cross join lateral (select * from chain.transfer t where t.id = w.id offset 0) t where t.token <> w.token`,
      [rows.map(({id}) => id), rows.map(({token}) => token), chain],
    )
    const storedAs = new Map(stored.map(row => [row.id, row]))
    return rows.map(row => {
      const before = storedAs.get(row.id)
      if (!before) return row
      if (source.tokens?.get(before.token) === row.token) return {...row, token: before.token}
      if (before.isForgotten)
        throw new PermanentError(
          `block ${row.blockHeight} of ${chain} moves ${row.token}, which is stored as ${before.token}: the settings do not say so any more;` +
            ` set ${chain}_${before.token}_CONTRACT as the service has it`,
        )
      return row
    })
  }

  async #finish({id}: Run): Promise<Reindexed> {
    const [result] = await this.#query<Reindexed>(
      `with done as (
         update app.reindex set finished_at = coalesce(finished_at, clock_timestamp()) where id = $1 returning *
       )
       select from_height as "from", to_height as "to", added, removed, changed, (
         select count(*)::int from app.incident i where i.chain = done.chain and i.opened_at >= done.started_at and i.resolved_at is null
       ) as incidents from done`,
      [id],
    )
    return result!
  }

  #assertGoingOn(): void {
    if (this.#options.signal?.aborted) throw new Interrupted('stopped')
  }
}

interface Corrected {
  added: string[]
  removed: number
  changed: number
  heights: number[]
}

interface Going {
  /** The way out of what halts the chain; null if nothing does. */
  halted: string | null
  rewind: boolean
}

const going = 'case when halted_at is not null then app.way_out(chain) end as halted, rewind_to is not null as rewind'

function assertGoing(chain: string, {halted, rewind}: Going): void {
  if (halted !== null) throw new PermanentError(`${chain} is halted: ${halted}`)
  if (rewind)
    throw new PermanentError(`${chain} is about to be rewound; wait until sluice status shows that it is read again`)
}

/** The hashes of a chain of blocks, in memory: 32 bytes each. */
class Hashes {
  readonly #from: number
  readonly #parts: Buffer[] = []
  #last: string | undefined
  count = 0

  /** `below`: the hash of the block below the first one, where it is known. */
  constructor(from: number, below: string | null) {
    this.#from = from
    this.#last = below ?? undefined
  }

  /** Throws where they do not link. */
  extend(links: Link[]): void {
    for (const {height, hash, parentHash} of links) {
      if (height !== this.#from + this.count || (this.#last !== undefined && parentHash !== this.#last))
        throw new RetryableError(
          `block ${height} (${hash}) of the node does not link to the block below it (${this.#last})`,
        )
      const place = this.count % hashesPerPart
      if (place === 0) this.#parts.push(Buffer.alloc(32 * hashesPerPart))
      this.#parts.at(-1)!.write(bare(hash), 32 * place, 32, 'hex')
      this.#last = hash
      this.count += 1
    }
  }

  at(height: number): string {
    const index = height - this.#from
    const start = 32 * (index % hashesPerPart)
    return this.#parts[Math.floor(index / hashesPerPart)]!.toString('hex', start, start + 32)
  }
}

const hashesPerPart = 65_536

const bare = (hash: string): string => hash.replace(/^0x/, '').toLowerCase()

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

function inColumns(row: object): object {
  const columns = Object.entries(row).map(([name, value]) => [
    name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`),
    typeof value === 'bigint' ? value.toString() : value,
  ])
  return Object.fromEntries(columns)
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
