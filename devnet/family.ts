// What the process of a local chain (main.ts) asks of a family of chains.
import type {Logger} from '../base/log.ts'
import type {Devnet} from './file.ts'
import type {JournalFile} from './sqlite.ts'

export interface ServeOptions {
  /** Of the chain; it exists and is no symbolic link. */
  directory: string
  blockIntervalMs: number
  log: Logger
}

type Without<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never

export interface Serving {
  /** What devnet.json says of it. */
  where: Without<Devnet, 'pid' | 'started_at'>
  mine(): Promise<unknown>
  /** Ends its servers and its engine. */
  close(): Promise<void>
}

export interface Opened {
  journal: JournalFile
  /** Goes on with the chain of the journal, or begins it, and serves it. */
  serve(options: ServeOptions): Promise<Serving>
}

/** Opens the journal of a chain. Throws JournalInUse when another process has it. */
export type Open = (file: string) => Opened
