// Lists, which the service gives page by page, newest first.
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
  readonly #query: Query

  constructor(http: Http, path: string, query: Query = {}) {
    this.#http = http
    this.#path = path
    this.#query = query
  }

  /** The first page, or the one at a cursor. */
  async page(cursor?: string | null, signal?: AbortSignal): Promise<Page<Item>> {
    const query = {...this.#query, ...(cursor && {cursor})}
    const call: Call = {method: 'GET', path: this.#path, query, signal}
    const reply = await this.#http.json<{next_cursor: string | null; [key: string]: unknown}>(call)
    const items = Object.values(reply).find(value => Array.isArray(value)) as Item[]
    return {items, nextCursor: reply.next_cursor}
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Item> {
    for (let cursor: string | null = null; ; ) {
      const {items, nextCursor} = await this.page(cursor)
      yield* items
      if (nextCursor === null) return
      cursor = nextCursor
    }
  }
}
