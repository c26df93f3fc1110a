// An Electrum server with a behaviour that the test chooses: a proxy in front of a real server that passes every call
// on by default. Without a real server, a function makes the responses. It also counts calls, so that a test can wait
// for them.
import {once} from 'node:events'
import {type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket} from 'node:net'
import {createInterface} from 'node:readline'
import {createServer as createTlsServer} from 'node:tls'
import type {Behaviour} from '../rpc-proxy.ts'
import {until} from '../until.ts'

/** Sent instead of a response: this text unchanged, and then, if `ends` is set, the connection ends. */
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

/** What a behaviour may do instead of responding. */
export const faults = {
  /** A JSON-RPC error. */
  error(message = 'internal error', code = 1): never {
    throw new ErrorResponse(code, message)
  },
  /** No response, ever. */
  hang: () => new Promise<never>(() => {}),
  /** Ends the connection without a response. */
  drop(): never {
    throw new Sends('', {ends: true})
  },
  /** Half a line, and the end of the connection. */
  truncate(): never {
    throw new Sends('{"jsonrpc":"2.0","id":', {ends: true})
  },
  /** A line that is not of the protocol, or was not requested. */
  send(line: string): never {
    throw new Sends(`${line}\n`)
  },
}

export type Ask = (method: string, ...params: unknown[]) => Promise<unknown>

interface Session {
  client: Socket
  /** Sends a request to the real server, over the session's own connection. */
  ask: Ask
  /** The subscriptions of the client. */
  scripthashes: Set<string>
}

/**
 * The URL of the real server (tcp://host:port), or a function that returns it; or a function that makes the responses.
 */
type Honest = string | {readonly url: string} | Behaviour

export class LyingElectrum {
  readonly #honest: Honest
  readonly #server: Server
  readonly #isSecure: boolean
  #port = 0
  readonly #sessions = new Set<Session>()
  readonly #counts = new Map<string, number>()
  /** Handles calls; absent: they are passed on. */
  behave: Behaviour | undefined
  /** False: notifications are no longer passed on. */
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

  /** The subscriptions of all connected clients. */
  get scripthashes(): Set<string> {
    return new Set([...this.#sessions].flatMap(({scripthashes}) => [...scripthashes]))
  }

  /** The number of connected clients. */
  get connections(): number {
    return this.#sessions.size
  }

  /** Listens. After close() it listens again on the same port. */
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

  /** Sends a line to every client. */
  tell(line: string): void {
    for (const {client} of this.#sessions) client.write(`${line}\n`)
  }

  /** Notifies every client of the new status of a scripthash, or of a new head. */
  notify(method: string, ...params: unknown[]): void {
    this.tell(JSON.stringify({jsonrpc: '2.0', method, params}))
  }

  /** The number of calls since the start: all, or those of a method. */
  count(method = 'any'): number {
    return this.#counts.get(method) ?? 0
  }

  /** Waits for this many more calls (of this method). */
  async asked(times: number, method = 'any'): Promise<void> {
    const from = this.count(method)
    await until(async () => this.count(method) >= from + times, {timeoutMs: 60_000, what: `${times} × ${method}`})
  }

  /** Sends a request to the real server, without lies. */
  async honestly<T>(read: (ask: Ask) => Promise<T>): Promise<T> {
    const {ask, end} = this.#upstream({onEnd: () => {}, onNotified: () => {}})
    try {
      return await read(ask)
    } finally {
      end()
    }
  }

  /** Sends every client the current state: the notifications that a real server would have sent meanwhile. */
  async retell(): Promise<void> {
    const retell = async ({client, ask, scripthashes}: Session) => {
      const tell = async (method: string, ...params: unknown[]) => {
        const result = await ask(method, ...params)
        client.write(`${JSON.stringify({jsonrpc: '2.0', method, params: [...params, result]})}\n`)
      }
      await tell('blockchain.headers.subscribe')
      for (const scripthash of scripthashes) await tell('blockchain.scripthash.subscribe', scripthash)
    }
    await Promise.allSettled([...this.#sessions].map(retell)) // a client that disconnects meanwhile asks again
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

  /** A connection to the real server, if there is one. */
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
      // Not before the earlier responses, which are passed on a little later.
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
