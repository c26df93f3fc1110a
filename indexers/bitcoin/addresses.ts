// The watched addresses, including new ones. Promises: a committed address is handed on at once, by a notification of
// the database. If the notification is lost, it is handed on within a minute, or when the connection is opened again.
import type pg from 'pg'
import type {ChainCode} from '../../chains/registry.ts'
import {lockConnection} from '../../db/client/pool.ts'

const readAgainMs = 60_000

export async function watchedAddresses(db: pg.Pool, chain: string): Promise<string[]> {
  const {rows} = await db.query<{address: string}>('select address from app.address where chain = $1', [chain])
  return rows.map(({address}) => address)
}

export class AddressFeed {
  readonly #db: pg.Pool
  readonly #url: string
  readonly #chain: ChainCode
  readonly #taken = new Set<string>()
  readonly #added = new Set<string>()
  #connection: pg.Client | undefined
  #readAt = 0
  #wake = () => {}

  constructor(db: pg.Pool, url: string, chain: ChainCode) {
    this.#db = db
    this.#url = url
    this.#chain = chain
  }

  /** All addresses that were not taken before. */
  async take(): Promise<string[]> {
    if (!this.#connection) await this.#listen()
    if (Date.now() - this.#readAt > readAgainMs) await this.#readAll()
    const fresh = [...this.#added].filter(address => !this.#taken.has(address))
    this.#added.clear()
    for (const address of fresh) this.#taken.add(address)
    return fresh
  }

  /** Resolves when there may be new addresses to take. */
  changed(signal: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      this.#wake = resolve
      if (this.#added.size || signal.aborted) resolve()
      signal.addEventListener('abort', () => resolve(), {once: true})
    })
  }

  async close(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    await connection?.end().catch(() => {})
  }

  async #listen(): Promise<void> {
    const connection = lockConnection(this.#url, `indexer-${this.#chain}-addresses`)
    const lost = () => {
      if (this.#connection === connection) this.#connection = undefined
    }
    connection.on('error', lost)
    connection.on('end', lost)
    connection.on('notification', ({payload}) => {
      if (payload) this.#added.add(payload)
      this.#wake()
    })
    try {
      await connection.connect()
      await connection.query('listen address_added')
    } catch (error) {
      await connection.end().catch(() => {})
      throw error
    }
    this.#connection = connection
    this.#readAt = 0
  }

  async #readAll(): Promise<void> {
    const readAt = Date.now()
    for (const address of await watchedAddresses(this.#db, this.#chain))
      if (!this.#taken.has(address)) this.#added.add(address)
    this.#readAt = readAt
  }
}
