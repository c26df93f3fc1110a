// How EVM chains are followed and read again: evm-processor streams the blocks; everything else is requested from a node.
import type {EvmSettings} from '../../chains/evm/settings.ts'
import {caip2} from '../../chains/registry.ts'
import type {ChainReader, ReaderOptions} from '../family.ts'
import {countErrors} from '../metrics.ts'
import {Node} from './node.ts'
import {runProcessor} from './processor.ts'
import {viewOf} from './view.ts'

export {openHistory} from './history.ts'

export function openReader(settings: EvmSettings, {cursor, database, write, log}: ReaderOptions): ChainReader {
  const {chain, chainId, rpcUrl, traces} = settings
  return {
    source: countErrors(viewOf(new Node(rpcUrl!), settings), chain.code),
    network: caip2('eip155', chainId),
    networkSettings: `${chain.code}_RPC_URL and ${chain.code}_CHAIN_ID`,
    async read() {
      if (traces !== 'off') await cursor.pinTracer(traces)
      runProcessor(settings, {database, write, log})
      return new Promise(() => {}) // evm-processor ends the process itself
    },
  }
}
