// What we ask an EVM node directly, beside the stream of blocks. Promises: every answer is checked for its shape; a question has an
// answer, or an error, within its timeout; "no such block" is an answer (undefined) and never an error.
import {setTimeout as sleep} from 'node:timers/promises'
import type {RpcClient} from '@subsquid/rpc-client'
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import {openRpc, RpcError} from '../../chains/evm/client.ts'
import type {BlockRef} from '../cursor.ts'

const quantity = z
  .string()
  .regex(/^0x[0-9a-f]+$/i)
  .transform(hex => Number(BigInt(hex)))
const Header = z.object({number: quantity, hash: z.string(), parentHash: z.string(), timestamp: quantity}).nullable()
const Whole = z.object({hash: z.string(), transactions: z.array(z.unknown())}).nullable()
const Receipts = z.array(z.unknown()).nullable()

export interface NodeBlock extends BlockRef {
  parentHash: string
  time: Date
}

const timeoutMs = 10_000
/** For what a node may have to compute. */
const slowMs = 60_000

export class Node {
  private readonly client: RpcClient

  constructor(url: string) {
    this.client = openRpc(url, {timeoutMs})
  }

  /** EIP-155 chain id. */
  async chainId(): Promise<number> {
    return quantity.parse(await inTime(this.client.call('eth_chainId')))
  }

  /** The block at a height, or the one that the node calls latest or finalized; undefined where it has none. */
  async block(at: number | 'latest' | 'finalized'): Promise<NodeBlock | undefined> {
    return toRef(await inTime(this.client.call('eth_getBlockByNumber', parameters(at))), at)
  }

  /** The hashes at several heights, undefined where the node has no block. */
  async hashes(heights: number[]): Promise<(string | undefined)[]> {
    return (await this.blocks(heights)).map(block => block?.hash)
  }

  /** The blocks at several heights, undefined where the node has none. */
  async blocks(heights: number[]): Promise<(NodeBlock | undefined)[]> {
    const calls = heights.map(height => ({method: 'eth_getBlockByNumber', params: parameters(height)}))
    const answers = await inTime(this.client.batchCall(calls))
    return answers.map((answer, i) => toRef(answer, heights[i]!))
  }

  /** Why the node cannot give a block with its receipts and, where they are read, call traces; undefined if it can. */
  async lacks(height: number, traces: 'off' | 'debug' | 'trace'): Promise<string | undefined> {
    const at = `0x${height.toString(16)}`
    try {
      const block = Whole.parse(await this.ask('eth_getBlockByNumber', [at, true]))
      if (!block) return 'it has no such block'
      const receipts = Receipts.parse(await this.ask('eth_getBlockReceipts', [at]))
      if (receipts?.length !== block.transactions.length) return 'it has no receipts of it'
      if (traces === 'trace') await this.ask('trace_block', [at])
      if (traces === 'debug') await this.ask('debug_traceBlockByHash', [block.hash, {tracer: 'callTracer'}])
    } catch (error) {
      // What it answers is what it can; a node that does not answer fails.
      if (error instanceof RpcError && !this.client.isConnectionError(error)) return error.message
      throw new RetryableError((error as Error).message)
    }
  }

  private ask(method: string, params: unknown[]): Promise<unknown> {
    return inTime(this.client.call(method, params, {timeout: slowMs}), slowMs)
  }

  close(): void {
    this.client.close()
  }
}

// The client keeps a question until there is a connection, however long that takes.
async function inTime<T>(answer: Promise<T>, withinMs = timeoutMs): Promise<T> {
  const clock = new AbortController()
  const late = sleep(withinMs, undefined, clock).then(() => {
    throw new RetryableError(`the node did not answer in ${withinMs} ms`)
  })
  return await Promise.race([answer, late]).finally(() => clock.abort())
}

function parameters(at: number | string): unknown[] {
  return [typeof at === 'number' ? `0x${at.toString(16)}` : at, false]
}

function toRef(answer: unknown, at: number | string): NodeBlock | undefined {
  const header = Header.parse(answer)
  if (!header) return
  if (typeof at === 'number' && header.number !== at) {
    throw new RetryableError(`the node was asked for block ${at} and answered with block ${header.number}`)
  }
  const {number: height, hash, parentHash, timestamp} = header
  return {height, hash, parentHash, time: new Date(timestamp * 1000)}
}
