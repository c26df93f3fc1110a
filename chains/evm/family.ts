// The EVM family: Ethereum, and other chains that run the Ethereum virtual machine.
import type {ChainFamily} from '../family.ts'
import type {EvmChain} from '../registry.ts'
import {noWallet} from './no-wallet.ts'
import {addToken, type EvmSettings, evmReading, evmVariables} from './settings.ts'

export const evm: ChainFamily<EvmChain, EvmSettings> = {
  variables: evmVariables,
  endpoint: ({rpcUrl}) => rpcUrl,
  endpointVariable: ({code}) => `${code}_RPC_URL`,
  reading: evmReading,
  networkName: ({chainId}) => `chain ${chainId}`,
  tokenStandard: 'ERC-20',
  explorer: ({chain, chainId}) => (chainId === chain.chainId ? chain.explorer : undefined),
  attemptsExcludeBy: 'nonce',
  showsUnconfirmed: false,
  foldsAddresses: true,
  nativeSweepsPaidBy: 'address',
  addToken,
  noWallet,
  forms: () => import('./forms.ts'),
}
