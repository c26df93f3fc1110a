// The network of every local Bitcoin chain.
import {type BitcoinNetworkData, chain} from '../../chains/registry.ts'

export function regtest(code: string): BitcoinNetworkData {
  const found = chain(code)
  if (found.family !== 'bitcoin') throw new Error(`${code} is not a Bitcoin chain`)
  return found.networks.regtest
}
