// The seal of a journal entry: a mark that nobody can make without the seed. The file needs no seals: writing to it
// takes access to custody's machine. But if custody dies before an entry is in the file, only the database has the
// entry. Its seal proves that custody wrote it.
import {createHash, createHmac} from 'node:crypto'
import type {KeyPath, KeyStore} from './key-store.ts'
import {readSignature} from './secp256k1.ts'

/** The seal of a text. */
export type Seal = (text: string) => string

/** Any key would do, but it must never change: with another key, no earlier seal would be valid. */
const sealing: KeyPath = {family: 'evm', purpose: 'treasury', index: 0}

/** Makes the seal from the seed's keys. It is the same at each start, because signatures are deterministic. */
export async function sealOf(keys: KeyStore): Promise<Seal> {
  const purpose = createHash('sha256').update('sluice: the seal of the journal').digest()
  const {r, s} = readSignature(await keys.sign(sealing, purpose))
  const secret = createHash('sha256').update(`${r} ${s}`).digest()
  return text => createHmac('sha256', secret).update(text).digest('base64url')
}
