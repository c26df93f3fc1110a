// Lists, which the service gives page by page, newest first.
import {SluiceError} from './errors.ts'
import type {Call, Http, Query} from './http.ts'

/** As the service answers: the items, and where the next page begins; null on the last one. */
export interface Page<Item> {
  items: Item[]
  nextCursor: string | null
}

/**
 * A list that nothing is read of yet. `for await (const item of list)` reads all of it, page by page; what is added
 * meanwhile shifts nothing. `await list.page()` reads one page.
 */
export class List<Item> implements AsyncIterable<Item> {
  readonly #http: Http
  readonly #path: string
  /** Where the items are in an answer. */
  readonly #key: string
  readonly #query: Query

  constructor(http: Http, path: string, key: string, query: Query = {}) {
    this.#http = http
    this.#path = path
    this.#key = key
    this.#query = query
  }

  /** The first page, or the one at a cursor. */
  async page(cursor?: string | null, signal?: AbortSignal): Promise<Page<Item>> {
    const query = {...this.#query, ...(cursor && {cursor})}
    const call: Call = {method: 'GET', path: this.#path, query, signal}
    const reply = await this.#http.json<{next_cursor: string | null; [key: string]: unknown}>(call)
    const items = reply[this.#key]
    if (!Array.isArray(items)) throw new SluiceError(`GET ${this.#path}: the answer has no list ${this.#key}`)
    return {items, nextCursor: reply.next_cursor ?? null}
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Item> {
    for (let cursor: string | null = null; ; ) {
      const {items, nextCursor}: Page<Item> = await this.page(cursor)
      yield* items
      if (!nextCursor) return
      if (nextCursor === cursor) throw new SluiceError(`GET ${this.#path}: the list does not go on behind ${cursor}`)
      cursor = nextCursor
    }
  }
}
