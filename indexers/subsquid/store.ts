// The store of one chain: Subsquid's typeorm-store on tables that db/ owns. Promises: one transaction writes the rows
// of a block, the cursor, and what is needed to undo the block. The isolation level is READ COMMITTED, guarded by the
// status row's nonce. README.md lists what is private.
import {EventEmitter, once} from 'node:events'
import {Store, TypeormDatabase} from '@subsquid/typeorm-store'
import {DataSource, type EntityManager} from 'typeorm'
import {fromDatabase, noteOfDatabase} from '../../db/client/failure.ts'
import {Client} from '../../db/client/pool.ts'
import {entities} from '../entities.ts'
import type {Query} from '../look-up.ts'
import {batchDuration, noteInserts} from '../metrics.ts'

/** Private in typeorm-store. */
interface Internals {
  /** Reads where the store is, and makes its tables. */
  initTransaction(manager: EntityManager): Promise<unknown>
  getState(manager: EntityManager): Promise<unknown>
  /** Runs a transaction, and retries it if necessary. */
  submit: Submit
}
type Submit = (work: (manager: EntityManager) => Promise<void>) => Promise<void>

/** The schema of the store's bookkeeping for a chain (chain.install makes it). */
export const stateSchema = (chain: string): string => `squid_${chain.toLowerCase()}`

export class ChainDatabase extends TypeormDatabase {
  readonly #url: string
  readonly #chain: string
  readonly #commits = new EventEmitter()

  constructor(url: string, chain: string) {
    super({supportHotBlocks: true, stateSchema: stateSchema(chain), isolationLevel: 'READ COMMITTED'})
    this.#url = url
    this.#chain = chain
    const {submit} = this.#inside
    Object.assign(this, {
      // The original runs CREATE and ALTER statements. Our role may not run them, and the tables do not need them: only
      // the state is read.
      initTransaction: manager => this.#inside.getState(manager),
      submit: work => this.#counted(submit, work),
    } satisfies Partial<Internals>)
  }

  get #inside(): Internals {
    return this as unknown as Internals
  }

  /**
   * For blocks that the store can no longer undo: deletes their rows, and `write` inserts them again, in one
   * transaction. Rows that end up unchanged have no effect.
   */
  async replace(heights: number[], write: (store: Store) => Promise<void>): Promise<void> {
    await this.#inside.submit(async manager => {
      for (const [table, height] of [
        ['transfer', 'block_height'],
        ['confirmed_tx', 'block_height'],
        ['block', 'height'],
      ])
        await manager.query(`delete from ${table} where chain = $1 and ${height} = any($2)`, [this.#chain, heights])
      await write(new Store(() => manager))
    })
  }

  async #counted(submit: Submit, work: Parameters<Submit>[0]): Promise<void> {
    const end = batchDuration.startTimer({chain: this.#chain})
    let count = () => {}
    await submit.call(this, async manager => {
      count = noteInserts(manager, this.#chain)
      await work(manager)
    })
    count()
    end()
    this.#commits.emit('commit')
  }

  /** Resolves after the next commit, or with the signal. */
  readonly written = async (signal: AbortSignal): Promise<void> => {
    await once(this.#commits, 'commit', {signal}).catch(() => {})
  }

  protected override initializeDataSource(): Promise<DataSource> {
    const source = new DataSource({
      type: 'postgres',
      url: this.#url,
      entities,
      applicationName: `indexer-${this.#chain}`,
      poolSize: 1,
      connectTimeoutMS: 10_000,
      poolErrorHandler: noteOfDatabase, // the next statement notices a lost idle connection
      // The store's rollback writes bare table names, so the tables must be on the search_path.
      extra: {Client, options: '-c search_path=chain -c timezone=UTC'},
    })
    return fromDatabase(source.initialize())
  }
}

/** Runs statements in the transaction in which this store writes. */
export function queryOf(store: Store): Query {
  const {em} = store as unknown as {em(): EntityManager} // private
  return (sql, values) => em.call(store).query(sql, values)
}
