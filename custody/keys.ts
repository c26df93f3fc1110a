// Where keys are kept, and the only place that knows. Policy decides and signers build; both see this interface alone, so a hosted or a
// hardware key store can take the place of the local one. Promises: a private key never leaves this file, but for its curve, which keeps none;
// the same message gives the same signature.
import {mnemonicToSeed} from '@scure/bip39'
import type {Family} from '../chains/registry.ts'

export interface KeyPath {
  family: Family
  purpose: 'deposit' | 'treasury'
  index: number
}

export interface KeyStore {
  /** In the form of the family's curve. */
  publicKey(path: KeyPath): Promise<Uint8Array>
  /** Signs what the family's curve signs, a digest or a whole message, and in its form. */
  sign(path: KeyPath, message: Uint8Array): Promise<Uint8Array>
}

/** How keys come from a seed, and what is made with them. */
export interface Curve {
  /** The private keys of a branch by their index, to be wiped by whoever asks for one. Nothing refers to the seed afterwards. */
  branch(seed: Uint8Array, path: string): (index: number) => Uint8Array
  publicKey(key: Uint8Array): Uint8Array
  sign(key: Uint8Array, message: Uint8Array): Uint8Array
}

/** Where a family has its keys. */
export interface KeyFamily {
  curve: Curve
  /** Derivation paths in which i is the index. */
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

  /** What `use` makes of the private key, which is wiped at once. */
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
