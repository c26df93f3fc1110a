// The one place where the node of an EVM chain is connected to.
import {once} from 'node:events'
import {type CallOptions, RpcClient, type RpcClientOptions, RpcError} from '@subsquid/rpc-client'
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import type {NodeHead} from '../family.ts'
import type {EvmSettings} from './settings.ts'

export {RpcError}

/** Calls per request: public nodes refuse larger ones. */
const batchMax = 100

type Options = {timeoutMs: number} & Pick<RpcClientOptions, 'capacity' | 'retryAttempts'>

export function openRpc(url: string, {timeoutMs, ...options}: Options): RpcClient {
  return new RpcClient({url, requestTimeout: timeoutMs, maxBatchCallSize: batchMax, log: null, ...options})
}

/** An amount in hex, as nodes write it. */
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

/** What the node says, or why it refuses. */
export type Response = {result: unknown} | {code: number; message: string}

/**
 * A node that is asked now and then. Promises: a question has an answer, or a RetryableError, within the timeout; nothing waits for a node that
 * is away, because a connection on which anything went wrong is given up and the next question opens another.
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

  /** Answers in the order of the questions. */
  async ask(questions: Question[]): Promise<Response[]> {
    this.#closing.signal.throwIfAborted()
    this.#client ??= openRpc(this.#url, {timeoutMs: this.#timeoutMs})
    const client = this.#client
    const options: CallOptions<Response> = {
      validateResult: result => ({result}),
      validateError: ({code, message}) => ({code, message}),
    }
    // The client keeps a question until there is a connection, however long that takes.
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(this.#timeoutMs)])
    const aborted = once(signal, 'abort').then(() => {
      throw signal.reason
    })
    try {
      return await Promise.race([client.batchCall<Response>(questions, options), aborted])
    } catch (error) {
      if (this.#client === client) this.#disconnect()
      throw new RetryableError(`the node cannot be asked: ${(error as Error).message}`, {cause: error})
    }
  }

  /** Ends what is being asked, and answers nothing any more. */
  close(): void {
    this.#closing.abort(new RetryableError('the worker stops'))
    this.#disconnect()
  }

  #disconnect(): void {
    this.#client?.close()
    this.#client = undefined
  }
}
