// The only client of Electrum servers. Promises: every request gets a result or an error within its timeout, also while
// there is no connection. There is one connection at a time; when it ends, the next server is tried, with backoff and
// jitter. Subscriptions are renewed on a new connection, and only differences are reported. The number of calls in
// flight is limited. Responses are checked only for their shape, and the server for its network. A caller that detects
// a false response calls drop().
import {EventEmitter, once} from 'node:events'
import {setTimeout as sleep} from 'node:timers/promises'
import {z} from 'zod'
import {PermanentError, RetryableError} from '../../base/errors.ts'
import type {Logger} from '../../base/log.ts'
import {ElectrumConnection, parseServer, quote, type Server} from './electrum-connection.ts'

export const maxInFlight = 500
const firstBackoffMs = 250
const maxBackoffMs = 10_000
/** If a connection lasted this long, the backoff begins again from the start. */
const steadyMs = 5_000
/** Public servers and some private ones refuse more. */
const manySubscriptions = 20_000

const Status = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .nullable()
const Notification = z.tuple([z.string(), Status])
const ServerError = z.object({code: z.int().catch(0), message: z.string()})

/** The error that a server returned for a call. */
export class ElectrumError extends RetryableError {
  override name = 'ElectrumError'
  readonly code: number

  constructor(method: string, error: unknown) {
    const {code, message} = ServerError.safeParse(error).data ?? {code: 0, message: quote(error)}
    super(`the Electrum server refused ${method}: ${quote(message)}`)
    this.code = code
  }
}

export interface ElectrumCall {
  method: string
  params: unknown[]
}

interface Question extends ElectrumCall {
  /** Takes the result; throws if it does not have the expected shape. */
  take(result: unknown): void
  fail(error: RetryableError): void
  deadline: NodeJS.Timeout
}

export class Electrum {
  readonly #servers: Server[]
  readonly #options: {genesis: string; ca?: string; timeoutMs: number}
  readonly #log: Logger
  readonly #events = new EventEmitter()
  readonly #closing = new AbortController()
  #connection: ElectrumConnection | undefined
  #generation = 0
  /** Requests that are not sent yet, in order. */
  readonly #queue = new Set<Question>()
  readonly #statuses = new Map<string, string | null>()
  readonly #changed = new Set<string>()

  /**
   * Connects at once, and stays connected until close(). `genesis` is the hash of block 0, `ca` the path of a PEM file.
   */
  constructor({
    urls,
    log,
    timeoutMs = 30_000,
    ...options
  }: {
    urls: string[]
    genesis: string
    log: Logger
    ca?: string
    timeoutMs?: number
  }) {
    if (urls.length === 0) throw new PermanentError('the settings name no Electrum server')
    this.#servers = urls.map(parseServer)
    this.#options = {...options, timeoutMs}
    this.#log = log
    void this.#stayConnected()
  }

  /** The number of usable connections so far; 0 before the first. */
  get generation(): number {
    return this.#generation
  }

  /** Rejects with ElectrumError if the server refuses, otherwise with another RetryableError. */
  async request<T>(method: string, params: unknown[], schema: z.ZodType<T>): Promise<T> {
    return await new Promise<T>((resolve, reject) => {
      this.#ask({method, params}, result => resolve(schema.parse(result)), reject)
    })
  }

  /**
   * Sends all calls, a limited number at a time. A refused call has its error in its place; any other failure rejects
   * all.
   */
  async batch<T>(calls: ElectrumCall[], schema: z.ZodType<T>): Promise<(T | ElectrumError)[]> {
    return await inWindow(calls, ({method, params}) =>
      this.request(method, params, schema).catch(error => {
        if (error instanceof ElectrumError) return error
        throw error
      }),
    )
  }

