// Where keys are kept, and the only place that knows. Policy decides and signers build; both see this interface alone, so a hosted or a
// hardware key store can take the place of the local one. Promises: a private key never leaves this file; signatures are deterministic
// (RFC 6979) and have a low s, so the same digest gives the same bytes.
import {mnemonicToSeed} from '@scure/bip39'
import {BIP32Factory} from 'bip32'
import * as secp256k1 from 'tiny-secp256k1'
import type {Chain} from '../chains/registry.ts'

export type Family = Chain['family']

export interface KeyPath {
  family: Family
  purpose: 'deposit' | 'treasury'
  index: number
}

export interface Signature {
  r: bigint
  s: bigint
  yParity: 0 | 1
}

export interface KeyStore {
  /** The compressed public key, 33 bytes. */
  publicKey(path: KeyPath): Promise<Uint8Array>
  /** Signs a digest of 32 bytes on secp256k1. */
  sign(path: KeyPath, digest: Uint8Array): Promise<Signature>
}

/** Deposit addresses on account 0, the treasury on account 1; BIP-44, and BIP-84 with the coin of every test network. */
const branches = {
  evm: {deposit: "m/44'/60'/0'/0", treasury: "m/44'/60'/1'/0"},
  bitcoin: {deposit: "m/84'/1'/0'/0", treasury: "m/84'/1'/1'/0"},
}

/** Keys derived from a BIP-39 phrase, in this process. */
export async function localKeys(phrase: string): Promise<KeyStore> {
  const seed = await mnemonicToSeed(phrase)
  const root = BIP32Factory(secp256k1).fromSeed(seed)
  const parents = {
    evm: {deposit: root.derivePath(branches.evm.deposit), treasury: root.derivePath(branches.evm.treasury)},
    bitcoin: {deposit: root.derivePath(branches.bitcoin.deposit), treasury: root.derivePath(branches.bitcoin.treasury)},
  }
  seed.fill(0)
  root.privateKey!.fill(0)

  /** What `use` makes of the private key, which is wiped at once. */
  function withKey<T>({family, purpose, index}: KeyPath, use: (key: Uint8Array) => T): T {
    const key = parents[family][purpose].derive(index).privateKey!
    try {
      return use(key)
    } finally {
      key.fill(0)
    }
  }

  return {
    async publicKey(path) {
      return withKey(path, key => secp256k1.pointFromScalar(key, true)!)
    },
    async sign(path, digest) {
      const {signature, recoveryId} = withKey(path, key => secp256k1.signRecoverable(digest, key))
      const [r, s] = [numberOf(signature.subarray(0, 32)), numberOf(signature.subarray(32))]
      return {r, s, yParity: recoveryId === 1 ? 1 : 0}
    },
  }
}

function numberOf(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes).toString('hex')}`)
}
