// An Electrum server that behaves as it is told. It stands before a real one and passes every call on unless the test has said otherwise;
// or, without a real one, it answers as a function does. It also counts, so that a test can wait until it was asked so many times.
import {once} from 'node:events'
import {type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket} from 'node:net'
import {createInterface} from 'node:readline'
import {createServer as createTlsServer} from 'node:tls'
import type {Behaviour, Call} from './rpc-proxy.ts'
import {until} from './until.ts'

/** Instead of an answer: this text as it is, and, where it says so, the end of the connection. */
class Sends extends Error {
  readonly text: string
  readonly ends: boolean
  constructor(text: string, {ends = false}: {ends?: boolean} = {}) {
    super('sends')
    this.text = text
    this.ends = ends
  }
}

class ErrorAnswer extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/** What a behaviour may do instead of answering. */
export const faults = {
  /** An error answer of JSON-RPC. */
  error(message = 'internal error', code = 1): never {
    throw new ErrorAnswer(code, message)
  },
  /** No answer, ever. */
  hang: () => new Promise<never>(() => {}),
  /** The connection ends instead of an answer. */
  drop(): never {
    throw new Sends('', {ends: true})
  },
  /** Half of a line, and the end. */
  truncate(): never {
    throw new Sends('{"jsonrpc":"2.0","id":', {ends: true})
  },
  /** A line that is not of the protocol, or not asked for. */
  send(line: string): never {
    throw new Sends(`${line}\n`)
  },
}

interface Session {
  client: Socket
  /** Asks the real server, over the session's own connection to it. */
  pass(call: Call): Promise<unknown>
}

export class LyingElectrum {
  readonly #honest: string | Behaviour
  readonly #server: Server
  readonly #isSecure: boolean
  #port = 0
  readonly #sessions = new Set<Session>()
  readonly #counts = new Map<string, number>()
  /** What calls are met with; absent: they are passed on. */
  behave: Behaviour | undefined
  /** False: notifications are not passed on any more. */
  tells = true

  private constructor(honest: string | Behaviour, tls?: {key: string; cert: string}) {
    this.#honest = honest
    this.#isSecure = tls !== undefined
    this.#server = tls ? createTlsServer(tls) : createTcpServer()
    this.#server.on(tls ? 'secureConnection' : 'connection', (client: Socket) => this.#serve(client))
  }

  /** `honest` is the URL of the real server (tcp://host:port), or a function that answers. */
  static async start(honest: string | Behaviour, tls?: {key: string; cert: string}): Promise<LyingElectrum> {
    const server = new LyingElectrum(honest, tls)
    await server.listen()
    return server
  }

  get url(): string {
    return `${this.#isSecure ? 'tls' : 'tcp'}://127.0.0.1:${this.#port}`
  }

  get port(): number {
    return this.#port
  }

  /** How many are connected. */
  get connections(): number {
    return this.#sessions.size
  }

  /** Listens, after close() again, and where it did. */
  async listen(): Promise<void> {
    this.#server.listen(this.#port, '127.0.0.1')
    await once(this.#server, 'listening')
    this.#port = (this.#server.address() as AddressInfo).port
  }

  /** Ends every connection. */
  disconnect(): void {
    for (const {client} of this.#sessions) client.destroy()
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.disconnect()
    await closed
  }

  /** Sends every client a line. */
  tell(line: string): void {
    for (const {client} of this.#sessions) client.write(`${line}\n`)
  }

  /** Tells every client of the new status of a scripthash, or of a new head. */
  notify(method: string, ...params: unknown[]): void {
    this.tell(JSON.stringify({jsonrpc: '2.0', method, params}))
  }

  /** How often calls came in since the start: all, or those of a method. */
  count(method = 'any'): number {
    return this.#counts.get(method) ?? 0
  }

  /** Waits until calls (of this method) came in so many times from now on. */
  async asked(times: number, method = 'any'): Promise<void> {
    const from = this.count(method)
    await until(async () => this.count(method) >= from + times, {timeoutMs: 60_000, what: `${times} × ${method}`})
  }

  #serve(client: Socket): void {
    const session = {client, pass: this.#passer(client)}
    this.#sessions.add(session)
    client.on('close', () => this.#sessions.delete(session))
    onLines(client, line => void this.#onLine(session, line))
  }

  #passer(client: Socket): Session['pass'] {
    const honest = this.#honest
    if (typeof honest === 'function') return async call => await honest(call, () => faults.error('there is no other'))
    const {hostname, port} = new URL(honest)
    const upstream = connect(Number(port), hostname)
    const waiting = new Map<number, {resolve(result: unknown): void; reject(error: Error): void}>()
    upstream.on('close', () => client.destroy())
    client.on('close', () => upstream.destroy())
    onLines(upstream, line => {
      const {id, result, error} = JSON.parse(line)
      const call = waiting.get(id)
      waiting.delete(id)
      if (call && error) call.reject(new ErrorAnswer(error.code, error.message))
      else if (call) call.resolve(result)
      // Not before the answers that came before it, which are passed on a little later.
      else if (this.tells) setImmediate(() => client.write(`${line}\n`))
    })
    let last = 0
    return async ({method, params}) => {
      const id = ++last
      upstream.write(`${JSON.stringify({jsonrpc: '2.0', id, method, params})}\n`)
      return await new Promise((resolve, reject) => waiting.set(id, {resolve, reject}))
    }
  }

  async #onLine({client, pass}: Session, line: string): Promise<void> {
    const {id, method, params} = JSON.parse(line)
    for (const key of ['any', method]) this.#counts.set(key, this.count(key) + 1)
    const honest = (others = params) => pass({method, params: others})
    try {
      const result = await (this.behave ? this.behave({method, params}, honest) : honest())
      client.write(`${JSON.stringify({jsonrpc: '2.0', id, result: result ?? null})}\n`)
    } catch (fault) {
      if (fault instanceof Sends) {
        client.write(fault.text)
        if (fault.ends) client.destroySoon()
      } else {
        const {code = -1, message} = fault as ErrorAnswer
        client.write(`${JSON.stringify({jsonrpc: '2.0', id, error: {code, message}})}\n`)
      }
    }
  }
}

function onLines(socket: Socket, take: (line: string) => void): void {
  socket.on('error', () => {}) // its close follows
  createInterface({input: socket})
    .on('error', () => {})
    .on('line', take)
}
