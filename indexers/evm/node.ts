// What we ask an EVM node directly, beside the stream of blocks. Promises: every answer is checked for its shape; a question has an
// answer, or an error, within its timeout; "no such block" is an answer (undefined) and never an error.
import {setTimeout as sleep} from 'node:timers/promises'
import {RpcClient} from '@subsquid/rpc-client'
import {z} from 'zod'
import {RetryableError} from '../../service/errors.ts'
import type {BlockRef} from '../cursor.ts'

const quantity = z
  .string()
  .regex(/^0x[0-9a-f]+$/i)
  .transform(hex => Number(BigInt(hex)))
const Header = z.object({number: quantity, hash: z.string(), timestamp: quantity}).nullable()

export interface NodeBlock extends BlockRef {
  time: Date
}

const timeoutMs = 10_000

export class Node {
  private readonly client: RpcClient

  constructor(url: string) {
    this.client = new RpcClient({url, requestTimeout: timeoutMs, retryAttempts: 0, maxBatchCallSize: 100, log: null})
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
    const calls = heights.map(height => ({method: 'eth_getBlockByNumber', params: parameters(height)}))
    const answers = await inTime(this.client.batchCall(calls))
    return answers.map((answer, i) => toRef(answer, heights[i]!)?.hash)
  }
}

// The client keeps a question until there is a connection, however long that takes.
async function inTime<T>(answer: Promise<T>): Promise<T> {
  const clock = new AbortController()
  const late = sleep(timeoutMs, undefined, clock).then(() => {
    throw new RetryableError(`the node did not answer in ${timeoutMs} ms`)
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
  return {height: header.number, hash: header.hash, time: new Date(header.timestamp * 1000)}
}
