// Keys of accounts on a local Solana chain: ed25519.
import {createPrivateKey, createPublicKey, type KeyObject, randomBytes, sign as signWith} from 'node:crypto'
import {getBase58Decoder} from '@solana/kit'

/** PKCS #8 of an ed25519 key, without the 32 bytes of the key. */
const header = Buffer.from('302e020100300506032b657004220420', 'hex')

export const newKey = (): Uint8Array => randomBytes(32)

function keyObject(key: Uint8Array): KeyObject {
  return createPrivateKey({key: Buffer.concat([header, key]), format: 'der', type: 'pkcs8'})
}

export function addressOfKey(key: Uint8Array): string {
  const spki = createPublicKey(keyObject(key)).export({format: 'der', type: 'spki'})
  return getBase58Decoder().decode(spki.subarray(-32))
}

export const sign = (message: Uint8Array, key: Uint8Array): Uint8Array => signWith(null, message, keyObject(key))
