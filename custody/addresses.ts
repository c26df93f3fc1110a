// The addresses of the keys. Promises: no I/O but the key store's; a path has one address, in the form in which people see it.

import type {ChainSettings} from '../chains/families.ts'
import type {ChainCode} from '../chains/registry.ts'
import {familyOf} from './families.ts'
import type {KeyPath, KeyStore} from './keys.ts'

export type Derive = (path: KeyPath) => Promise<string>

/** How the keys of a store become addresses, on the networks that the settings name. */
export function deriver(keys: KeyStore, settings: Map<ChainCode, ChainSettings>): Derive {
  return async path => {
    const ofFamily = [...settings.values()].find(({family}) => family === path.family)!
    return familyOf(path).address(await keys.publicKey(path), ofFamily)
  }
}
