// Batches of calls to an EVM node. Nodes limit how many calls a batch has, and how large its responses are together;
// each has limits of its own, which it does not tell. Promises: a batch that is too large for a node is asked in
// halves, down to single calls, which have no such limits; so is one that fails again and again, as if the node could
// not finish it. A limit on calls is remembered. If a node refuses a batch as a whole, each of its calls gets the
// node's error, over HTTP and websocket.
import {type CallOptions, RpcClient, type RpcClientOptions, RpcError} from '@subsquid/rpc-client'
import {meaningOf} from './node-errors.ts'

type Calls = {method: string; params?: unknown[]}[]

/** Public nodes refuse larger batches. */
const callsMost = 100
/** How often a batch is asked again after the connection failed, before it is asked in halves. */
const attemptsWhole = 2

export class BatchingClient extends RpcClient {
  #most = callsMost
  readonly #attempts: number

  constructor(options: RpcClientOptions) {
    super(options)
    this.#attempts = options.retryAttempts ?? 0
    spreadRefusals(this)
  }

  override async batchCall<T = unknown>(calls: Calls, options: CallOptions<T> = {}): Promise<T[]> {
    const parts: Calls[] = []
    for (let i = 0; i < calls.length; i += this.#most) parts.push(calls.slice(i, i + this.#most))
    return (await Promise.all(parts.map(part => this.#part(part, options)))).flat()
  }

  async #part<T>(calls: Calls, options: CallOptions<T>): Promise<T[]> {
    const {retryAttempts = this.#attempts} = options
    if (calls.length < 2) return await super.batchCall(calls, {...options, ...refusing(options)})
    try {
      return await super.batchCall(calls, {
        ...options,
        ...refusing(options),
        retryAttempts: Math.min(retryAttempts, attemptsWhole),
      })
    } catch (error) {
      const meaning = meaningOf(error)
      const isPatient = retryAttempts > attemptsWhole && this.isConnectionError(error as Error)
      if (meaning !== 'batch_too_large' && meaning !== 'response_too_large' && !isPatient) throw error
      const half = Math.ceil(calls.length / 2)
      if (meaning === 'batch_too_large') this.#most = Math.min(this.#most, half)
      return [...(await this.#part(calls.slice(0, half), options)), ...(await this.#part(calls.slice(half), options))]
    }
  }
}

/**
 * A caller that takes the errors of calls as responses does not get those that are about the batch. Nor those of traces
 * that say what the node lacks: evm-processor takes whatever says "not found" for a block that is gone.
 */
function refusing<T>({validateError}: CallOptions<T>): CallOptions<T> {
  if (!validateError) return {}
  return {
    validateError(info, request) {
      const meaning = meaningOf(info)
      const isOfTraces =
        /^(debug|trace)_/.test(request.method) && (meaning === 'state_pruned' || meaning === 'method_missing')
      if (meaning === 'batch_too_large' || meaning === 'response_too_large' || isOfTraces) throw new RpcError(info)
      return validateError(info, request)
    },
  }
}

// --- private in rpc-client 4.14.0 ---

interface Response {
  id?: number | null
  error?: {code: number; message: string}
}

interface Pending {
  /** The batch that a call belongs to; absent for a single call. */
  handle?: {pending: number}
  resolve(response: Response): void
}

interface HttpConnection {
  http: {handleResponseBody(request: {body?: unknown}, response: {ok: boolean}): Promise<unknown>}
}

interface Websocket {
  requests: Map<number, Pending>
  onMessage(data: unknown): void
  handleResponse(response: Response): void
}

/**
 * A node that refuses a batch sends one error: in a list that names the first call (geth), or alone, without an id.
 * rpc-client waits for the other responses until the timeout (websocket), or loses the node's words (HTTP).
 */
function spreadRefusals(client: RpcClient): void {
  const {con} = client as unknown as {con: HttpConnection | Websocket}
  if ('http' in con) {
    const handle = con.http.handleResponseBody.bind(con.http)
    con.http.handleResponseBody = async (request, response) => {
      if (response.ok) return spread(request.body, await handle(request, response))
      return await handle(request, response).catch(() => null) // a body that is no JSON; the status says enough
    }
  } else {
    const handleMessage = con.onMessage.bind(con)
    const handleResponse = con.handleResponse.bind(con)
    const givenUp = new Set<number | null | undefined>()
    con.onMessage = data => {
      const refused = refusedBatches(con.requests, data)
      handleMessage(data)
      for (const {id, call, error} of refused) {
        if (!con.requests.delete(id)) continue
        givenUp.add(id)
        call.resolve({id, error})
      }
    }
    // A response to a batch that another batch's refusal without an id ended, too: rpc-client would end the connection
    // for it.
    con.handleResponse = response => {
      if (!givenUp.delete(response.id)) handleResponse(response)
    }
  }
}

/**
 * The response to each call of a batch, if the body that was sent is a batch that the node refused; else the response
 * as it is.
 */
function spread(sent: unknown, response: unknown): unknown {
  const calls = typeof sent === 'string' && sent.startsWith('[') ? (JSON.parse(sent) as {id: number}[]) : []
  const [first, ...others] = [response].flat() as (Response | undefined)[]
  if (calls.length < 2 || !first?.error || others.length) return response
  return calls.map(({id}) => ({jsonrpc: '2.0', id, error: first.error}))
}

/**
 * The calls that a message leaves without a response, though it ends their batch; an error without an id ends every
 * batch under way.
 */
function refusedBatches(requests: Map<number, Pending>, data: unknown) {
  const [first, ...others] = parsed(data)
  if (!first?.error || others.length) return []
  const {error} = first
  const its = first.id == null ? undefined : requests.get(first.id)?.handle
  if (first.id != null && !its) return [] // a single call
  return [...requests].flatMap(([id, call]) => {
    return call.handle && (!its || call.handle === its) ? [{id, call, error}] : []
  })
}

function parsed(data: unknown): (Response | undefined)[] {
  try {
    return [JSON.parse(String(data))].flat()
  } catch {
    return [] // rpc-client says so
  }
}
