// The made-up family.
import type {ChainFamily} from '../family.ts'
import type {MadeUpChain} from '../registry.ts'
import {lifetimeBlocks, lifetimeMs} from './block.ts'
import {type MadeUpSettings, madeUpVariables} from './settings.ts'

export const madeup: ChainFamily<MadeUpChain, MadeUpSettings> = {
  variables: madeUpVariables,
  endpoint: ({rpcUrl}) => rpcUrl,
  endpointVariable: ({code}) => `${code}_RPC_URL`,
  reading: ({chain: {code}, rpcUrl = '', confirmations}) => ({
    [`${code}_RPC_URL`]: rpcUrl,
    [`${code}_FINALITY`]: `${confirmations}`,
  }),
  networkName: () => 'the only one',
  attemptsExcludeBy: 'expiry',
  expiry: {endsBy: 'height', longest: lifetimeBlocks, longestMs: lifetimeMs},
  showsUnconfirmed: false,
  foldsAddresses: false,
  nativeSweepsPaidBy: 'address',
  forms: () => import('./forms.ts'),
}
