// The connection that a process holds for as long as it works: for locks, for notifications, and to notice that the
// database is away. Promises: it is opened only to a server that takes writes; until there is one, the process waits
// inside and tries again, so it works within a second of the database. A server that dies is noticed at once, one that
// is no primary any more within two seconds, and one that is silent (frozen, or cut off) within ten. Whoever loses it
// must drop the process's other connections, too: they may not have noticed.
import {setTimeout as sleep} from 'node:timers/promises'
import type pg from 'pg'
import {endWhenAsked} from '../../base/lifecycle.ts'
import {inWords, isAway} from './failure.ts'
import type {Outage} from './outage.ts'
import {lockConnection, type Pool} from './pool.ts'

const retryMs = 250
/** Less than the ten seconds of other connections: a new primary may be there meanwhile. */
const openTimeoutMs = 3000
const beatMs = 2000
/** Counted in beats and not by the clock, because this process may have stood still itself. */
const mostSilentBeats = 4

/** Also true on a standby. */
const isReadOnly = `select current_setting('transaction_read_only')::boolean as answer`

export interface HoldOptions {
  url: string
  name: string
  outage: Outage
  /** Called once, with the reason, when the connection is gone. */
  onLost: (reason: string) => void
  /** Ends the waiting. */
  signal?: AbortSignal
}

/**
 * Resolves once the connection is open, however long the database is away. Rejects if the database refuses us, or the
 * signal is aborted.
 */
export async function holdConnection({url, name, outage, onLost, signal}: HoldOptions): Promise<Held> {
  for (;;) {
    signal?.throwIfAborted()
    const client = lockConnection(url, name, {connectionTimeoutMillis: openTimeoutMs})
    try {
      await client.connect()
      return new Held(client, outage, onLost)
    } catch (error) {
      if (!isAway(error)) throw error
      outage.failed(inWords(error))
    }
    client.end().catch(() => {})
    await sleep(retryMs, undefined, {signal})
  }
}

/** Resolves when the database takes writes. */
export async function untilWritable(options: Omit<HoldOptions, 'onLost'>): Promise<void> {
  const held = await holdConnection({...options, onLost: () => {}})
  await held.release()
}

/**
 * For a process that stays up while the database is away. Resolves when the database takes writes; from then on the
 * pool is cut whenever it is away. When the process is asked to end, `stop` does before the pool.
 */
export async function stayUp(pool: Pool, to: Pick<HoldOptions, 'url' | 'name' | 'outage'>, stop: () => Promise<void>) {
  const ending = new AbortController()
  const options = {...to, signal: ending.signal}
  await untilWritable(options)
  const following = cutWhenAway(pool, options)
  endWhenAsked(async () => {
    ending.abort()
    await stop()
    await following
    await pool.end()
  })
}

/** Cuts a pool whenever the database is away, until the signal is aborted: its connections may not have noticed. */
async function cutWhenAway(
  pool: Pool,
  {signal, ...options}: Omit<HoldOptions, 'onLost'> & {signal: AbortSignal},
): Promise<void> {
  while (!signal.aborted) {
    const {promise: lost, resolve} = Promise.withResolvers<string>()
    const release = () => resolve('the process ends')
    try {
      const held = await holdConnection({...options, signal, onLost: resolve})
      signal.addEventListener('abort', release, {once: true})
      const reason = await lost
      if (signal.aborted) return await held.release()
      options.outage.failed(reason)
    } catch (error) {
      if (signal.aborted) return
      options.outage.failed(inWords(error))
      await sleep(retryMs, undefined, {signal}).catch(() => {})
    }
    signal.removeEventListener('abort', release)
    pool.cut()
  }
}

export class Held {
  readonly client: pg.Client
  readonly #beat: NodeJS.Timeout
  readonly #onLost: (reason: string) => void
  #isOver = false

  constructor(client: pg.Client, outage: Outage, onLost: (reason: string) => void) {
    this.client = client
    this.#onLost = onLost
    client.on('error', error => this.#lose(inWords(error)))
    client.on('end', () => this.#lose('the connection to the database ended'))
    this.#beat = this.#startBeat(outage)
    outage.works()
  }

  /** Closes it; onLost is not called any more. */
  async release(): Promise<void> {
    this.#stop()
    await this.client.end()
  }

  #startBeat(outage: Outage): NodeJS.Timeout {
    let silentBeats = 0
    return setInterval(async () => {
      if (silentBeats >= mostSilentBeats)
        return this.#lose(`the database has not responded for ${(silentBeats * beatMs) / 1000} s`)
      if (silentBeats++ > 0) return // it is still being asked
      const refusal = await whyUnusable(this.client).catch(inWords)
      silentBeats = 0
      if (refusal !== undefined) this.#lose(refusal)
      else outage.works()
    }, beatMs)
  }

  #stop(): void {
    this.#isOver = true
    clearInterval(this.#beat)
  }

  #lose(reason: string): void {
    if (this.#isOver) return
    this.#stop()
    this.client.end().catch(() => {})
    this.#onLost(reason)
  }
}

async function whyUnusable(client: pg.Client): Promise<string | undefined> {
  const {rows} = await client.query<{answer: boolean}>(isReadOnly)
  return rows[0]!.answer ? 'the server accepts no writes: it is a standby, or is set to read only' : undefined
}
