// The key store. Only this file knows where keys are. Policy decides and signers build; both see only this interface,
// so a hosted or hardware key store can replace the local one. Promises: a private key leaves this file only for its
// curve, which stores none. The same message gives the same signature.
import {mnemonicToSeed} from '@scure/bip39'
import type {Family} from '../../chains/registry.ts'

export interface KeyPath {
  family: Family
  purpose: 'deposit' | 'treasury'
  index: number
}

export interface KeyStore {
  /** The public key, in the format of the family's curve. */
  publicKey(path: KeyPath): Promise<Uint8Array>
  /** Signs a digest or a whole message, whichever the family's curve signs; the signature has the curve's format. */
  sign(path: KeyPath, message: Uint8Array): Promise<Uint8Array>
}

/** Derives keys from a seed and signs with them. */
export interface Curve {
  /**
   * The private keys of a branch by their index. The caller must wipe each key. Nothing refers to the seed afterwards.
   */
  branch(seed: Uint8Array, path: string): (index: number) => Uint8Array
  publicKey(key: Uint8Array): Uint8Array
  sign(key: Uint8Array, message: Uint8Array): Uint8Array
}

/** The key branches of a family. */
export interface KeyFamily {
  curve: Curve
  /** Derivation paths, with i for the index. */
  branches: Record<KeyPath['purpose'], string>
}

/** Keys derived from a BIP-39 phrase, in this process. */
export async function localKeys(phrase: string, families: Record<Family, KeyFamily>): Promise<KeyStore> {
  const seed = await mnemonicToSeed(phrase)
  const open = ({curve, branches}: KeyFamily) => ({
    curve,
    deposit: curve.branch(seed, branches.deposit),
    treasury: curve.branch(seed, branches.treasury),
  })
  const opened = new Map(Object.entries(families).map(([family, keys]) => [family, open(keys)]))
  seed.fill(0)

  /** The result of `use` on the private key, which is wiped at once afterwards. */
  function withKey<T>({family, purpose, index}: KeyPath, use: (curve: Curve, key: Uint8Array) => T): T {
    const {curve, [purpose]: branch} = opened.get(family)!
    const key = branch(index)
    try {
      return use(curve, key)
    } finally {
      key.fill(0)
    }
  }

  return {
    async publicKey(path) {
      return withKey(path, (curve, key) => curve.publicKey(key))
    },
    async sign(path, message) {
      return withKey(path, (curve, key) => curve.sign(key, message))
    },
  }
}
