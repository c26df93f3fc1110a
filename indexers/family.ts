// What a family of chains offers to those who follow it.
import type pg from 'pg'
import type {Logger} from '../base/log.ts'
import type {BlockRef, ChainCursor} from './cursor.ts'
import type {FinalitySource} from './finality.ts'

/** What is asked of a chain's source before its blocks are. */
export interface ChainView extends FinalitySource {
  /** CAIP-2 id of the network that it is on. */
  network(): Promise<string>
  /** The block at a height; undefined where it has none. */
  blockAt(height: number): Promise<(BlockRef & {time: Date}) | undefined>
  /** The hashes at several heights, undefined where it has no block. */
  hashesAt(heights: number[]): Promise<(string | undefined)[]>
  /** Why it cannot give a block with everything that is read of it, in its words; undefined if it can. */
  lacks(height: number): Promise<string | undefined>
  blockTimes: BlockTimes
}

/** What the times in blocks are worth. */
export interface BlockTimes {
  /** The median of so many in a row never falls. */
  medianOf: number
  /** An honest block was made less than this after the time that it bears, by the database's clock. */
  marginMs: number
}

export interface ReaderOptions {
  /** The database, and connections to it. */
  url: string
  db: pg.Pool
  cursor: ChainCursor
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
