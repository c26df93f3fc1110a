// A mark in each entry of the journal that nobody can make without the seed. The file needs none: whoever can write it is on custody's machine.
// But an entry that only the database has, because custody died before it was in the file, is believed; by its seal.
import {createHash, createHmac} from 'node:crypto'
import type {KeyStore} from './keys.ts'

/** The seal of a text. */
export type Seal = (text: string) => string

/** Of the keys that a seed has: the same at each start, because signatures are deterministic. */
export async function sealOf(keys: KeyStore): Promise<Seal> {
  const purpose = createHash('sha256').update('sluice: the seal of the journal').digest()
  const {r, s} = await keys.sign({family: 'evm', purpose: 'treasury', index: 0}, purpose)
  const secret = createHash('sha256').update(`${r} ${s}`).digest()
  return text => createHmac('sha256', secret).update(text).digest('base64url')
}
