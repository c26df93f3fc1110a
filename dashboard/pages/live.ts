// Live parts: a stream of server-sent events for each open page. Promises: a stream says only that there is news, never
// what, and the page then asks for its part as whoever it is by then; a stream ends with its session; one query a
// second serves all open pages, however many there are; nothing of this is in the path of money.
import type {ServerResponse} from 'node:http'
import type pg from 'pg'
import type {Logger} from '../../base/log.ts'
import {inWords, isAway} from '../../db/client/failure.ts'
import type {Outage} from '../../db/client/outage.ts'

const pollMs = 1000
const quietMs = 15_000
/** A browser opens few pages at once. Of more, the oldest ends: it opens a stream again when somebody looks at it. */
const streamsOfSession = 20

interface Stream {
  raw: ServerResponse
  /** What the database said last; undefined before. */
  news: string | undefined
  wroteAt: number
}

export class Live {
  readonly #pool: pg.Pool
  readonly #log: Logger
  readonly #outage: Outage
  readonly #streams = new Map<string, Set<Stream>>()
  #timer: NodeJS.Timeout | undefined
  #isFailing = false
  #isClosed = false

  constructor(pool: pg.Pool, log: Logger, outage: Outage) {
    this.#pool = pool
    this.#log = log
    this.#outage = outage
  }

  /** Makes a response a stream, until the browser goes or the session ends. */
  open(token: string, raw: ServerResponse): void {
    raw.writeHead(200, {'content-type': 'text/event-stream', 'cache-control': 'no-store'})
    raw.write(':\n\n')
    const streams = this.#streams.get(token) ?? new Set()
    const stream = {raw, news: undefined, wroteAt: performance.now()}
    streams.add(stream)
    this.#streams.set(token, streams)
    raw.once('close', () => this.#forget(token, stream))
    const [oldest] = streams
    if (streams.size > streamsOfSession) oldest!.raw.end()
    this.#timer ??= setTimeout(() => void this.#poll(), pollMs)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    for (const streams of this.#streams.values()) for (const {raw} of streams) raw.end()
  }

  #forget(token: string, stream: Stream): void {
    const streams = this.#streams.get(token)
    streams?.delete(stream)
    if (streams?.size === 0) this.#streams.delete(token)
  }

  async #poll(): Promise<void> {
    try {
      this.#tell(await this.#ask())
      this.#isFailing = false
    } catch (error) {
      if (isAway(error)) this.#outage.failed(inWords(error))
      else if (!this.#isFailing) this.#log.warn({error: inWords(error)}, 'open pages get no news; trying again')
      this.#isFailing = true
    }
    this.#timer = this.#streams.size && !this.#isClosed ? setTimeout(() => void this.#poll(), pollMs) : undefined
  }

  /** What is new for each session that lives. */
  async #ask(): Promise<Map<string, string>> {
    const {rows} = await this.#pool.query<{token: string; news: string}>({
      name: 'news',
      text: 'select token, news from dashboard.news($1)',
      values: [[...this.#streams.keys()]],
    })
    return new Map(rows.map(({token, news}) => [token, news]))
  }

  #tell(newsOf: Map<string, string>): void {
    for (const [token, streams] of this.#streams) {
      const news = newsOf.get(token)
      for (const stream of streams) {
        if (news === undefined && stream.wroteAt < performance.now() - pollMs) stream.raw.end()
        else if (news !== undefined) tell(stream, news)
      }
    }
  }
}

function tell(stream: Stream, news: string): void {
  const isNew = stream.news !== news // also at first: something may have happened since the page was made
  stream.news = news
  const isQuiet = performance.now() - stream.wroteAt > quietMs
  if (!isNew && !isQuiet) return
  stream.raw.write(isNew ? 'event: news\ndata:\n\n' : ':\n\n') // a comment now and then shows proxies that the stream lives
  stream.wroteAt = performance.now()
}
