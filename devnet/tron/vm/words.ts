// Words of the virtual machine: unsigned integers of 256 bits, their signed reading, and their bytes.
import {addressOf, bytesOf} from '../../../chains/tron/address.ts'

export const wrap = (value: bigint): bigint => BigInt.asUintN(256, value)
export const signed = (word: bigint): bigint => BigInt.asIntN(256, word)

export const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

/** The word in bytes, the highest first. */
export function wordOf(bytes: Uint8Array): bigint {
  return bytes.length === 0 ? 0n : BigInt(`0x${hexOf(bytes)}`)
}

export function bytesOfWord(word: bigint, length = 32): Uint8Array {
  return Buffer.from(
    BigInt.asUintN(8 * length, word)
      .toString(16)
      .padStart(2 * length, '0'),
    'hex',
  )
}

/** So many bytes from a position on; those behind the end are zero. */
export function slice(bytes: Uint8Array, from: bigint, length: number): Uint8Array {
  const found = new Uint8Array(length)
  if (from < BigInt(bytes.length)) found.set(bytes.subarray(Number(from), Number(from) + length))
  return found
}

const known = new Map<bigint, string>()

/** The address in the low 20 bytes of a word. */
export function addressIn(word: bigint): string {
  const low = BigInt.asUintN(160, word)
  let address = known.get(low)
  if (address === undefined) {
    if (known.size > 10_000) known.clear()
    address = addressOf(Uint8Array.of(0x41, ...bytesOfWord(low, 20)))
    known.set(low, address)
  }
  return address
}

export const wordOfAddress = (address: string): bigint => wordOf(bytesOf(address).subarray(1))

export function power(base: bigint, exponent: bigint): bigint {
  let [result, factor] = [1n, base]
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = wrap(result * factor)
    factor = wrap(factor * factor)
  }
  return result
}
