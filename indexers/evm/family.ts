// The reader of EVM chains: evm-processor streams the blocks, and a node is asked for the rest.
import type {EvmSettings} from '../../chains/evm/settings.ts'
import type {ChainReader, ReaderOptions} from '../family.ts'
import {countErrors} from '../metrics.ts'
import {ChainDatabase} from '../store.ts'
import {Node} from './node.ts'
import {runProcessor} from './processor.ts'
import {caip2, viewOf} from './view.ts'

export function evmReader(settings: EvmSettings, {url, cursor, log}: ReaderOptions): ChainReader {
  const {chain, chainId, rpcUrl, traces} = settings
  return {
    source: countErrors(viewOf(new Node(rpcUrl!), settings), chain.code),
    network: caip2(chainId),
    networkSettings: `${chain.code}_RPC_URL and ${chain.code}_CHAIN_ID`,
    async read() {
      if (traces !== 'off') await cursor.pinTracer(traces)
      runProcessor(settings, rpcUrl!, new ChainDatabase(url, chain.code), log)
      return new Promise(() => {}) // it ends the process by itself
    },
  }
}
