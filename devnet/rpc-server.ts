// The parts of a local chain's JSON-RPC server that all families share: HTTP on a port of 127.0.0.1, control of the
// chain (devnet_*), and errors. No family serves methods that would change a node without the journal.
import {createServer, type IncomingMessage, type Server, type ServerResponse} from 'node:http'
import {z} from 'zod'
import type {Logger} from '../base/log.ts'
import {chain as registered} from '../chains/registry.ts'
import type {Head, Info} from './client.ts'
import {RpcError} from './engine.ts'
import {listenLocally} from './listen.ts'

const maxMined = 10_000

export interface Reply {
  status: number
  body: Buffer | string
  type?: string
}

export interface Request {
  method: string
  /** With the query. */
  path: string
  body: string
}

/** Responds to each request with the result of `answer`. If that rejects, the connection ends. */
export class HttpServer {
  readonly server: Server
  readonly #response: (request: Request) => Promise<Reply>
  readonly #limitBytes: number

  constructor(limitBytes: number, response: (request: Request) => Promise<Reply>) {
    this.#limitBytes = limitBytes
    this.#response = response
    this.server = createServer((request, response) => {
      this.#take(request, response).catch(() => request.destroy()) // the client or the node is gone
    })
  }

  /** Listens on this port, or on a free one if it is in use or undefined. Resolves to the port. */
  async listen(port: number | undefined): Promise<number> {
    return await listenLocally(this.server, port)
  }

  close(): void {
    this.server.close()
    this.server.closeAllConnections()
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    let length = 0
    for await (const chunk of request) {
      chunks.push(chunk)
      length += chunk.length
      if (length > this.#limitBytes) return void response.writeHead(413).end()
    }
    const {method = 'GET', url = '/'} = request
    const {status, body, type} = await this.#response({method, path: url, body: Buffer.concat(chunks).toString()})
    response.writeHead(status, {'content-type': type ?? 'application/json'}).end(body)
  }
}

export type Method = (params: unknown[]) => unknown

/** What every local chain does on request. Changes happen one at a time. */
export interface Controlled {
  /** Rejects while the node does not work. */
  check(): Promise<unknown>
  /** The head after the pending changes. */
  settledHead(): Promise<Head>
  /** The balance of an address in the native coin, with unconfirmed transactions, in base units. */
  holds(address: string): Promise<bigint>
  /** Pays the native coin from the faucet. */
  give(address: string, amount: bigint): Promise<unknown>
  mine(blocks: number, options: unknown): Promise<Head>
  reorg(depth: number, options: unknown): Promise<Head>
  forget(txids: string[]): Promise<void>
}

const Blocks = z.int().min(1)
const Funding = z.tuple([z.string(), z.int().min(1)])

/** The methods that control a chain. */
export function controlMethods(info: Info, chain: Controlled): Record<string, Method> {
  const unit = 10n ** BigInt(registered(info.chain).assets[0].decimals)
  return {
    devnet_info: async () => {
      await chain.check()
      return info
    },
    devnet_head: () => chain.settledHead(),
    /** Pays an address that has nothing; false if it has something. */
    devnet_fund: async params => {
      const [to, coins] = Funding.parse(params)
      if ((await chain.holds(to)) > 0n) return false
      await chain.give(to, BigInt(coins) * unit)
      return true
    },
    devnet_mine: ([given, options]) => {
      const blocks = Blocks.parse(given)
      if (blocks > maxMined) throw new RangeError(`cannot mine ${blocks} blocks at once, only ${maxMined}`)
      return chain.mine(blocks, options)
    },
    devnet_reorg: ([depth, options]) => chain.reorg(z.int().parse(depth), options),
    devnet_forget: ([txids]) => chain.forget(z.array(z.string()).parse(txids)),
  }
}

const Call = z.object({
  id: z.union([z.string(), z.number(), z.null()]).default(null),
  method: z.string(),
  params: z.array(z.unknown()).default([]),
})

interface Responding {
  /** The result of a call; rejects with an error that `failed` converts. */
  serve(method: string, params: unknown[]): unknown
  failed(error: unknown, method: string): Failure
}

/** The response to a JSON-RPC 2.0 call, or to a batch of calls. */
export async function response(text: string, responding: Responding): Promise<unknown> {
  let calls: unknown
  try {
    calls = JSON.parse(text)
  } catch {
    return failure(null, {code: -32700, message: 'invalid JSON'})
  }
  if (!Array.isArray(calls)) return await respondToOne(calls, responding)
  return await Promise.all(calls.map(call => respondToOne(call, responding)))
}

async function respondToOne(input: unknown, {serve, failed}: Responding): Promise<object> {
  const call = Call.safeParse(input)
  if (!call.success) return failure(null, {code: -32600, message: inOneLine(call.error)})
  const {id, method, params} = call.data
  try {
    return {jsonrpc: '2.0', id, result: (await serve(method, params)) ?? null}
  } catch (error) {
    return failure(id, failed(error, method))
  }
}

function failure(id: string | number | null, {code, message, data}: Failure): object {
  return {jsonrpc: '2.0', id, error: {code, message, data}}
}

const inOneLine = ({issues}: z.ZodError) => issues.map(({path, message}) => [...path, message].join(' ')).join('; ')

export interface Failure {
  code: number
  message: string
  data?: unknown
}

/** The error for a failed call; `invalid` is the code for invalid parameters. */
export function failureOf(
  error: unknown,
  {method, log, invalid}: {method: string; log: Logger; invalid: number},
): Failure {
  if (error instanceof RpcError) return error
  if (error instanceof z.ZodError) return {code: invalid, message: inOneLine(error)}
  if (error instanceof RangeError) return {code: invalid, message: error.message}
  log.error({error: String(error), method}, 'request failed')
  return {code: -32603, message: error instanceof Error ? error.message : String(error)}
}
