// A mark in each entry of the journal that nobody can make without the seed. The file needs none: whoever can write it is on custody's machine.
// But an entry that only the database has, because custody died before it was in the file, is believed; by its seal.
import {createHash, createHmac} from 'node:crypto'
import type {KeyPath, KeyStore} from './keys.ts'
import {readSignature} from './secp256k1.ts'

/** The seal of a text. */
export type Seal = (text: string) => string

/** Any key would do, but always this one: with another, nothing that was ever sealed would be believed. */
const sealing: KeyPath = {family: 'evm', purpose: 'treasury', index: 0}

/** Of the keys that a seed has: the same at each start, because signatures are deterministic. */
export async function sealOf(keys: KeyStore): Promise<Seal> {
  const purpose = createHash('sha256').update('sluice: the seal of the journal').digest()
  const {r, s} = readSignature(await keys.sign(sealing, purpose))
  const secret = createHash('sha256').update(`${r} ${s}`).digest()
  return text => createHmac('sha256', secret).update(text).digest('base64url')
}
