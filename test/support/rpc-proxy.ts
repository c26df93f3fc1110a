// A node with a behaviour that the test chooses: a proxy in front of a real node, over HTTP and, if the node has one,
// websocket. It passes every call on by default. It also counts calls, so that a test can wait until an indexer has
// polled this many times.
import {randomBytes} from 'node:crypto'
import {once} from 'node:events'
import {createServer, type IncomingMessage, type Server, type ServerResponse} from 'node:http'
import type {AddressInfo} from 'node:net'
import {type WebSocket as Socket, WebSocketServer} from 'ws'
import {exactly} from '../../base/json.ts'
import {until} from './until.ts'

/** The real node. */
export interface Upstream {
  /** The websocket with its new heads. */
  wsUrl?: string
  /**
   * Rejects with the node's error, and its `code` and `data` if it has them. A GET request arrives as {method: 'GET',
   * params: [path]}, and a POST to another path than / as {method: path, params: [body]}.
   */
  call(method: string, params: unknown[]): Promise<unknown>
}

/** GET requests return bytes, or undefined if there are none. */
export interface Call {
  method: string
  params: unknown[]
}

/**
 * Makes the response to a call, or throws a fault below. `pass` calls the real node, with other parameters if given.
 */
export type Behaviour = (call: Call, pass: (params?: unknown[]) => Promise<unknown>) => unknown

export interface Block {
  number: string
  hash: string
  transactions: unknown[]
}

export interface Receipt {
  logs: unknown[]
}

type Transport = 'drop' | 'truncate' | number

class TransportFault extends Error {
  readonly how: Transport
  constructor(how: Transport) {
    super(`${how}`)
    this.how = how
  }
}

class ErrorResponse extends Error {
  readonly code: number
  constructor(message: string, code: number) {
    super(message)
    this.code = code
  }
}

/** What a node takes in one batch, with geth's words. A single call has no such limit. */
export interface Limits {
  calls?: number
  /** The responses after the one that exceeds it are errors. */
  responseBytes?: number
}

export const faults = {
  /** A JSON-RPC error. */
  error(message = 'internal error', code = -32_000): never {
    throw new ErrorResponse(message, code)
  },
  /** No response, ever. */
  hang: () => new Promise<never>(() => {}),
  /** Ends the connection without a response. */
  drop(): never {
    throw new TransportFault('drop')
  },
  /** Half of the response. */
  truncate(): never {
    throw new TransportFault('truncate')
  },
  /** Over HTTP a response with this status; over a websocket the connection ends. */
  status(code: number): never {
    throw new TransportFault(code)
  },
}

export class RpcProxy {
  readonly #node: Upstream
  readonly #http: Server
  readonly #sockets: WebSocketServer
  readonly #subscriptions = new Map<string, Socket>()
  readonly #heads: WebSocket | undefined
  readonly #counts = new Map<string, number>()
  /** Handles calls; absent: they are passed on. */
  behave: Behaviour | undefined
  limits: Limits = {}
  /** How many batches had more calls than the limit. */
  refusedBatches = 0
  /** False: new heads are no longer sent, like a subscription that died. */
  tellsHeads = true
  /** Changes the heads that it sends. */
  tellHead = (head: Block): Block => head

  private constructor(node: Upstream) {
    this.#node = node
    this.#http = createServer((request, response) => this.#onHttp(request, response))
    this.#sockets = new WebSocketServer({server: this.#http, maxPayload: 2 ** 24})
    this.#sockets.on('connection', socket => {
      socket.on('message', data => void this.#onMessage(socket, String(data)))
      socket.on('error', () => {}) // its close follows
      socket.on('close', () => {
        for (const [id, subscriber] of this.#subscriptions) if (subscriber === socket) this.#subscriptions.delete(id)
      })
    })
    this.#heads = node.wsUrl ? new WebSocket(node.wsUrl) : undefined
  }

