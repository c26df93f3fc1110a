// What a family of chains offers to those who follow its chains (main.ts), and to those who read their final blocks once more (reindex.ts). Each is
// a folder here, and one line in families.ts. What a block says is in one form for all of them (ReadBlock, block.ts).
import type {Store} from '@subsquid/typeorm-store'
import type pg from 'pg'
import type {Logger} from '../base/log.ts'
import type {ChainSettings} from '../chains/families.ts'
import type {ReadBlock} from './block.ts'
import type {BlockRef, ChainCursor} from './cursor.ts'
import type {FinalitySource} from './finality.ts'
import type {ChainDatabase} from './store.ts'

export interface IndexerFamily<Settings = ChainSettings> {
  openReader(settings: Settings, options: ReaderOptions): ChainReader
  /** Rejects with PermanentError where the chain would not be read as it was before. */
  openHistory(settings: Settings, options: HistoryOptions): Promise<HistorySource>
}

// Following ---------------------------------------------------------------------------------------------------------------------------------

export interface ReaderOptions {
  /** The database, and connections to it. */
  url: string
  db: pg.Pool
  cursor: ChainCursor
  /** The store of the chain, and what writes blocks through it. */
  database: ChainDatabase
  write(store: Store, blocks: ReadBlock[]): Promise<void>
  log: Logger
}

export interface ChainReader {
  source: ChainView
  /** CAIP-2 id of the network that must be read, and the settings that decide which one the source is on. */
  network: string
  networkSettings: string
  /** Reads blocks into the database until the process ends. Rejects when the source has to be judged anew (resume.ts). */
  read(): Promise<never>
}

/** What is asked of a chain's source before its blocks are. */
export interface ChainView extends FinalitySource {
  /** CAIP-2 id of the network that it is on. */
  network(): Promise<string>
  /** The block at a height; undefined where it has none. */
  blockAt(height: number): Promise<(BlockRef & {time: Date}) | undefined>
  /** The hashes at several heights, undefined where it has no block. */
  hashesAt(heights: number[]): Promise<(string | undefined)[]>
  /** Why it cannot give a block with everything that is read of it, in its words; undefined if it can. Rejects where it just fails. */
  lacks(height: number): Promise<string | undefined>
  blockTimes: BlockTimes
  /** Why the chain must not be followed with these settings, where contracts are asked for that; undefined if nothing speaks against it. */
  refusal?(): Promise<string | undefined>
}

/** What the times in blocks are worth. */
export interface BlockTimes {
  /** The median of so many in a row never falls. */
  medianOf: number
  /** An honest block was made less than this after the time that it bears, by the database's clock. */
  marginMs: number
}

// Reading again -----------------------------------------------------------------------------------------------------------------------------

export interface HistoryOptions {
  db: pg.Pool
  cursor: ChainCursor
  log: Logger
}

/** Every call settles within a timeout of its own, and rejects with RetryableError where the source fails. Nothing that it says is believed as it is. */
export interface HistorySource extends Pick<ChainView, 'network' | 'hashAt' | 'lacks'> {
  /** Token code by contract; absent where tokens have none. */
  tokens?: ReadonlyMap<string, string>
  /** What links the blocks of these heights, ascending, some at a time. */
  links(from: number, to: number): AsyncIterable<Link[]>
  /** The blocks of these heights, ascending, some at a time. */
  blocks(from: number, to: number): AsyncIterable<ReadBlock[]>
  /** The block of a height, asked anew, of another server where there are several. */
  again(height: number): Promise<ReadBlock>
  close(): Promise<void>
}

export interface Link extends BlockRef {
  parentHash: string
}

/** Some heights at a time, ascending. */
export function* inSteps(from: number, to: number, perStep: number): Iterable<number[]> {
  for (let next = from; next <= to; next += perStep)
    yield Array.from({length: Math.min(perStep, to - next + 1)}, (_, i) => next + i)
}
