// The family of Bitcoin.
import type {ChainFamily} from '../family.ts'
import type {BitcoinChain} from '../registry.ts'
import {coinbaseSender} from './block.ts'
import {type BitcoinSettings, bitcoinReading, bitcoinVariables} from './settings.ts'

export const bitcoin: ChainFamily<BitcoinChain, BitcoinSettings> = {
  variables: bitcoinVariables,
  endpoint: ({source, electrumUrls, rpcUrl}) => (source === 'electrum' ? electrumUrls[0] : rpcUrl),
  endpointVariable: ({code}) => `${code}_ELECTRUM_URLS (with BTC_SOURCE=node: ${code}_RPC_URL)`,
  lacking: ({chain: {code}, source, rpcUrl}) =>
    source === 'node' && !rpcUrl
      ? `${code}_SOURCE (it is "node"): needs ${code}_RPC_URL, such as ${code}_RPC_URL=http://user:password@node.example:8332`
      : undefined,
  reading: bitcoinReading,
  networkName: ({network}) => network,
  explorer: ({chain, network}) => chain.networks[network].explorer,
  confirmations: ({confirmations}) => confirmations,
  attemptsExcludeBy: 'output',
  showsUnconfirmed: true,
  coinbase: {sender: coinbaseSender, maturity: 100},
  foldsAddresses: true, // our addresses are segwit addresses (BIP-173)
  nativeSweepsPaidBy: 'address',
  forms: () => import('./forms.ts'),
}
