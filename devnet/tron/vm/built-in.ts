// The contracts that the network has in itself, at the lowest addresses: of them a local chain has the recovery of a
// signer (as Ethereum's), SHA-256, and the copy. A call of another fails.
import {recover} from 'tiny-secp256k1'
import {keyBytes, sha256} from '../../../chains/tron/address.ts'
import {Failure} from './frame.ts'
import {slice, wordOf} from './words.ts'

const highest = 0xffff_ffffn

/** What it costs and returns; undefined if it is a contract like others, or none. */
export function builtIn(address: bigint, data: Uint8Array): {cost: number; data: Uint8Array} | undefined {
  const words = Math.ceil(data.length / 32)
  if (address === 1n) return {cost: 3000, data: signer(data)}
  if (address === 2n) return {cost: 60 + 12 * words, data: sha256(data)}
  if (address === 4n) return {cost: 15 + 3 * words, data: data.slice()}
  if (address === 0n || address > highest) return undefined
  throw new Failure('PRECOMPILED_CONTRACT', `the local chain has no built-in contract ${address}`)
}

function signer(data: Uint8Array): Uint8Array {
  const recovery = wordOf(slice(data, 32n, 32)) - 27n
  if (recovery !== 0n && recovery !== 1n) return new Uint8Array()
  try {
    const key = recover(slice(data, 0n, 32), slice(data, 64n, 64), Number(recovery) as 0 | 1, true)
    return key ? Buffer.concat([new Uint8Array(12), keyBytes(key).subarray(1)]) : new Uint8Array()
  } catch {
    return new Uint8Array()
  }
}
