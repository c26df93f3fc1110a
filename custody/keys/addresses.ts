// The addresses of the keys. Promises: no I/O except the key store's; each path has one address, in its display form.

import type {ChainSettings} from '../../chains/families.ts'
import type {ChainCode} from '../../chains/registry.ts'
import {familyOf} from '../families.ts'
import type {KeyPath, KeyStore} from './key-store.ts'

export type Derive = (path: KeyPath) => Promise<string>

/** Turns the keys of a store into addresses, for the networks in the settings. */
export function deriver(keys: KeyStore, settings: Map<ChainCode, ChainSettings>): Derive {
  return async path => {
    const ofFamily = [...settings.values()].find(({family}) => family === path.family)!
    return familyOf(path).address(await keys.publicKey(path), ofFamily)
  }
}
