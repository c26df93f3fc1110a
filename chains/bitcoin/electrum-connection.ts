// One connection to one Electrum server. The numbering of calls, the matching of answers and the emitter of notifications are
// electrum-client's; what it lacks is here. Promises: it ends, once, with a reason, when the server closes, hangs, is of another network, or
// sends what is not of the protocol or is too long; every call is answered or told that the connection ended; TLS always verifies; reading
// takes time linear in what is read.
import {createHash} from 'node:crypto'
import {once} from 'node:events'
import {readFile} from 'node:fs/promises'
import net from 'node:net'
import tls from 'node:tls'
import ElectrumClient from 'electrum-client'
import {z} from 'zod'
import {PermanentError, RetryableError} from '../../base/errors.ts'

/** The largest transaction that fits into a block is, in hex, just below. */
const maxResponseChars = 8_000_000
const connectTimeoutMs = 10_000
/** Servers end sessions that are silent for 10 minutes. */
const pingEveryMs = 60_000

const Message = z.object({
  id: z.number().nullish(),
  method: z.string().optional(),
  params: z.array(z.unknown()).optional(),
  result: z.unknown().optional(),
  error: z.unknown().optional(),
})
const Version = z.array(z.string())
const Header = z.string().regex(/^[0-9a-f]{160}$/i)

export interface Server {
  host: string
  port: number
  isSecure: boolean
}

export interface ConnectionOptions {
  /** Hash of block 0 of the network, as it is shown. */
  genesis: string
  /** Path of a PEM file with the certificates that are trusted instead of the system's. */
  ca?: string
  /** A call that was sent and has no answer for so long ends the connection. */
  timeoutMs: number
}

/** Reads tcp://host:port and tls://host:port. */
export function parseServer(url: string): Server {
  const {protocol, hostname, port} = URL.parse(url) ?? {}
  if ((protocol !== 'tcp:' && protocol !== 'tls:') || !hostname || !port) {
    throw new PermanentError(`not the URL of an Electrum server, which is tcp://host:port or tls://host:port: ${url}`)
  }
  return {host: hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(port), isSecure: protocol === 'tls:'}
}

/** What a server wrote, made fit for a log and an error: short and printable. */
export function quote(text: unknown): string {
  const string = typeof text === 'string' ? text : (JSON.stringify(text) ?? 'nothing')
  return string
    .slice(0, 1000)
    .replace(/[^\x20-\x7e]+/g, ' ')
    .slice(0, 300)
}

export class ElectrumConnection extends ElectrumClient {
  /** Resolves to the reason when the connection is over; never rejects. */
  readonly ended: Promise<string>
  readonly #end: (reason: string) => void
  readonly #server: Server
  readonly #options: ConnectionOptions
  #isOver = false
  /** Calls without an answer, in the order in which they were sent. */
  readonly #asked = new Map<number, {method: string; at: number}>()
  #watch: NodeJS.Timeout | undefined
  #ping: NodeJS.Timeout | undefined
  #unsent: string[] = []
  /** The beginning of a line whose end has not come yet. */
  #parts: string[] = []
  #length = 0

  constructor(server: Server, options: ConnectionOptions) {
    super(server.port, server.host, 'tcp')
    // The library's socket is of no use: it has no TLS that verifies, and a timeout of its own.
    this.conn.removeAllListeners().destroy()
    this.#server = server
    this.#options = options
    const {promise, resolve} = Promise.withResolvers<string>()
    this.ended = promise
    this.#end = resolve
  }

  /** Resolves to what the server says it is, once it is known to serve the network. Rejects when the connection has ended. */
  async open(): Promise<string> {
    const timer = setTimeout(() => this.end(`no greeting within ${connectTimeoutMs} ms`), connectTimeoutMs)
    try {
      await this.#connect()
      return await this.#greet()
    } catch (error) {
      this.end((error as Error).message)
      throw new RetryableError(await this.ended)
    } finally {
      clearTimeout(timer)
    }
  }

  /** How many calls have no answer yet. */
  get withoutResponse(): number {
    return this.#asked.size
  }

