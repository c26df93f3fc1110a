// Direct requests to an EVM node, beside the stream of blocks. Promises: every response is checked against its schema.
// A request ends in a response, in what the node refuses (refusals.ts), or in a RetryableError, within its timeout. "No
// such block" is a response (undefined), never an error.
import type {RpcClient} from '@subsquid/rpc-client'
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import {openRpc, whyUnreachable} from '../../chains/evm/client.ts'
import {inTime} from '../in-time.ts'
import type {WaitingReason} from '../waits.ts'
import {type BlockTag, type Header, headerCall, readHeader, smallQuantity} from './header.ts'
import {Refusal, refusalIn} from './refusals.ts'

const Whole = z.object({hash: z.string(), transactions: z.array(z.unknown())}).nullable()
const Receipts = z.array(z.unknown()).nullable()

const timeoutMs = 10_000
/** The timeout for requests that a node may have to compute. */
const slowMs = 60_000

/** What a node says of a block that it no longer has. Anything else may pass, or concerns every block. */
const isOfBlock = new Set<WaitingReason>(['state_pruned', 'blocks_missing'])

export class Node {
  readonly #url: string
  readonly #chain: string
  #client: RpcClient

  constructor(url: string, chain: string) {
    this.#url = url
    this.#chain = chain
    this.#client = openRpc(url, {timeoutMs})
  }

  /** EIP-155 chain id. */
  async chainId(): Promise<number> {
    return smallQuantity.parse(await this.#ask('eth_chainId', []))
  }

  /** The block at a height, or the one that the node calls latest or finalized; undefined if it has none. */
  async block(at: number | BlockTag): Promise<Header | undefined> {
    const {method, params} = headerCall(at)
    return headerAt(at, await this.#ask(method, params))
  }

  /** The hashes at several heights; undefined where the node has no block. */
  async hashes(heights: number[]): Promise<(string | undefined)[]> {
    return (await this.blocks(heights)).map(block => block?.hash)
  }

  /** The blocks at several heights; undefined where the node has none. */
  async blocks(heights: number[]): Promise<(Header | undefined)[]> {
    const responses = await this.#answered(inTime(this.#client.batchCall(heights.map(headerCall)), timeoutMs))
    return responses.map((response, i) => headerAt(heights[i]!, response))
  }

  /**
   * Why the node cannot give a block with its receipts and, where they are read, call traces; undefined if it can.
   * Throws Waiting if it serves no method for that, whatever the block.
   */
  async lacks(height: number, traces: 'off' | 'debug' | 'trace'): Promise<string | undefined> {
    const at = `0x${height.toString(16)}`
    try {
      const block = Whole.parse(await this.#ask('eth_getBlockByNumber', [at, true], slowMs))
      if (!block) return 'it has no such block'
      const receipts = Receipts.parse(await this.#ask('eth_getBlockReceipts', [at], slowMs))
      if (receipts?.length !== block.transactions.length) return 'it lacks receipts of this block'
      if (traces === 'trace') await this.#ask('trace_block', [at], slowMs)
      if (traces === 'debug') await this.#ask('debug_traceBlockByHash', [block.hash, {tracer: 'callTracer'}], slowMs)
    } catch (error) {
      if (error instanceof Refusal && isOfBlock.has(error.reason)) return error.words
      throw error
    }
  }

  // The client holds a request until there is a connection, without a limit.
  #ask(method: string, params: unknown[], timeout = timeoutMs): Promise<unknown> {
    return this.#answered(inTime(this.#client.call(method, params, {timeout}), timeout))
  }

  /** An error of the node becomes what the chain waits for. */
  async #answered<T>(asked: Promise<T>): Promise<T> {
    try {
      return await asked
    } catch (error) {
      const isPassing = this.#client.isConnectionError(error as Error) // also a node that has too many requests
      const refusal = isPassing ? undefined : refusalIn(error, this.#chain)
      if (refusal) throw refusal
      this.#reconnect()
      throw new RetryableError((await whyUnreachable(this.#url)) ?? (error as Error).message)
    }
  }

  /** A connection that is never made would keep all later requests waiting, and send them all once the node is back. */
  #reconnect(): void {
    this.#client.close()
    this.#client = openRpc(this.#url, {timeoutMs})
  }

  close(): void {
    this.#client.close()
  }
}

function headerAt(at: number | BlockTag, response: unknown): Header | undefined {
  const header = readHeader(response)
  if (typeof at !== 'number' || !header || header.height === at) return header
  throw new RetryableError(`the node returned block ${header.height} instead of block ${at}`)
}
