// One connection to one Electrum server. electrum-client numbers calls, matches responses, and emits notifications; the
// rest is here. Promises: the connection ends once, with a reason, if the server closes it, hangs, is on another
// network, or sends something too long or outside the protocol. Every call gets a response or an error that the
// connection ended. TLS always verifies certificates. Reading takes linear time.
import {createHash} from 'node:crypto'
import {once} from 'node:events'
import {readFile} from 'node:fs/promises'
import net from 'node:net'
import tls from 'node:tls'
import ElectrumClient from 'electrum-client'
import {z} from 'zod'
import {PermanentError, RetryableError} from '../../base/errors.ts'

/** Just above the size in hex of the largest transaction that fits into a block. */
const maxResponseChars = 8_000_000
const connectTimeoutMs = 10_000
/** Servers end sessions after 10 minutes without a request. */
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
  /** Hash of block 0 of the network, in display form. */
  genesis: string
  /** Path of a PEM file with the certificates that are trusted instead of the system's. */
  ca?: string
  /** A call without a response for this long ends the connection. */
  timeoutMs: number
}

/** Reads tcp://host:port and tls://host:port. */
export function parseServer(url: string): Server {
  const {protocol, hostname, port} = URL.parse(url) ?? {}
  if ((protocol !== 'tcp:' && protocol !== 'tls:') || !hostname || !port) {
    throw new PermanentError(`the URL of an Electrum server must be tcp://host:port or tls://host:port, not ${url}`)
  }
  return {host: hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(port), isSecure: protocol === 'tls:'}
}

/** Text from a server, short and printable, for logs and errors. */
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
  /** Calls without a response, in the order in which they were sent. */
  readonly #asked = new Map<number, {method: string; at: number}>()
  #watch: NodeJS.Timeout | undefined
  #ping: NodeJS.Timeout | undefined
  #unsent: string[] = []
  /** The beginning of an unfinished line. */
  #parts: string[] = []
  #length = 0

  constructor(server: Server, options: ConnectionOptions) {
    super(server.port, server.host, 'tcp')
    // The library's socket is not used: its TLS does not verify certificates, and it has its own timeout.
    this.conn.removeAllListeners().destroy()
    this.#server = server
    this.#options = options
    const {promise, resolve} = Promise.withResolvers<string>()
    this.ended = promise
    this.#end = resolve
  }

  /** Resolves to the server's software name, once the network is verified. Rejects when the connection has ended. */
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

  /** How many calls have no response yet. */
  get withoutResponse(): number {
    return this.#asked.size
  }

  /**
   * Sends a call; all calls of one turn of the event loop are sent together. `responded` is called once, while the
   * response is read.
   */
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

  /** Ends the connection. Calls without a response get an error at once. */
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
    if (!message) return void this.end(`sent a line that is not a message: ${quote(line)}`)
    const {id, method, params} = message
    // An emitter throws if an 'error' has no listener.
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
    if (this.#isOver) return // the first call then fails
    this.status = 1
    this.#ping = setInterval(() => this.ask('server.ping', [], () => {}), pingEveryMs)
  }

  async #greet(): Promise<string> {
    const version = await this.#call('server.version', ['sluice', '1.4'], Version)
    const header = await this.#call('blockchain.block.header', [0], Header)
    if (hashOf(header) !== this.#options.genesis) {
      throw new RetryableError(`is on another network: block 0 has the hash ${hashOf(header)}`)
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
    if (!success) throw new RetryableError(`sent an unexpected response to ${method}: ${quote(result)}`)
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

  /** One timer for all calls; it checks the oldest. */
  #detectHang(): void {
    this.#watch = undefined
    const oldest = this.#asked.values().next().value
    if (!oldest) return
    const {timeoutMs} = this.#options
    const leftMs = oldest.at + timeoutMs - performance.now()
    if (leftMs <= 0) this.end(`no response to ${oldest.method} within ${timeoutMs} ms`)
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
