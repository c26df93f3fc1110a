// The parts of a family of chains in devnet/: each family is a folder here, and one line in families.ts.
import type {Logger} from '../base/log.ts'
import type {ChainCode} from '../chains/registry.ts'
import type {LocalClient} from './client.ts'
import type {Devnet} from './file.ts'
import type {JournalFile} from './sqlite.ts'

export interface DevnetFamily<Client extends LocalClient = LocalClient> {
  /** The programs that its chains run on. */
  nodes: readonly string[]
  /** The default time between blocks. */
  blockIntervalMs: number
  /** Connects to a chain by its control_url. Rejects if there is none, or another server. */
  connect(url: string): Promise<Client>
  /**
   * Opens the journal of a chain, to be served on this node, or on any available one. Rejects with JournalInUse if
   * another process has it.
   */
  open(chain: ChainCode, file: string, node?: string): Promise<Opened>
}

export interface Opened {
  journal: JournalFile
  /** Continues the chain of the journal, or begins it, and serves it. */
  serve(options: ServeOptions): Promise<Serving>
}

export interface ServeOptions {
  /** The directory of the chain; it exists and is no symbolic link. */
  directory: string
  blockIntervalMs: number
  log: Logger
}

export interface Serving {
  /** Its entry in devnet.json. */
  where: Omit<Devnet, 'chain' | 'pid' | 'started_at'>
  mine(): Promise<unknown>
  /** Ends its servers and its engine. */
  close(): Promise<void>
}
