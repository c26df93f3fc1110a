// Requests EVM nodes for blocks without their transactions, and parses the responses. Promises: every response is
// checked for its shape. "No such block" is a response (undefined), never an error.
import {z} from 'zod'
import {quantity} from '../../chains/evm/client.ts'
import type {BlockRef} from '../cursor.ts'

export const smallQuantity = quantity.transform(Number)
const Response = z
  .object({number: smallQuantity, hash: z.string(), parentHash: z.string(), timestamp: smallQuantity})
  .nullable()

export interface Header extends BlockRef {
  parentHash: string
  time: Date
}

export type BlockTag = 'latest' | 'finalized'

export function headerCall(at: number | BlockTag): {method: string; params: unknown[]} {
  return {method: 'eth_getBlockByNumber', params: [typeof at === 'number' ? `0x${at.toString(16)}` : at, false]}
}

export function readHeader(response: unknown): Header | undefined {
  const header = Response.parse(response)
  if (!header) return
  const {number: height, hash, parentHash, timestamp} = header
  return {height, hash, parentHash, time: new Date(timestamp * 1000)}
}
