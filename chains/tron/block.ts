// Headers of Tron's blocks, and what they commit to. Promises: a block's id is computed from its header; its first
// eight bytes are the height. The root in a header covers the block's whole transactions, with their signatures and
// results, and says nothing of internal transactions, logs and fees.
import {sha256} from './address.ts'
import {encode} from './protobuf.ts'
import {encodeTransaction, type Transaction} from './transaction.ts'

export interface Header {
  height: number
  parentHash: string
  /** In ms. */
  time: number
  /** In hex. */
  txTrieRoot: string
  /** In hex. */
  witness: string
  witnessId: bigint
  version: bigint
  /** In hex; nearly always empty. */
  accountStateRoot: string
}

/** The root of a block without transactions. */
export const emptyRoot = '00'.repeat(32)

const bytes = (hex: string) => Buffer.from(hex, 'hex')

export function encodeHeader(header: Header): Uint8Array {
  return encode([
    [1, BigInt(header.time)],
    [2, bytes(header.txTrieRoot)],
    [3, bytes(header.parentHash)],
    [7, BigInt(header.height)],
    [8, header.witnessId],
    [9, bytes(header.witness)],
    [10, header.version],
    [11, bytes(header.accountStateRoot)],
  ])
}

export function blockId(header: Header): string {
  const hash = sha256(encodeHeader(header)).toString('hex')
  return header.height.toString(16).padStart(16, '0') + hash.slice(16)
}

export function txTrieRoot(transactions: Transaction[]): string {
  let hashes: Uint8Array[] = transactions.map(transaction => sha256(encodeTransaction(transaction)))
  while (hashes.length > 1)
    hashes = Array.from({length: Math.ceil(hashes.length / 2)}, (_, i) => {
      const [left, right] = [hashes[2 * i]!, hashes[2 * i + 1]]
      return right ? sha256(Buffer.concat([left, right])) : left
    })
  return hashes[0] ? Buffer.from(hashes[0]).toString('hex') : emptyRoot
}
