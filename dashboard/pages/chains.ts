// What the pages say of a chain.
import {familyOf} from '../../chains/families.ts'
import {findChain} from '../../chains/registry.ts'
import type {Context} from './app.ts'

export interface ShownChain {
  code: string
  /** Ethereum (chain 11155111): several networks have addresses of the same form. */
  name: string
  /** How many confirmations make a payment final, where a number decides that. */
  needed?: number
  /** The tokens that are credited, such as ETH and USDC. */
  tokens: string[]
  /** Where people see a transaction; undefined for a local network. */
  transactionUrl(txid: string): string | undefined
}

export type Chains = (code: string) => ShownChain

export const chainsOf =
  ({chains}: Context): Chains =>
  code => {
    const settings = chains.get(findChain(code)!.code)!
    const family = familyOf(settings)
    return {
      code,
      name: `${settings.chain.displayName} (${family.networkName(settings)})`,
      needed: family.confirmations?.(settings),
      tokens: settings.chain.assets.map(({token}) => token),
      transactionUrl: txid => family.explorer?.(settings)?.replace('{txid}', txid),
    }
  }
