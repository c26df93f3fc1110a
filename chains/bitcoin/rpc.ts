// The client of bitcoind: JSON-RPC and, for blocks, REST. Promises: within its timeout, every request gets a response
// of the expected shape, the node's error as an RpcError, or a RetryableError. No message contains the password of the
// URL.
import {Pool} from 'undici'
import {z} from 'zod'
import {PermanentError, RetryableError} from '../../base/errors.ts'
import {basicAuth} from '../basic-auth.ts'

/** Fewer than the node's queue for requests holds. */
const connections = 8
const batchMax = 100
/** The error code of a node that is still reading its files. */
const warmingUp = -28

const Response = z.object({
  id: z.number().nullish(),
  result: z.unknown().optional(),
  error: z.object({code: z.number(), message: z.string()}).nullish(),
})
type Response = z.infer<typeof Response>
const Hex = z.string().regex(/^([0-9a-f]{2})*$/)

export interface RpcCall {
  method: string
  params: unknown[]
}

/** The error that the node returned for a call. */
export class RpcError extends RetryableError {
  override name = 'RpcError'
  readonly code: number

  constructor(method: string, {code, message}: {code: number; message: string}) {
    super(`bitcoind refused ${method}: ${message.slice(0, 300)} (${code})`)
    this.code = code
  }
}

export class Bitcoind {
  readonly #pool: Pool
  readonly #authorization: string
  readonly #timeoutMs: number
  #hasRest = true

  /** `url` is http://user:password@host:port. */
  constructor(url: string, {timeoutMs = 30_000}: {timeoutMs?: number} = {}) {
    const parsed = URL.parse(url)
    if (parsed?.protocol !== 'http:' && parsed?.protocol !== 'https:') {
      throw new PermanentError('the URL of bitcoind must be http://user:password@host:port')
    }
    this.#authorization = basicAuth(parsed)
    this.#timeoutMs = timeoutMs
    this.#pool = new Pool(parsed.origin, {connections, headersTimeout: 0, bodyTimeout: 0})
  }

  /** Rejects with RpcError if the node refuses, otherwise with another RetryableError. */
  async call<T>(method: string, params: unknown[], schema: z.ZodType<T>): Promise<T> {
    const response = Response.safeParse(await this.#post({id: 0, method, params}, method)).data
    if (!response) throw new RetryableError(`bitcoind sent an invalid response to ${method}`)
    const result = read(method, response, schema)
    if (result instanceof RpcError) throw result
    return result
  }

  /** Sends all calls. A refused call has its error in its place; any other failure rejects all. */
  async batch<T>(calls: RpcCall[], schema: z.ZodType<T>): Promise<(T | RpcError)[]> {
    const pieces = Array.from({length: Math.ceil(calls.length / batchMax)}, (_, i) =>
      calls.slice(i * batchMax, (i + 1) * batchMax),
    )
    return (await Promise.all(pieces.map(piece => this.#piece(piece, schema)))).flat()
  }

  /** The bytes of a block: by REST if the node serves it, because REST is faster. */
  async rawBlock(hash: string): Promise<Uint8Array> {
    const bytes = this.#hasRest && (await this.#rest(hash))
    return bytes || Buffer.from(await this.call('getblock', [hash, false], Hex), 'hex')
  }

  /** Ends all running requests. */
  async close(): Promise<void> {
    if (!this.#pool.destroyed) await this.#pool.destroy()
  }

  async #piece<T>(calls: RpcCall[], schema: z.ZodType<T>): Promise<(T | RpcError)[]> {
    const what = `a batch of ${calls[0]!.method}`
    const body = await this.#post(
      calls.map(({method, params}, id) => ({id, method, params})),
      what,
    )
    const responses = z.array(Response).safeParse(body).data
    const byId = new Map(responses?.map(response => [response.id, response]))
    return calls.map(({method}, id) => {
      const response = byId.get(id)
      if (!response) throw new RetryableError(`bitcoind sent no response to ${method} in ${what}`)
      return read(method, response, schema)
    })
  }

  /** Undefined if the node returned no block; the RPC then says why. */
  async #rest(hash: string): Promise<Uint8Array | undefined> {
    const {status, body} = await this.#exchange('GET', `/rest/block/${hash}.bin`, 'a block by REST')
    if (status === 200) return body
    // If the node serves REST but lacks the block, its error names the block.
    if (status === 404 && !text(body).includes(hash)) this.#hasRest = false
    return undefined
  }

  async #post(question: object, what: string): Promise<unknown> {
    const {status, body} = await this.#exchange('POST', '/', what, JSON.stringify(question))
    if (status === 401) throw new RetryableError('bitcoind refused the user and password of the URL')
    try {
      return JSON.parse(text(body))
    } catch {
      throw new RetryableError(`bitcoind answered ${what} with ${status}: ${text(body).slice(0, 300)}`)
    }
  }

  async #exchange(method: 'GET' | 'POST', path: string, what: string, body?: string) {
    const signal = AbortSignal.timeout(this.#timeoutMs)
    const exchange = async () => {
      const headers = {authorization: this.#authorization, 'content-type': 'application/json'}
      const response = await this.#pool.request({method, path, headers, body, signal})
      return {status: response.statusCode, body: new Uint8Array(await response.body.arrayBuffer())}
    }
    return await exchange()
      .catch(error => {
        if (!wasIdle(error)) throw error
        return exchange()
      })
      .catch(error => {
        const why = signal.aborted ? `no response within ${this.#timeoutMs} ms` : describe(error)
        throw new RetryableError(`could not request ${what} from bitcoind: ${why}`)
      })
  }
}

/** Nodes close connections that were idle for 30 s, possibly just when a request is sent. */
function wasIdle(error: NodeJS.ErrnoException): boolean {
  return error.code === 'ECONNRESET' || error.code === 'EPIPE' || error.code === 'UND_ERR_SOCKET'
}

function read<T>(method: string, {result, error}: Response, schema: z.ZodType<T>): T | RpcError {
  if (error?.code === warmingUp) throw new RetryableError(`bitcoind is starting: ${error.message.slice(0, 300)}`)
  if (error) return new RpcError(method, error)
  const parsed = schema.safeParse(result)
  if (parsed.success) return parsed.data
  throw new RetryableError(`bitcoind sent an unexpected response to ${method}: ${z.prettifyError(parsed.error)}`)
}

function text(body: Uint8Array): string {
  return Buffer.from(body).toString('utf8')
}

function describe(error: NodeJS.ErrnoException): string {
  return error.message || String(error.code)
}
