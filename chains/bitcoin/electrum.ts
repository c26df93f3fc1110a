// The one way to ask Electrum servers. Promises: every question settles within its timeout, also while there is no connection; there is
// one connection at a time, and when it ends the next server is tried, with backoff and jitter; what was subscribed is subscribed again, and
// only differences are reported; a limited number of calls is in flight. A server's word is not checked here beyond its shape and its
// network: who finds a lie calls drop().
import {EventEmitter, once} from 'node:events'
import {setTimeout as sleep} from 'node:timers/promises'
import {z} from 'zod'
import {PermanentError, RetryableError} from '../../base/errors.ts'
import type {Logger} from '../../base/log.ts'
import {ElectrumConnection, parseServer, quote, type Server} from './electrum-connection.ts'

export const maxInFlight = 500
const firstBackoffMs = 250
const maxBackoffMs = 10_000
/** A connection that stood for so long was no failure: the backoff begins anew. */
const steadyMs = 5_000
/** Public servers, and some private ones, refuse more. */
const manySubscriptions = 20_000

const Status = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .nullable()
const Notification = z.tuple([z.string(), Status])
const ServerError = z.object({code: z.int().catch(0), message: z.string()})

/** What a server answered to a call instead of a result. */
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
  /** Takes the result, and throws if it is not of the shape that is expected. */
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
  /** Asked and not sent, in order. */
  readonly #queue = new Set<Question>()
  readonly #statuses = new Map<string, string | null>()
  readonly #changed = new Set<string>()

  /** Connects at once, and stays connected until close(). `genesis` is the hash of block 0, `ca` the path of a PEM file. */
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
    if (urls.length === 0) throw new PermanentError('no Electrum server is named')
    this.#servers = urls.map(parseServer)
    this.#options = {...options, timeoutMs}
    this.#log = log
    void this.#stayConnected()
  }

  /** Rises with each connection that can be used; 0 before the first. */
  get generation(): number {
    return this.#generation
  }

  /** Rejects with ElectrumError when the server refuses, else with another RetryableError. */
  async request<T>(method: string, params: unknown[], schema: z.ZodType<T>): Promise<T> {
    return await new Promise<T>((resolve, reject) => {
      this.#ask({method, params}, result => resolve(schema.parse(result)), reject)
    })
  }

  /** Asks all, some at a time. What the server refuses has its error in its place; anything else that goes wrong rejects all. */
  async batch<T>(calls: ElectrumCall[], schema: z.ZodType<T>): Promise<(T | ElectrumError)[]> {
    return await inWindow(calls, ({method, params}) =>
      this.request(method, params, schema).catch(error => {
        if (error instanceof ElectrumError) return error
        throw error
      }),
    )
  }

  /** Subscribes to those that are not subscribed, and asks the others for their status again. Rejects if the server refuses one. */
  async subscribeScripthashes(scripthashes: string[]): Promise<void> {
    const before = this.#statuses.size
    await inWindow(scripthashes, scripthash => this.#subscribe(scripthash))
    if (before <= manySubscriptions && this.#statuses.size > manySubscriptions) {
      this.#log.warn(
        {subscriptions: this.#statuses.size},
        'many Electrum servers refuse so many subscriptions; with BTC_SOURCE=node blocks are scanned instead',
      )
    }
  }

  /** The newest status that is known of what is subscribed; null says that there is no history. */
  statuses(): ReadonlyMap<string, string | null> {
    return this.#statuses
  }

  /**
   * Those whose status became another one (it is null at first) since they were last taken, each once. Also those whose status is what it was
   * before: who asked for something meanwhile may hold what belongs to the status between.
   */
  takeChanged(): string[] {
    const changed = [...this.#changed]
    this.#changed.clear()
    return changed
  }

  /** Resolves at the next notification or connection, when `signal` aborts, and at the end; never rejects. It is a wake-up and says nothing. */
  async changed(signal?: AbortSignal): Promise<void> {
    if (this.#closing.signal.aborted) return
    await once(this.#events, 'change', {signal}).catch(() => {})
  }

  /** Gives up the connection, or that of `generation` if it is still there, because of what the server answered. */
  drop(reason: string, generation = this.#generation): void {
    if (generation === this.#generation) this.#connection?.end(reason)
  }

  close(): void {
    this.#closing.abort()
    for (const question of this.#queue)
      this.#fail(question, new RetryableError('no more questions to Electrum servers'))
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
      this.#log.warn({server: nameOf(server), reason, retryInMs}, 'no connection to an Electrum server')
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
      // A server that does not tell of all of them is of no use.
      connection.end((error as Error).message)
    })
  }

  async #subscribe(scripthash: string): Promise<void> {
    const call = {method: 'blockchain.scripthash.subscribe', params: [scripthash]}
    await new Promise<void>((resolve, reject) => {
      const take = (result: unknown) => {
        // At once, not when the promise is looked at: a notification of a newer status may be in the next line.
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
    if (this.#closing.signal.aborted) return void fail(new RetryableError('no more questions to Electrum servers'))
    const {timeoutMs} = this.#options
    const deadline = setTimeout(() => {
      this.#fail(question, new RetryableError(`no Electrum server answered ${call.method} within ${timeoutMs} ms`))
    }, timeoutMs)
    const question: Question = {...call, take, fail, deadline}
    this.#queue.add(question)
    this.#send()
  }

  /** Sends what may be sent. Who waits for a place in flight is sent with the next answer. */
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
        new RetryableError(`the connection ended before the answer to ${question.method}`),
      )
    }
    if (error) return void this.#fail(question, new ElectrumError(question.method, error))
    try {
      question.take(result)
      clearTimeout(question.deadline)
    } catch {
      const reason = `answered ${question.method} with something else: ${quote(result)}`
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

/** Asks for each item, only so many at a time: who asks for much leaves others their turn. The first failure ends it. */
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

/** Every server is tried once before the wait grows. */
function backoffMs(failures: number, servers: number): number {
  const rounds = Math.floor((failures - 1) / servers)
  return Math.min(maxBackoffMs, firstBackoffMs * 2 ** rounds) * (0.5 + Math.random() / 2)
}

function nameOf({host, port, isSecure}: Server): string {
  return `${isSecure ? 'tls' : 'tcp'}://${host}:${port}`
}
