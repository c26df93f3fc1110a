// The curve of EVM chains and Bitcoin. Promises: keys follow BIP-32. Signatures are deterministic (RFC 6979) and have a
// low s, so the same digest gives the same bytes.
import {BIP32Factory} from 'bip32'
import * as ecc from 'tiny-secp256k1'
import type {Curve} from './key-store.ts'

export interface Signature {
  r: bigint
  s: bigint
  yParity: 0 | 1
}

const bip32 = BIP32Factory(ecc)

/** Public keys are compressed: 33 bytes. The signature of a 32-byte digest is r, s and one recovery byte. */
export const secp256k1: Curve = {
  branch(seed, path) {
    const root = bip32.fromSeed(seed)
    const parent = root.derivePath(path.replace(/\/i$/, ''))
    root.privateKey!.fill(0)
    return index => parent.derive(index).privateKey!
  },
  publicKey: key => ecc.pointFromScalar(key, true)!,
  sign(key, digest) {
    const {signature, recoveryId} = ecc.signRecoverable(digest, key)
    return Uint8Array.of(...signature, recoveryId)
  },
}

export function readSignature(bytes: Uint8Array): Signature {
  const [r, s] = [numberOf(bytes.subarray(0, 32)), numberOf(bytes.subarray(32, 64))]
  return {r, s, yParity: bytes[64] === 1 ? 1 : 0}
}

function numberOf(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes).toString('hex')}`)
}