  static async start(node: Upstream): Promise<RpcProxy> {
    const proxy = new RpcProxy(node)
    proxy.#http.listen(0, '127.0.0.1')
    await Promise.all([once(proxy.#http, 'listening'), proxy.#heads && proxy.#listen(proxy.#heads)])
    return proxy
  }

  async #listen(heads: WebSocket): Promise<void> {
    const subscribed = new Promise(resolve => {
      heads.onmessage = ({data}) => {
        const {id, params} = JSON.parse(data)
        if (id) resolve(id)
        else this.#onHead(this.tellHead(params.result))
      }
    })
    await once(heads, 'open')
    heads.send(JSON.stringify({jsonrpc: '2.0', id: 1, method: 'eth_subscribe', params: ['newHeads']}))
    await subscribed
  }

  get httpUrl(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`
  }

  get wsUrl(): string {
    return this.httpUrl.replace('http', 'ws')
  }

  async close(): Promise<void> {
    this.#heads?.close()
    this.disconnect()
    this.#http.close()
  }

  /** Ends every connection. */
  disconnect(): void {
    for (const socket of this.#sockets.clients) socket.terminate()
    this.#http.closeAllConnections()
  }

  /** Waits for this many more calls (of this method, and with this first parameter, if given). */
  async asked(times: number, method = 'any', first?: unknown): Promise<void> {
    const key = first === undefined ? method : `${method} ${first}`
    const from = this.#counts.get(key) ?? 0
    await until(async () => (this.#counts.get(key) ?? 0) >= from + times, {
      timeoutMs: 60_000,
      what: `${times} × ${key}`,
    })
  }

  #onHead(head: unknown): void {
    if (!this.tellsHeads) return
    for (const [subscription, socket] of this.#subscriptions) {
      socket.send(JSON.stringify({jsonrpc: '2.0', method: 'eth_subscription', params: {subscription, result: head}}))
    }
  }

  async #onMessage(socket: Socket, text: string): Promise<void> {
    try {
      socket.send(await this.#response(text, socket))
    } catch (fault) {
      const {how} = fault as TransportFault
      if (how === 'truncate') socket.send('{"jsonrpc":"2.0","id":')
      else socket.terminate()
    }
  }

  async #onHttp(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    try {
      if (request.method === 'GET') {
        const bytes = await this.#ask({method: 'GET', params: [request.url]})
        response.writeHead(bytes ? 200 : 404, {'content-type': 'application/octet-stream'}).end(bytes)
        return
      }
      const body = Buffer.concat(chunks).toString()
      response.setHeader('content-type', 'application/json')
      response.end(await (request.url === '/' ? this.#response(body) : this.#pathResponse(request.url!, body)))
    } catch (fault) {
      const {how = 500} = fault as Partial<TransportFault>
      if (how === 'drop') request.socket.destroy()
      else if (how === 'truncate') response.end('{"jsonrpc":"2.0","id":')
      else response.writeHead(how).end('{"error":"not now"}')
    }
  }

  async #response(text: string, socket?: Socket): Promise<string> {
    const calls = JSON.parse(text)
    if (!Array.isArray(calls)) return JSON.stringify(await this.#one(calls, socket), exactly)
    const {calls: most = calls.length, responseBytes = Number.POSITIVE_INFINITY} = this.limits
    if (calls.length > most) {
      this.refusedBatches++
      return JSON.stringify([errorFor(calls[0], -32_600, 'batch too large')])
    }
    const responses = await Promise.all(calls.map(call => this.#one(call, socket)))
    let bytes = 0
    const sent = responses.map((response, i) => {
      if (bytes > responseBytes) return errorFor(calls[i], -32_003, 'response too large')
      bytes += JSON.stringify(response, exactly).length
      return response
    })
    return JSON.stringify(sent, exactly)
  }

  /** An API of paths reports an error as {"Error": message}. */
  async #pathResponse(path: string, body: string): Promise<string> {
    try {
      return JSON.stringify(await this.#ask({method: path, params: [JSON.parse(body)]}), exactly)
    } catch (error) {
      if (error instanceof TransportFault) throw error
      return JSON.stringify({Error: (error as Error).message})
    }
  }

  async #one({id, ...call}: Call & {id: number}, socket?: Socket): Promise<object> {
    try {
      return {jsonrpc: '2.0', id, result: (await this.#ask(call, socket)) ?? null}
    } catch (error) {
      if (error instanceof TransportFault) throw error
      const {message, code = -32_000, data} = error as Error & {code?: number; data?: unknown}
      return {jsonrpc: '2.0', id, error: {code, message, data}}
    }
  }

  async #ask(call: Call, socket?: Socket): Promise<unknown> {
    const {method, params} = call
    for (const key of ['any', method, `${method} ${params?.[0]}`])
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
    const pass = async (others = params) => {
      return method === 'eth_subscribe' ? this.#subscribe(socket!) : this.#node.call(method, others)
    }
    return await (this.behave ? this.behave({method, params}, pass) : pass())
  }

  #subscribe(socket: Socket): string {
    const id = `0x${randomBytes(8).toString('hex')}`
    this.#subscriptions.set(id, socket)
    return id
  }
}

function errorFor({id}: {id: number}, code: number, message: string): object {
  return {jsonrpc: '2.0', id, error: {code, message}}
}
