// What a family of chains is in devnet/: each is a folder here, and one line in families.ts.
import type {Logger} from '../base/log.ts'
import type {ChainCode} from '../chains/registry.ts'
import type {LocalClient} from './client.ts'
import type {Devnet} from './file.ts'
import type {JournalFile} from './sqlite.ts'

export interface DevnetFamily<Client extends LocalClient = LocalClient> {
  /** The programs that its chains run on. */
  nodes: readonly string[]
  /** From block to block, where nothing else is asked for. */
  blockIntervalMs: number
  /** To a chain by its control_url. Rejects where nothing, or something else, answers there. */
  connect(url: string): Promise<Client>
  /** Opens the journal of a chain, to be served on this node, or on one that is here. Rejects with JournalInUse when another process has it. */
  open(chain: ChainCode, file: string, node?: string): Promise<Opened>
}

export interface Opened {
  journal: JournalFile
  /** Goes on with the chain of the journal, or begins it, and serves it. */
  serve(options: ServeOptions): Promise<Serving>
}

export interface ServeOptions {
  /** Of the chain; it exists and is no symbolic link. */
  directory: string
  blockIntervalMs: number
  log: Logger
}

export interface Serving {
  /** What devnet.json says of it. */
  where: Omit<Devnet, 'chain' | 'pid' | 'started_at'>
  mine(): Promise<unknown>
  /** Ends its servers and its engine. */
  close(): Promise<void>
}
