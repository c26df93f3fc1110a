// Reading and changing through named prepared statements, each of which the server parses once per connection. Promises: identical reads
// that are waiting for a connection are answered by one execution, which begins after all of them were asked for, so none of them is
// older than its request (merchants poll: many ask for the same page at once); a refusal by the database costs no connection.
import pg from 'pg'
import {openPool} from '../db/pool.ts'
import type {Logger} from '../service/log.ts'

export interface Statement {
  readonly name: string
  readonly text: string
}

export function statement(name: string, text: string): Statement {
  return {name, text}
}

type Value = string | number | boolean | null | string[]

export class Database {
  readonly #pool: pg.Pool
  /** Reads that have not begun, by statement and values. */
  readonly #waiting = new Map<string, Promise<unknown[] | undefined>>()

  constructor(url: string, {max, log}: {max: number; log?: Logger}) {
    this.#pool = openPool(url, {name: 'sluice-api', max, log})
    this.#pool.on('connect', client => client.on('error', () => {})) // while in use: the statement that it fails tells
  }

  /** The first row, as an array of its columns; undefined if there is none. Must change nothing. */
  read<Row extends unknown[]>(query: Statement, values: Value[]): Promise<Row | undefined> {
    const key = `${query.name} ${values.join(' ')}`
    let answer = this.#waiting.get(key)
    if (!answer) {
      answer = this.#run(query, values, () => this.#waiting.delete(key))
      this.#waiting.set(key, answer)
    }
    return answer as Promise<Row | undefined>
  }

  /** The first row of a statement that changes something. */
  change<Row extends unknown[]>(query: Statement, values: Value[]): Promise<Row | undefined> {
    return this.#run(query, values) as Promise<Row | undefined>
  }

  /** Every row of a statement. */
  async rows<Row extends unknown[]>({name, text}: Statement): Promise<Row[]> {
    return (await this.#pool.query<Row>({name, text, rowMode: 'array'})).rows
  }

  close(): Promise<void> {
    return this.#pool.end()
  }

  async #run({name, text}: Statement, values: Value[], onBegin?: () => void): Promise<unknown[] | undefined> {
    const client = await this.#pool.connect().finally(onBegin)
    try {
      const {rows} = await client.query<unknown[]>({name, text, values, rowMode: 'array'})
      client.release()
      return rows[0]
    } catch (error) {
      // pool.query closes the connection after every error, a refusal by a function of ours included.
      const isRefusal = error instanceof pg.DatabaseError && error.severity === 'ERROR'
      client.release(!isRefusal)
      throw error
    }
  }
}

/** The only column of a statement that always has a row. */
export async function value<T>(row: Promise<[T] | undefined>): Promise<T> {
  return (await row)![0]
}
