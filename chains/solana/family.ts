// The family of Solana.
import {lifetimeMarginMs} from '../expiry-settings.ts'
import type {ChainFamily} from '../family.ts'
import type {SolanaChain} from '../registry.ts'
import {noWallet} from './address.ts'
import {blockMs, lifetimeBlocks} from './message.ts'
import {addToken, type SolanaSettings, solanaReading, solanaVariables} from './settings.ts'

export const solana: ChainFamily<SolanaChain, SolanaSettings> = {
  variables: solanaVariables,
  endpoint: ({endpoints}) => endpoints[0]?.url,
  endpointVariable: ({code}) => `${code}_RPC_URL`,
  reading: solanaReading,
  networkName: ({network}) => network,
  tokenStandard: 'SPL',
  explorer: ({chain, network}) => chain.networks[network].explorer,
  attemptsExcludeBy: 'expiry',
  expiry: {endsBy: 'height', longest: lifetimeBlocks, longestMs: lifetimeBlocks * blockMs + lifetimeMarginMs},
  isBusy: ({network}) => network !== 'local',
  showsUnconfirmed: false,
  foldsAddresses: false,
  nativeSweepsPaidBy: 'treasury',
  addToken,
  noWallet,
  forms: () => import('./forms.ts'),
}
