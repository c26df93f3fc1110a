// What a family of chains offers to main.ts.
import type pg from 'pg'
import type {Logger} from '../service/log.ts'
import type {ChainCursor} from './cursor.ts'
import type {ChainView} from './resume.ts'

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
