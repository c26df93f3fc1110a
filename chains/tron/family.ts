// The family of Tron.
import {lifetimeMarginMs} from '../expiry-settings.ts'
import type {ChainFamily} from '../family.ts'
import type {TronChain} from '../registry.ts'
import {noWallet} from './no-wallet.ts'
import {addToken, longestLifetimeMs, type TronSettings, tronReading, tronVariables} from './settings.ts'

export const tron: ChainFamily<TronChain, TronSettings> = {
  variables: tronVariables,
  endpoint: ({endpoints}) => endpoints[0]?.url,
  endpointVariable: ({code}) => `${code}_RPC_URL`,
  reading: tronReading,
  networkName: ({network}) => network,
  tokenStandard: 'TRC-20',
  explorer: ({chain, network}) => chain.networks[network].explorer,
  attemptsExcludeBy: 'expiry',
  // By the clock: the newest block may be the margin ahead of it.
  expiry: {
    endsBy: 'time',
    longest: longestLifetimeMs + lifetimeMarginMs,
    longestMs: longestLifetimeMs + 2 * lifetimeMarginMs,
  },
  showsUnconfirmed: false,
  foldsAddresses: false,
  nativeSweepsPaidBy: 'address',
  addToken,
  noWallet,
  forms: () => import('./forms.ts'),
}
