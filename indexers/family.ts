// What a family of chains provides to follow its chains (main.ts) and to read their final blocks again (reindex.ts).
// Each family is a folder here, and one line in families.ts. All families return blocks in one form (ReadBlock,
// block.ts).
import type {Store} from '@subsquid/typeorm-store'
import type pg from 'pg'
import type {Logger} from '../base/log.ts'
import type {ChainSettings} from '../chains/families.ts'
import type {ReadBlock} from './block.ts'
import type {BlockRef, ChainCursor} from './cursor.ts'
import type {FinalitySource} from './finality.ts'
import type {LapseSource} from './lapses.ts'
import type {ChainDatabase} from './subsquid/store.ts'

export interface IndexerFamily<Settings = ChainSettings> {
  openReader(settings: Settings, options: ReaderOptions): ChainReader
  /** Rejects with PermanentError if the chain would not be read in the same way as before. */
  openHistory(settings: Settings, options: HistoryOptions): Promise<HistorySource>
}

// Following
// ---------------------------------------------------------------------------------------------------------------------

export interface ReaderOptions {
  /** The database, and connections to it. */
  url: string
  db: pg.Pool
  cursor: ChainCursor
  /** The store of the chain, and the function that writes blocks through it. */
  database: ChainDatabase
  write(store: Store, blocks: ReadBlock[]): Promise<void>
  log: Logger
}

export interface ChainReader {
  source: ChainView
  /** CAIP-2 id of the network that must be read, and the settings that decide the source's network. */
  network: string
  networkSettings: string
  /**
   * Reads blocks into the database until the process ends. Rejects when the source must be judged again (resume.ts).
   */
  read(): Promise<never>
}

/** What a chain's source is asked before its blocks are read. */
export interface ChainView extends FinalitySource, LapseSource {
  /** CAIP-2 id of the source's network. */
  network(): Promise<string>
  /** The block at a height; undefined if the source has none. */
  blockAt(height: number): Promise<(BlockRef & {time: Date}) | undefined>
  /** The hashes at several heights; undefined where the source has no block. */
  hashesAt(heights: number[]): Promise<(string | undefined)[]>
  /**
   * The source's own reason why it cannot give a block with all that is read from it; undefined if it can. Rejects if
   * the source fails.
   */
  lacks(height: number): Promise<string | undefined>
  blockTimes: BlockTimes
  /**
   * Why the chain must not be followed with these settings, according to its contracts; undefined if it may be. Absent
   * where none are asked.
   */
  refusal?(): Promise<string | undefined>
}

/** How reliable the times in blocks are. */
export interface BlockTimes {
  /** The median time of this many blocks in a row never falls. */
  medianOf: number
  /** By the database's clock, an honest block is made less than this after its timestamp. */
  marginMs: number
}

// Reading again
// ---------------------------------------------------------------------------------------------------------------------

export interface HistoryOptions {
  db: pg.Pool
  cursor: ChainCursor
  log: Logger
}

/**
 * Every call ends within a timeout of its own, and rejects with RetryableError if the source fails. No response is
 * believed unchecked.
 */
export interface HistorySource extends Pick<ChainView, 'network' | 'hashAt' | 'lacks'> {
  /** Token code by contract; absent where tokens have no contracts. */
  tokens?: ReadonlyMap<string, string>
  /** The links between the blocks of these heights, ascending, in batches. */
  links(from: number, to: number): AsyncIterable<Link[]>
  /** The blocks of these heights, ascending, in batches. */
  blocks(from: number, to: number): AsyncIterable<ReadBlock[]>
  /** The block at a height, asked for again, from another server if there are several. */
  again(height: number): Promise<ReadBlock>
  close(): Promise<void>
}

export interface Link extends BlockRef {
  parentHash: string
}

/** The heights in batches, ascending. */
export function* inSteps(from: number, to: number, perStep: number): Iterable<number[]> {
  for (let next = from; next <= to; next += perStep)
    yield Array.from({length: Math.min(perStep, to - next + 1)}, (_, i) => next + i)
}
