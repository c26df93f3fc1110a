// An Electrum server that behaves as it is told. It stands before a real one and passes every call on unless the test has said otherwise;
// or, without a real one, it answers as a function does. It also counts, so that a test can wait until it was asked so many times.
import {once} from 'node:events'
import {type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket} from 'node:net'
import {createInterface} from 'node:readline'
import {createServer as createTlsServer} from 'node:tls'
import type {Behaviour} from '../rpc-proxy.ts'
import {until} from '../until.ts'

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

class ErrorResponse extends Error {
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
    throw new ErrorResponse(code, message)
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

export type Ask = (method: string, ...params: unknown[]) => Promise<unknown>

interface Session {
  client: Socket
  /** Asks the real server, over the session's own connection to it. */
  ask: Ask
  /** What the client has subscribed to. */
  scripthashes: Set<string>
}

/** The URL of the real server (tcp://host:port), or who knows it at the time; or a function that answers. */
type Honest = string | {readonly url: string} | Behaviour

export class LyingElectrum {
  readonly #honest: Honest
  readonly #server: Server
  readonly #isSecure: boolean
  #port = 0
  readonly #sessions = new Set<Session>()
  readonly #counts = new Map<string, number>()
  /** What calls are met with; absent: they are passed on. */
  behave: Behaviour | undefined
  /** False: notifications are not passed on any more. */
  tells = true

  private constructor(honest: Honest, tls?: {key: string; cert: string}) {
    this.#honest = honest
    this.#isSecure = tls !== undefined
    this.#server = tls ? createTlsServer(tls) : createTcpServer()
    this.#server.on(tls ? 'secureConnection' : 'connection', (client: Socket) => this.#serve(client))
  }

  static async start(honest: Honest, tls?: {key: string; cert: string}): Promise<LyingElectrum> {
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

  /** What all who are connected have subscribed to. */
  get scripthashes(): Set<string> {
    return new Set([...this.#sessions].flatMap(({scripthashes}) => [...scripthashes]))
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

  /** Asks the real server, past all lies. */
  async honestly<T>(poll: (ask: Ask) => Promise<T>): Promise<T> {
    const {ask, end} = this.#upstream({onEnd: () => {}, onNotified: () => {}})
    try {
      return await poll(ask)
    } finally {
      end()
    }
  }

  /** Tells every client how things are: what a real server would have told meanwhile. */
  async retell(): Promise<void> {
    const retell = async ({client, ask, scripthashes}: Session) => {
      const tell = async (method: string, ...params: unknown[]) => {
        const result = await ask(method, ...params)
        client.write(`${JSON.stringify({jsonrpc: '2.0', method, params: [...params, result]})}\n`)
      }
      await tell('blockchain.headers.subscribe')
      for (const scripthash of scripthashes) await tell('blockchain.scripthash.subscribe', scripthash)
    }
    await Promise.allSettled([...this.#sessions].map(retell)) // who leaves meanwhile asks anew
  }

  #serve(client: Socket): void {
    const {ask, end} = this.#upstream({
      onEnd: () => client.destroy(),
      onNotified: line => this.tells && client.write(`${line}\n`),
    })
    const session = {client, ask, scripthashes: new Set<string>()}
    this.#sessions.add(session)
    client.on('close', () => {
      this.#sessions.delete(session)
      end()
    })
    onLines(client, line => void this.#onLine(session, line))
  }

  /** A connection to the real server, where there is one. */
  #upstream({onEnd, onNotified}: {onEnd(): void; onNotified(line: string): void}): {ask: Ask; end(): void} {
    const honest = this.#honest
    if (typeof honest === 'function') {
      const ask: Ask = async (method, ...params) => await honest({method, params}, () => faults.hang())
      return {ask, end: () => {}}
    }
    const {hostname, port} = new URL(typeof honest === 'string' ? honest : honest.url)
    const socket = connect(Number(port), hostname)
    const waiting = new Map<number, {resolve(result: unknown): void; reject(error: Error): void}>()
    socket.on('close', () => {
      for (const {reject} of waiting.values()) reject(new ErrorResponse(-1, 'the real server is gone'))
      onEnd()
    })
    onLines(socket, line => {
      const {id, result, error} = JSON.parse(line)
      const call = waiting.get(id)
      waiting.delete(id)
      if (call && error) call.reject(new ErrorResponse(error.code, error.message))
      else if (call) call.resolve(result)
      // Not before the answers that came before it, which are passed on a little later.
      else setImmediate(onNotified, line)
    })
    let last = 0
    const ask: Ask = async (method, ...params) => {
      const id = ++last
      if (socket.destroyed) throw new ErrorResponse(-1, 'the real server is gone')
      socket.write(`${JSON.stringify({jsonrpc: '2.0', id, method, params})}\n`)
      return await new Promise((resolve, reject) => waiting.set(id, {resolve, reject}))
    }
    return {ask, end: () => socket.destroy()}
  }

  async #onLine({client, ask, scripthashes}: Session, line: string): Promise<void> {
    const {id, method, params} = JSON.parse(line)
    for (const key of ['any', method]) this.#counts.set(key, this.count(key) + 1)
    if (method === 'blockchain.scripthash.subscribe') scripthashes.add(params[0])
    const honest = (others: unknown[] = params) => ask(method, ...others)
    try {
      const result = await (this.behave ? this.behave({method, params}, honest) : honest())
      client.write(`${JSON.stringify({jsonrpc: '2.0', id, result: result ?? null})}\n`)
    } catch (fault) {
      if (fault instanceof Sends) {
        client.write(fault.text)
        if (fault.ends) client.destroySoon()
      } else {
        const {code = -1, message} = fault as ErrorResponse
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
