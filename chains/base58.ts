// Base58, as Bitcoin's first wallet wrote it. Each row of bytes has exactly one text.
import {base58} from '@scure/base'

export const toBase58 = (bytes: Uint8Array): string => base58.encode(bytes)

/** Undefined if a letter is none of base58. */
export function fromBase58(text: string): Buffer | undefined {
  try {
    return Buffer.from(base58.decode(text))
  } catch {
    return undefined
  }
}
