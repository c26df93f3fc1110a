// What Bitcoin nodes and servers return: hashes, and bytes in hex.
import {z} from 'zod'
import {type BlockHeader, parseHeader} from '../../chains/bitcoin/block.ts'

export const Hash = z.string().regex(/^[0-9a-f]{64}$/)
export const Hex = z.string().regex(/^([0-9a-f]{2})*$/i)

/** Throws MalformedError if the bytes are no header. */
export function headerOf(hex: string): BlockHeader {
  return parseHeader(Buffer.from(hex, 'hex'))
}
