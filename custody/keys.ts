// Where keys are kept, and the only place that knows. Policy decides and signers build; both see this interface alone, so a hosted or a
// hardware key store can take the place of the local one. Promises: a private key never leaves this file; signatures are deterministic
// (RFC 6979), so the same digest gives the same bytes.
import {secp256k1} from '@noble/curves/secp256k1.js'
import {HDKey} from '@scure/bip32'
import {mnemonicToSeed} from '@scure/bip39'

export interface KeyPath {
  purpose: 'deposit' | 'treasury'
  index: number
}

export interface Signature {
  r: bigint
  s: bigint
  yParity: 0 | 1
}

export interface KeyStore {
  /** The uncompressed public key, 65 bytes. */
  publicKey(path: KeyPath): Promise<Uint8Array>
  /** Signs a digest of 32 bytes on secp256k1. */
  sign(path: KeyPath, digest: Uint8Array): Promise<Signature>
}

/** BIP-44: deposit addresses on account 0, the treasury on account 1. */
const branches = {deposit: "m/44'/60'/0'/0", treasury: "m/44'/60'/1'/0"}

/** Keys derived from a BIP-39 phrase, in this process. */
export async function localKeys(phrase: string): Promise<KeyStore> {
  const root = HDKey.fromMasterSeed(await mnemonicToSeed(phrase))
  const branch = {deposit: root.derive(branches.deposit), treasury: root.derive(branches.treasury)}
  root.wipePrivateData()
  const publicBranch = {
    deposit: HDKey.fromExtendedKey(branch.deposit.publicExtendedKey),
    treasury: HDKey.fromExtendedKey(branch.treasury.publicExtendedKey),
  }
  return {
    async publicKey({purpose, index}) {
      const {publicKey} = publicBranch[purpose].deriveChild(index)
      return secp256k1.Point.fromBytes(publicKey!).toBytes(false)
    },
    async sign({purpose, index}, digest) {
      const key = branch[purpose].deriveChild(index)
      const bytes = secp256k1.sign(digest, key.privateKey!, {prehash: false, format: 'recovered'})
      key.wipePrivateData()
      const {r, s, recovery} = secp256k1.Signature.fromBytes(bytes, 'recovered')
      return {r, s, yParity: recovery === 1 ? 1 : 0}
    },
  }
}
