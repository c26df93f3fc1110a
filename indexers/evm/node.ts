// What we ask an EVM node directly, beside the stream of blocks. Promises: every answer is checked for its shape; a question has an
// answer, or an error, within its timeout; "no such block" is an answer (undefined) and never an error.
import {RpcClient} from '@subsquid/rpc-client'
import {z} from 'zod'

const quantity = z
  .string()
  .regex(/^0x[0-9a-f]+$/i)
  .transform(hex => Number(BigInt(hex)))
const Header = z.object({number: quantity, hash: z.string(), timestamp: quantity}).nullable()

export interface BlockRef {
  height: number
  hash: string
  time: Date
}

export class Node {
  private readonly client: RpcClient

  constructor(url: string) {
    this.client = new RpcClient({url, requestTimeout: 10_000, retryAttempts: 0, maxBatchCallSize: 100, log: null})
  }

  /** EIP-155 chain id. */
  async chainId(): Promise<number> {
    return quantity.parse(await this.client.call('eth_chainId'))
  }

  /** The block at a height, or the one that the node calls latest or finalized; undefined where it has none. */
  async block(at: number | 'latest' | 'finalized'): Promise<BlockRef | undefined> {
    return toRef(await this.client.call('eth_getBlockByNumber', parameters(at)))
  }

  /** The hashes at several heights, undefined where the node has no block. */
  async hashes(heights: number[]): Promise<(string | undefined)[]> {
    const calls = heights.map(height => ({method: 'eth_getBlockByNumber', params: parameters(height)}))
    const answers = await this.client.batchCall(calls)
    return answers.map(answer => toRef(answer)?.hash)
  }

  close(): void {
    this.client.close()
  }
}

function parameters(at: number | string): unknown[] {
  return [typeof at === 'number' ? `0x${at.toString(16)}` : at, false]
}

function toRef(answer: unknown): BlockRef | undefined {
  const header = Header.parse(answer)
  return header ? {height: header.number, hash: header.hash, time: new Date(header.timestamp * 1000)} : undefined
}