  /** Sends a call; those of one turn go out together. `answered` is called once, from within the reading of the answer. */
  ask(method: string, params: unknown[], responded: (error: unknown, result?: unknown) => void): void {
    if (this.#isOver) return void responded(new Error('the connection is over'))
    const id = ++this.id
    this.callback_message_queue[id] = (error, result) => {
      this.#asked.delete(id)
      responded(error, result)
    }
    this.#asked.set(id, {method, at: performance.now()})
    this.#watch ??= setTimeout(() => this.#detectHang(), this.#options.timeoutMs)
    if (this.#unsent.length === 0) process.nextTick(() => this.#flush())
    this.#unsent.push(`${JSON.stringify({jsonrpc: '2.0', id, method, params})}\n`)
  }

  /** Calls without an answer are told at once. */
  end(reason: string): void {
    if (this.#isOver) return
    this.#isOver = true
    this.status = 0
    clearTimeout(this.#watch)
    clearInterval(this.#ping)
    this.conn.destroy()
    super.onClose()
    this.#end(reason)
  }

  override onRecv(chunk: string): void {
    let from = 0
    for (let end = chunk.indexOf('\n'); end >= 0; end = chunk.indexOf('\n', from)) {
      this.#keep(chunk.slice(from, end))
      from = end + 1
      const line = this.#parts.join('')
      this.#parts = []
      this.#length = 0
      if (this.status) this.onMessage(line)
    }
    this.#keep(chunk.slice(from))
  }

  override onMessage(line: string): void {
    const message = Message.safeParse(parse(line)).data
    if (!message) return void this.end(`sent what is no message: ${quote(line)}`)
    const {id, method, params} = message
    // An emitter throws at an 'error' that nobody listens to.
    if (method !== undefined) this.subscribe.listenerCount(method) > 0 && this.subscribe.emit(method, params)
    else if (id != null) this.response({...message, id})
    else this.end(`sent an error: ${quote(message.error)}`)
  }

  override onClose(): void {
    this.end('the server closed the connection')
  }

  async #connect(): Promise<void> {
    const {host, port, isSecure} = this.#server
    const ca = this.#options.ca && (await readFile(this.#options.ca, 'utf8'))
    const socket = isSecure
      ? tls.connect({host, port, ca, servername: net.isIP(host) ? undefined : host, rejectUnauthorized: true})
      : net.connect({host, port})
    socket.setEncoding('utf8').setNoDelay(true).setKeepAlive(true, 30_000)
    socket.on('data', chunk => this.onRecv(`${chunk}`))
    socket.on('error', (error: NodeJS.ErrnoException) => this.end(error.message || `${error.code}`))
    socket.on('close', () => this.onClose())
    if (this.#isOver) return void socket.destroy()
    this.conn = socket
    await Promise.race([once(socket, isSecure ? 'secureConnect' : 'connect'), this.ended])
    if (this.#isOver) return // then the first call fails
    this.status = 1
    this.#ping = setInterval(() => this.ask('server.ping', [], () => {}), pingEveryMs)
  }

  async #greet(): Promise<string> {
    const version = await this.#call('server.version', ['sluice', '1.4'], Version)
    const header = await this.#call('blockchain.block.header', [0], Header)
    if (hashOf(header) !== this.#options.genesis) {
      throw new RetryableError(`is of another network: block 0 has the hash ${hashOf(header)}`)
    }
    await this.#call('blockchain.headers.subscribe', [], z.unknown())
    return quote(version[0])
  }

  async #call<T>(method: string, params: unknown[], schema: z.ZodType<T>): Promise<T> {
    const result = await new Promise((resolve, reject) => {
      this.ask(method, params, (error, result) => {
        if (error) reject(new RetryableError(`refused ${method}: ${quote(error)}`))
        else resolve(result)
      })
    })
    const {success, data} = schema.safeParse(result)
    if (!success) throw new RetryableError(`answered ${method} with something else: ${quote(result)}`)
    return data
  }

  #flush(): void {
    const text = this.#unsent.join('')
    this.#unsent = []
    if (this.status) this.conn.write(text)
  }

  #keep(part: string): void {
    if (part) this.#parts.push(part)
    this.#length += part.length
    if (this.#length > maxResponseChars) this.end(`sent more than ${maxResponseChars} characters in a line`)
  }

  /** One timer for all calls: it looks at the oldest. */
  #detectHang(): void {
    this.#watch = undefined
    const oldest = this.#asked.values().next().value
    if (!oldest) return
    const {timeoutMs} = this.#options
    const leftMs = oldest.at + timeoutMs - performance.now()
    if (leftMs <= 0) this.end(`no answer to ${oldest.method} within ${timeoutMs} ms`)
    else this.#watch = setTimeout(() => this.#detectHang(), leftMs)
  }
}

function hashOf(header: string): string {
  const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest()
  return sha256(sha256(Buffer.from(header, 'hex')))
    .reverse()
    .toString('hex')
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}
