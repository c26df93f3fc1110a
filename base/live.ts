// Live parts of pages: a stream of server-sent events for each open page. Promises: a stream says that there is news,
// and what it is only where whoever opened it may see that for as long as it is open; else the page asks, as whoever it
// is by then; a stream that has none says every 15 seconds that it lives; it ends with what it is about; one query a
// second finds the news of all open pages, and costs no more however many there are: of more than 500, each is told
// some seconds later; of many that have news, few are told at a time; nothing of this is in the path of money.
import type {ServerResponse} from 'node:http'

const pollMs = 1000
/** Asked about in one query; of more keys, each is asked about in its turn. */
const keysAtOnce = 500
/** Told in one go: what else the process does waits for so long. */
const toldAtOnce = 20
const quietMs = 15_000
/** Of what a reader has not taken; one that stands still takes nothing. */
const longestBufferBytes = 16 * 1024

/** Of a stream: what it is about, and how it is said. */
export interface About {
  key: string
  language?: string
}

interface Stream {
  about: About
  raw: ServerResponse
  /** What was known last; undefined before. */
  news: string | undefined
  wroteAt: number
}

export interface LiveOptions {
  /**
   * Asked once a second while pages are open: for each of these keys a text that changes whenever there is news; none
   * for a key that is gone.
   */
  ask(keys: string[]): Promise<Map<string, string>>
  /** What each of these is told with its news, in one line; nothing: that there is some. */
  say?(about: About[]): Promise<(string | undefined)[]>
  /** Called each time it cannot be asked; `isFirst` unless it failed the last time, too. */
  failed(error: unknown, isFirst: boolean): void
  /** Of more for one key, the oldest ends: a page opens its stream again when somebody looks at it. */
  streamsOfKey: number
  /** Of more, a new one is refused. */
  streams: number
}

export class Live {
  readonly #options: LiveOptions
  readonly #streams = new Map<string, Set<Stream>>()
  #open = 0
  /** Whose turn is still to come. */
  #waiting: string[] = []
  #timer: NodeJS.Timeout | undefined
  #isFailing = false
  #isClosed = false

  constructor(options: LiveOptions) {
    this.#options = options
  }

  /** Makes a response a stream, until the browser goes or the key is gone. */
  open(about: About, raw: ServerResponse, headers: Record<string, string> = {}): void {
    const {key} = about
    raw.on('error', () => {}) // the browser is gone; what was written is lost
    if (raw.destroyed || !raw.socket) return // it went before it had an answer, and nothing would say so any more
    if (this.#isClosed || this.#open >= this.#options.streams) {
      raw.writeHead(503, {...headers, 'retry-after': '30'}).end()
      return
    }
    // Without the last header, nginx would hold back what is written.
    const own = {'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no'}
    raw.writeHead(200, {...headers, ...own})
    raw.write(':\n\n')
    const streams = this.#streams.get(key) ?? new Set()
    const stream = {about, raw, news: undefined, wroteAt: performance.now()}
    streams.add(stream)
    this.#open++
    this.#streams.set(key, streams)
    raw.once('close', () => this.#forget(stream))
    const [oldest] = streams
    if (streams.size > this.#options.streamsOfKey) this.#end(oldest!)
    this.#timer ??= setTimeout(() => void this.#poll(), pollMs)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    for (const streams of this.#streams.values()) for (const {raw} of streams) raw.end()
  }

  #end(stream: Stream): void {
    this.#forget(stream)
    stream.raw.end()
  }

  #forget(stream: Stream): void {
    const {key} = stream.about
    const streams = this.#streams.get(key)
    if (!streams?.delete(stream)) return
    this.#open--
    if (streams.size === 0 && this.#streams.get(key) === streams) this.#streams.delete(key)
  }

  async #poll(): Promise<void> {
    try {
      if (this.#waiting.length === 0) this.#waiting = [...this.#streams.keys()]
      const keys = this.#waiting.splice(0, keysAtOnce)
      await this.#tell(keys, await this.#options.ask(keys))
      this.#isFailing = false
    } catch (error) {
      this.#options.failed(error, !this.#isFailing)
      this.#isFailing = true
    }
    this.#timer = this.#streams.size && !this.#isClosed ? setTimeout(() => void this.#poll(), pollMs) : undefined
  }

  async #tell(keys: string[], newsOf: Map<string, string>): Promise<void> {
    const told: Stream[] = []
    for (const key of keys) {
      const news = newsOf.get(key)
      for (const stream of this.#streams.get(key) ?? []) {
        if (stream.raw.writableLength > longestBufferBytes) stream.raw.destroy()
        else if (news === undefined && stream.wroteAt < performance.now() - pollMs) this.#end(stream)
        // Also at first: something may have happened since the page was made.
        else if (news !== undefined && news !== stream.news) told.push(stream)
        // For the page, and for proxies on the way.
        else if (stream.wroteAt < performance.now() - quietMs) write(stream, 'alive')
      }
    }
    while (told.length) await this.#say(told.splice(0, toldAtOnce), newsOf)
  }

  async #say(streams: Stream[], newsOf: Map<string, string>): Promise<void> {
    // Where it cannot be said, the page asks, and what is wrong is reported there: others must not wait for it.
    const said = (await this.#options.say?.(streams.map(({about}) => about)).catch(() => [])) ?? []
    for (const [n, stream] of streams.entries()) {
      stream.news = newsOf.get(stream.about.key)
      write(stream, 'news', said[n])
    }
  }
}

function write(stream: Stream, event: 'news' | 'alive', data = ''): void {
  stream.wroteAt = performance.now()
  stream.raw.write(`event: ${event}\ndata:${data}\n\n`)
}
