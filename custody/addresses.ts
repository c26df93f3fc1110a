// The addresses of the keys. Promises: no I/O but the key store's; a path has one address, in the form in which people see it.

import {keyAddress} from '../chains/bitcoin/script.ts'
import {bitcoinSettings} from '../chains/bitcoin/settings.ts'
import type {ChainSettings} from '../chains/families.ts'
import {type ChainCode, chains} from '../chains/registry.ts'
import {addressOf} from './evm/sign.ts'
import type {Family, KeyPath, KeyStore} from './keys.ts'

/** Those that have a chain. */
export const families: Family[] = [...new Set(chains.map(({family}) => family))]

export type Derive = (path: KeyPath) => Promise<string>

/** How the keys of a store become addresses, on the networks that the settings name. */
export function deriver(keys: KeyStore, settings: Map<ChainCode, ChainSettings>): Derive {
  const {chain, network} = bitcoinSettings(settings.get('BTC'))
  const format = chain.networks[network]
  return async path => {
    const publicKey = await keys.publicKey(path)
    return path.family === 'evm' ? addressOf(publicKey) : keyAddress(publicKey, format)
  }
}
