// Reads and changes through named prepared statements; the server parses each once per connection. Promises: identical
// reads that wait for a connection share one execution. It begins after all their requests, so no reply is older than
// its request. (Merchants poll, so many ask for the same page at once.) A refusal by the database costs no connection.
// A database that does not respond is an error within half a minute; once it is known to be away, within five seconds.
import pg from 'pg'
import type {Logger} from '../base/log.ts'
import {openPool, type Pool} from '../db/client/pool.ts'

export interface Statement {
  readonly name: string
  readonly text: string
}

export function statement(name: string, text: string): Statement {
  return {name, text}
}

const connectTimeoutMs = 5_000

interface DatabaseOptions {
  max: number
  log?: Logger
  timeoutMs?: number
  /** Any server will do, also a standby. */
  isForReads?: boolean
}

type Value = string | number | boolean | null | string[]

export class Database {
  readonly #pool: Pool
  /** Reads that have not begun, by statement and values. */
  readonly #waiting = new Map<string, Promise<unknown[][]>>()

  /** Connections in use, with the time since when. */
  readonly #inUse = new Map<pg.PoolClient, number>()
  readonly #watch: NodeJS.Timeout

  constructor(url: string, {max, log, timeoutMs = 25_000, isForReads}: DatabaseOptions) {
    this.#pool = openPool(url, {name: 'sluice-api', max, log, queryTimeoutMs: 0, connectTimeoutMs, isForReads})
    this.#watch = setInterval(() => this.#cutOlderThan(timeoutMs), timeoutMs / 5)
    this.#watch.unref()
    this.#pool.on('connect', client => client.on('error', () => {})) // while in use, the failing statement reports the error
  }

  /** The first row as an array of its columns; undefined if there is none. The statement must change nothing. */
  async read<Row extends unknown[]>(query: Statement, values: Value[]): Promise<Row | undefined> {
    const key = JSON.stringify([query.name, values]) // the values name the merchant
    let response = this.#waiting.get(key)
    if (!response) {
      response = this.#run(query, values, () => this.#waiting.delete(key))
      this.#waiting.set(key, response)
    }
    return (await response)[0] as Row | undefined
  }

  /** The first row of a statement that changes something. */
  async change<Row extends unknown[]>(query: Statement, values: Value[]): Promise<Row | undefined> {
    return (await this.#run(query, values))[0] as Row | undefined
  }

  /** Every row of a statement. */
  rows<Row extends unknown[]>(query: Statement, values: Value[] = []): Promise<Row[]> {
    return this.#run(query, values) as Promise<Row[]>
  }

  /** Connections, and statements that wait for one. */
  get usage(): {inUse: number; idle: number; waiting: number} {
    const {totalCount, idleCount, waitingCount} = this.#pool
    return {inUse: totalCount - idleCount, idle: idleCount, waiting: waitingCount}
  }

  /** Closes every connection at once; statements under way fail. Later statements open new ones. */
  cut(): void {
    this.#pool.cut()
  }

  close(): Promise<void> {
    clearInterval(this.#watch)
    return this.#pool.end()
  }

  // One timer for all statements: one per statement costs a twelfth of the throughput.
  #cutOlderThan(timeoutMs: number): void {
    for (const [client, since] of this.#inUse) {
      if (performance.now() - since > timeoutMs) (client as pg.PoolClient & pg.Client).end() // fails the statement
    }
  }

  async #run({name, text}: Statement, values: Value[], onBegin?: () => void): Promise<unknown[][]> {
    const client = await this.#pool.connect().finally(onBegin)
    this.#inUse.set(client, performance.now())
    let isBroken = false
    try {
      return (await client.query<unknown[]>({name, text, values, rowMode: 'array'})).rows
    } catch (error) {
      // A refusal, even by our own functions, leaves the connection usable. (pool.query would close it after any
      // error.)
      isBroken = !(error instanceof pg.DatabaseError && error.severity === 'ERROR')
      throw error
    } finally {
      this.#inUse.delete(client)
      client.release(isBroken)
    }
  }
}

/** The only column of a statement that always has a row. */
export async function value<T>(row: Promise<[T] | undefined>): Promise<T> {
  return (await row)![0]
}
