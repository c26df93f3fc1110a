// The only place that connects to the node of an EVM chain.
import {once} from 'node:events'
import {connect} from 'node:net'
import {type CallOptions, type RpcClient, type RpcClientOptions, RpcError} from '@subsquid/rpc-client'
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import type {NodeHead} from '../family.ts'
import {BatchingClient} from './rpc.ts'
import type {EvmSettings} from './settings.ts'

export {RpcError}

type Options = {timeoutMs: number} & Pick<RpcClientOptions, 'capacity' | 'retryAttempts' | 'log'>

export function openRpc(url: string, {timeoutMs, ...options}: Options): RpcClient {
  return new BatchingClient({url, requestTimeout: timeoutMs, log: null, ...options})
}

/** An amount in hex, as nodes return it. */
export const quantity = z
  .string()
  .regex(/^0x[0-9a-f]*$/i)
  .transform(hex => (hex === '0x' ? 0n : BigInt(hex)))

export function openHead({rpcUrl}: EvmSettings, timeoutMs: number): NodeHead {
  const client = openRpc(rpcUrl!, {timeoutMs})
  return {
    height: async () => Number(quantity.parse(await client.call('eth_blockNumber'))),
    close: () => client.close(),
  }
}

export interface Question {
  method: string
  params: unknown[]
}

/** A node's result, or its error. */
export type Response = {result: unknown} | {code: number; message: string}

/**
 * A node that is asked now and then. Promises: a request gets a response or a RetryableError within the timeout.
 * Nothing waits for a node that is offline: after any failure the connection is closed, and the next request opens
 * another.
 */
export class Questions {
  readonly #url: string
  readonly #timeoutMs: number
  readonly #closing = new AbortController()
  #client: RpcClient | undefined

  constructor(url: string, timeoutMs: number) {
    this.#url = url
    this.#timeoutMs = timeoutMs
  }

  /** Resolves to the responses, in the order of the requests. */
  async ask(questions: Question[]): Promise<Response[]> {
    this.#closing.signal.throwIfAborted()
    this.#client ??= openRpc(this.#url, {timeoutMs: this.#timeoutMs})
    const client = this.#client
    const options: CallOptions<Response> = {
      validateResult: result => ({result}),
      validateError: ({code, message}) => ({code, message}),
    }
    // The client holds a request until there is a connection, without a limit.
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(this.#timeoutMs)])
    const aborted = once(signal, 'abort').then(() => {
      throw signal.reason
    })
    try {
      return await Promise.race([client.batchCall<Response>(questions, options), aborted])
    } catch (error) {
      if (this.#client === client) this.#disconnect()
      const why = this.#closing.signal.aborted ? undefined : await whyUnreachable(this.#url)
      throw new RetryableError(`the node cannot be asked: ${why ?? (error as Error).message}`, {cause: error})
    }
  }

  /** Ends running requests and refuses new ones. */
  close(): void {
    this.#closing.abort(new RetryableError('the worker stops'))
    this.#disconnect()
  }

  #disconnect(): void {
    this.#client?.close()
    this.#client = undefined
  }
}

// --- a node that is not there: the client, which connects again and again, says only that the time is over ---

const connectLimitMs = 2000
const ports: Record<string, number> = {'ws:': 80, 'http:': 80, 'wss:': 443, 'https:': 443}

/**
 * The error with which the system refuses a connection to the host of a URL; undefined if one can be made, or nothing
 * comes back in time.
 */
export async function whyUnreachable(url: string): Promise<string | undefined> {
  const {hostname, port, protocol} = new URL(url)
  const socket = connect(Number(port) || ports[protocol]!, hostname.replaceAll(/^\[|\]$/g, ''))
  try {
    await once(socket, 'connect', {signal: AbortSignal.timeout(connectLimitMs)})
    return undefined
  } catch (error) {
    return refusalIn(error as Error)
  } finally {
    socket.destroy()
  }
}

/** A name with several addresses gives an error for each. */
function refusalIn(error: Error): string | undefined {
  if (error.name === 'AbortError') return undefined
  const [first = error] = (error as AggregateError).errors ?? []
  return `the connection is refused: ${(first as Error).message}`
}
