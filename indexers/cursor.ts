// The position of a chain, as an indexer reads and moves it. Promises: every change goes through the functions of
// db/functions/chains, which keep the invariants.
import type pg from 'pg'
import {Waits, type Why} from './waits.ts'

export interface Cursor {
  network: string
  headHeight: number
  headHash: string
  finalHeight: number
  finalHash: string
  /** Why the chain is halted and what to do about it; null if it is not halted. */
  halted: string | null
  rewindTo: number | null
  /** The newest reorganisation; null if there was none. */
  lastReorgAt: string | null
  lastReorgDepth: number | null
}

export interface BlockRef {
  height: number
  hash: string
}

/** A transaction of ours that is past its end and in no block of ours. */
export interface Expired {
  txid: string
  /** In hex. */
  raw: string
  /** Our address whose coins it moves. */
  source: string
  /** No block at or below this height can hold it. */
  lifetimeFrom: number
  /** Its end: a height, or the time of a block in ms. */
  lifetimeEnd: number
  /** Why its absence cannot be proven, if blocks that may hold it were not read; else null. */
  notFollowed: string | null
}

export class ChainCursor {
  readonly #db: pg.Pool
  readonly chain: string
  /** Why it is not followed now. */
  readonly waits = new Waits(why => this.#tellWaiting(why))

  constructor(db: pg.Pool, chain: string) {
    this.#db = db
    this.chain = chain
  }

  /** Undefined until the chain was anchored. */
  async read(): Promise<Cursor | undefined> {
    const {rows} = await this.#db.query<Cursor>({
      name: 'read_cursor',
      text: `select network, head_height as "headHeight", head_hash as "headHash", final_height as "finalHeight",
         final_hash as "finalHash", case when halted_at is not null then app.way_out(chain) end as halted, rewind_to as "rewindTo",
         last_reorg_at::text as "lastReorgAt", last_reorg_depth as "lastReorgDepth"
       from chain.cursor where chain = $1`,
      values: [this.chain],
    })
    return rows[0]
  }

  async anchor(network: string, height: number, hash: string, time: Date): Promise<void> {
    await this.#db.query('select chain.anchor($1, $2, $3, $4, $5)', [this.chain, network, height, hash, time])
  }

  /** Records that an indexer of the chain was started. */
  async configure(): Promise<void> {
    await this.#db.query('select chain.configure($1)', [this.chain])
  }

  async #tellWaiting(why: Why | undefined): Promise<void> {
    const {reason = null, message = null, firstHeight = null} = why ?? {}
    await this.#db.query('select chain.tell_waiting($1, $2, $3, $4)', [this.chain, reason, message, firstHeight])
  }

  /**
   * The earliest time at which an address of ours can have been paid; -Infinity: unknown; undefined: there is no
   * address.
   */
  async firstAddressAt(): Promise<number | undefined> {
    const {rows} = await this.#db.query<{at: number | null}>(
      `select (1000 * extract(epoch from chain.first_address_at($1)))::float8 as at`,
      [this.chain],
    )
    return rows[0]?.at ?? undefined
  }

  /** The first block to read, if an operator has accepted that payments below it are missed. */
  async acceptedStart(): Promise<number | undefined> {
    const {rows} = await this.#db.query<{height: number}>(
      'select follow_from as height from app.accepted_gap where chain = $1',
      [this.chain],
    )
    return rows[0]?.height
  }

  /** Throws if the chain was read with another tracer before: each tracer numbers internal calls in its own way. */
  async pinTracer(tracer: string): Promise<void> {
    await this.#db.query('select chain.pin_tracer($1, $2)', [this.chain, tracer])
  }

  /** Records that internal calls, which were read before, are not read from here on. */
  async noteUntraced(): Promise<void> {
    await this.#db.query('select chain.note_untraced($1)', [this.chain])
  }

  /** The tracer that the chain is read with; null if it was never read with one. */
  async tracer(): Promise<string | null> {
    const {rows} = await this.#db.query<{tracer: string | null}>('select tracer from chain.cursor where chain = $1', [
      this.chain,
    ])
    return rows[0]?.tracer ?? null
  }

  /** True if the block with this hash is on our chain and final now. */
  async finalise(height: number, hash: string): Promise<boolean> {
    const {rows} = await this.#db.query<{done: boolean}>('select chain.finalise($1, $2, $3) as done', [
      this.chain,
      height,
      hash,
    ])
    return rows[0]!.done
  }

  /** The transactions of ours that may have expired, and are not proven to have. */
  async expired(): Promise<Expired[]> {
    const {rows} = await this.#db.query<Expired>({
      name: 'lapsable',
      text: `select txid, raw, source, lifetime_from as "lifetimeFrom", lifetime_end::float8 as "lifetimeEnd",
         not_followed as "notFollowed"
       from chain.lapsable where chain = $1`,
      values: [this.chain],
    })
    return rows
  }

  /** False if what SQL knows does not prove it. */
  async noteLapse(txid: string, evidence: object): Promise<boolean> {
    const {rows} = await this.#db.query<{done: boolean}>('select chain.note_lapse($1, $2, $3) as done', [
      this.chain,
      txid,
      evidence,
    ])
    return rows[0]!.done
  }

  /** Records why it is not proven. It becomes an incident only after some time. */
  async noteUnproven(txid: string, why: string): Promise<void> {
    await this.#db.query('select chain.note_unproven($1, $2, $3)', [this.chain, txid, why])
  }

  /** Records that a block is read whose transactions are not proven to be all that it holds. */
  async noteUnprovenBlock({height, hash}: BlockRef): Promise<void> {
    await this.#db.query('select chain.note_unproven_block($1, $2, $3)', [this.chain, height, hash])
  }

  /** Records which nodes, by their settings, seem to save no internal transactions; with an empty list, that all do. */
  async noteNoInternals(missing: object[]): Promise<void> {
    await this.#db.query('select chain.note_no_internals($1, $2)', [this.chain, JSON.stringify(missing)])
  }

  async rewind(to: BlockRef): Promise<void> {
    await this.#db.query('select chain.rewind($1, $2, $3)', [this.chain, to.height, to.hash])
  }

  async halt(details: object): Promise<void> {
    await this.#db.query('select chain.halt($1, $2)', [this.chain, details])
  }

  /**
   * Records that a response of the chain's servers cannot be true. Status and an alarm show it while nothing else can
   * be written because of it.
   */
  async noteContradiction({txid, message}: {txid?: string; message: string}): Promise<void> {
    await this.#db.query('select chain.note_contradiction($1, $2, $3)', [this.chain, txid ?? null, message])
  }

  /** Our blocks at or above a height, the newest first. */
  async blocksFrom(height: number): Promise<BlockRef[]> {
    const {rows} = await this.#db.query<BlockRef>(
      'select height, hash from chain.block where chain = $1 and height >= $2 order by height desc',
      [this.chain, height],
    )
    return rows
  }

  /** The hash of one of our blocks. */
  async hashAt(height: number): Promise<string | undefined> {
    const {rows} = await this.#db.query<BlockRef>('select hash from chain.block where chain = $1 and height = $2', [
      this.chain,
      height,
    ])
    return rows[0]?.hash
  }

  /** The newest of our blocks at or below a height. */
  async newestBlock(height: number): Promise<BlockRef | undefined> {
    const {rows} = await this.#db.query<BlockRef>(
      'select height, hash from chain.block where chain = $1 and height <= $2 order by height desc limit 1',
      [this.chain, height],
    )
    return rows[0]
  }

  /** The height from which the store itself can undo blocks. */
  async rollbackHeight(): Promise<number> {
    const {rows} = await this.#db.query<{height: number}>(`select height from squid_${this.chain.toLowerCase()}.status`)
    return rows[0]!.height
  }
}