  /**
   * Subscribes to scripthashes that are not subscribed, and asks for the status of the others again. Rejects if the
   * server refuses one.
   */
  async subscribeScripthashes(scripthashes: string[]): Promise<void> {
    const before = this.#statuses.size
    await inWindow(scripthashes, scripthash => this.#subscribe(scripthash))
    if (before <= manySubscriptions && this.#statuses.size > manySubscriptions) {
      this.#log.warn(
        {subscriptions: this.#statuses.size},
        'many Electrum servers refuse this many subscriptions; use your own bitcoind instead (BTC_SOURCE=node)',
      )
    }
  }

  /** The newest known status of a subscribed scripthash; null: it has no history. */
  statuses(): ReadonlyMap<string, string | null> {
    return this.#statuses
  }

  /**
   * The scripthashes whose status has changed since the last call, each once; a status is null at first. A status that
   * changed and changed back counts too: the caller may hold a history that it read in between.
   */
  takeChanged(): string[] {
    const changed = [...this.#changed]
    this.#changed.clear()
    return changed
  }

  /**
   * Resolves at the next notification or connection, when `signal` aborts, and on close; never rejects. It only wakes
   * the caller up.
   */
  async changed(signal?: AbortSignal): Promise<void> {
    if (this.#closing.signal.aborted) return
    await once(this.#events, 'change', {signal}).catch(() => {})
  }

  /**
   * Ends the connection because of a false response; with `generation`, only if that connection is still the current
   * one.
   */
  drop(reason: string, generation = this.#generation): void {
    if (generation === this.#generation) this.#connection?.end(reason)
  }

  close(): void {
    this.#closing.abort()
    for (const question of this.#queue) this.#fail(question, new RetryableError('the Electrum client is closed'))
    this.#events.emit('change')
  }

  async #stayConnected(): Promise<void> {
    const {signal} = this.#closing
    let failures = 0
    for (let turn = 0; !signal.aborted; turn++) {
      const server = this.#servers[turn % this.#servers.length]!
      const {reason, stoodMs} = await this.#serve(server)
      if (signal.aborted) return
      failures = stoodMs >= steadyMs ? 1 : failures + 1
      const retryInMs = Math.round(backoffMs(failures, this.#servers.length))
      this.#log.warn({server: nameOf(server), reason, retryInMs}, 'not connected to an Electrum server; trying another')
      await sleep(retryInMs, undefined, {signal}).catch(() => {})
    }
  }

  /** Resolves when the connection to the server has ended. */
  async #serve(server: Server): Promise<{reason: string; stoodMs: number}> {
    const connection = new ElectrumConnection(server, this.#options)
    const close = () => connection.end('it was closed')
    this.#closing.signal.addEventListener('abort', close)
    try {
      const software = await connection.open()
      const since = performance.now()
      this.#use(connection)
      this.#log.info({server: nameOf(server), software}, 'connected to an Electrum server')
      return {reason: await connection.ended, stoodMs: performance.now() - since}
    } catch (error) {
      return {reason: (error as Error).message, stoodMs: 0}
    } finally {
      this.#closing.signal.removeEventListener('abort', close)
    }
  }

  #use(connection: ElectrumConnection): void {
    this.#connection = connection
    this.#generation++
    connection.subscribe.on('blockchain.headers.subscribe', () => this.#events.emit('change'))
    connection.subscribe.on('blockchain.scripthash.subscribe', params => {
      const {success, data} = Notification.safeParse(params)
      if (!success) return connection.end(`sent a notification of another shape: ${quote(params)}`)
      const [scripthash, status] = data
      if (this.#statuses.has(scripthash)) this.#note(scripthash, status)
    })
    this.#events.emit('change')
    this.#send()
    inWindow([...this.#statuses.keys()], scripthash => this.#subscribe(scripthash)).catch(error => {
      // A server must notify about all of them.
      connection.end((error as Error).message)
    })
  }

  async #subscribe(scripthash: string): Promise<void> {
    const call = {method: 'blockchain.scripthash.subscribe', params: [scripthash]}
    await new Promise<void>((resolve, reject) => {
      const take = (result: unknown) => {
        // Stored at once, not when the promise is awaited: the next line may already be a notification of a newer
        // status.
        this.#note(scripthash, Status.parse(result))
        resolve()
      }
      this.#ask(call, take, reject)
    })
  }

  #note(scripthash: string, status: string | null): void {
    const before = this.#statuses.get(scripthash) ?? null
    this.#statuses.set(scripthash, status)
    if (status === before) return
    this.#changed.add(scripthash)
    this.#events.emit('change')
  }

  #ask(call: ElectrumCall, take: Question['take'], fail: Question['fail']): void {
    if (this.#closing.signal.aborted) return void fail(new RetryableError('the Electrum client is closed'))
    const {timeoutMs} = this.#options
    const deadline = setTimeout(() => {
      this.#fail(question, new RetryableError(`no Electrum server responded to ${call.method} within ${timeoutMs} ms`))
    }, timeoutMs)
    const question: Question = {...call, take, fail, deadline}
    this.#queue.add(question)
    this.#send()
  }

  /** Sends waiting requests up to the limit in flight. The others are sent when responses arrive. */
  #send(): void {
    const connection = this.#connection
    for (const question of this.#queue) {
      if (!connection?.status || connection.withoutResponse >= maxInFlight) return
      this.#queue.delete(question)
      connection.ask(question.method, question.params, (error, result) => {
        this.#settle(question, connection, error, result)
        this.#send()
      })
    }
  }

  #settle(question: Question, connection: ElectrumConnection, error: unknown, result: unknown): void {
    if (error instanceof Error) {
      return void this.#fail(
        question,
        new RetryableError(`the connection ended before the response to ${question.method}`),
      )
    }
    if (error) return void this.#fail(question, new ElectrumError(question.method, error))
    try {
      question.take(result)
      clearTimeout(question.deadline)
    } catch {
      const reason = `sent an unexpected response to ${question.method}: ${quote(result)}`
      connection.end(reason)
      this.#fail(question, new RetryableError(`the Electrum server ${reason}`))
    }
  }

  #fail(question: Question, error: RetryableError): void {
    clearTimeout(question.deadline)
    this.#queue.delete(question)
    question.fail(error)
  }
}

/** Requests each item, a limited number at a time, so that other callers get their turn. The first failure ends it. */
async function inWindow<T, R>(items: T[], ask: (item: T) => Promise<R>): Promise<R[]> {
  const responses = new Array<R>(items.length)
  let next = 0
  const worker = async () => {
    while (next < items.length) {
      const index = next++
      responses[index] = await ask(items[index]!)
    }
  }
  try {
    await Promise.all(Array.from({length: Math.min(items.length, maxInFlight)}, worker))
  } finally {
    next = items.length
  }
  return responses
}

/** The wait before the next attempt. Every server is tried once before the wait grows. */
function backoffMs(failures: number, servers: number): number {
  const rounds = Math.floor((failures - 1) / servers)
  return Math.min(maxBackoffMs, firstBackoffMs * 2 ** rounds) * (0.5 + Math.random() / 2)
}

function nameOf({host, port, isSecure}: Server): string {
  return `${isSecure ? 'tls' : 'tcp'}://${host}:${port}`
}
