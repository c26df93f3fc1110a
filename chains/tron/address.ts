// Addresses of Tron: 21 bytes, 0x41 and the last 20 bytes of the hash of a public key, or of what made a contract.
// People write them in base58check; nodes, and the chain itself, use the bytes. Promises: a text that is accepted is
// the only one of its address.
import {createHash} from 'node:crypto'
import {keccak_256} from '@noble/hashes/sha3.js'
import {pointCompress} from 'tiny-secp256k1'
import {fromBase58, toBase58} from '../base58.ts'
import {AddressError} from '../family.ts'

const prefix = 0x41
const wrong = 'must be T and 33 letters and digits (base58)'

/** The text of an address, given as its 21 bytes. Throws RangeError if they are none. */
export function addressOf(bytes: Uint8Array): string {
  if (bytes.length !== 21 || bytes[0] !== prefix) throw new RangeError('an address has 21 bytes and begins with 41')
  return toBase58(Buffer.concat([bytes, checksum(bytes)]))
}

/** The 21 bytes of an address that people wrote. Throws AddressError. */
export function bytesOf(address: string): Uint8Array {
  const bytes = /^T\w{33}$/.test(address) ? fromBase58(address) : undefined
  if (!bytes) throw new AddressError('invalid_address', wrong)
  const [found, sum] = [bytes.subarray(0, 21), bytes.subarray(21)]
  if (!sum.equals(checksum(found)))
    throw new AddressError('invalid_checksum', 'is mistyped: its last four bytes are no checksum of the others')
  if (bytes.length !== 25 || found[0] !== prefix) throw new AddressError('invalid_address', wrong)
  return found
}

/** The 21 bytes of the address of a public key, compressed or not. */
export function keyBytes(publicKey: Uint8Array): Uint8Array {
  const hash = keccak_256(pointCompress(publicKey, false).subarray(1))
  return Uint8Array.of(prefix, ...hash.subarray(12))
}

function checksum(bytes: Uint8Array): Uint8Array {
  return sha256(sha256(bytes)).subarray(0, 4)
}

export function sha256(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest()
}
