// How EVM chains are followed and read again: evm-processor streams the blocks; everything else is requested from a
// node.
import type {EvmSettings} from '../../chains/evm/settings.ts'
import {caip2} from '../../chains/registry.ts'
import type {ChainCursor} from '../cursor.ts'
import type {ChainReader, ReaderOptions} from '../family.ts'
import {countErrors} from '../metrics.ts'
import {Waiting} from '../waits.ts'
import {Node} from './node.ts'
import {runProcessor} from './processor.ts'
import {viewOf} from './view.ts'

export {openHistory} from './history.ts'

export function openReader(settings: EvmSettings, {cursor, database, write, log}: ReaderOptions): ChainReader {
  const {chain, chainId, rpcUrl, traces} = settings
  const view = viewOf(new Node(rpcUrl!, chain.code), settings)
  const refusal = async () => {
    await assertTracer(settings, cursor)
    return await view.refusal?.()
  }
  return {
    source: countErrors({...view, refusal}, chain.code),
    network: caip2('eip155', chainId),
    networkSettings: `${chain.code}_RPC_URL and ${chain.code}_CHAIN_ID`,
    async read() {
      if (traces !== 'off') await cursor.pinTracer(traces)
      else await cursor.noteUntraced()
      runProcessor(settings, {cursor, database, write, log})
      return new Promise(() => {}) // evm-processor ends the process itself
    },
  }
}

/**
 * Throws Waiting if the chain was read with another tracer before. Without any, it is read on: an incident says from
 * where (chain.note_untraced).
 */
async function assertTracer({chain: {code}, traces}: EvmSettings, cursor: ChainCursor): Promise<void> {
  const tracer = await cursor.tracer()
  if (!tracer || traces === 'off' || tracer === traces) return
  const why = 'tracers number calls in ways of their own, and the same payment would be credited twice'
  throw new Waiting(
    'tracer_changed',
    `${code} was read with ${code}_TRACES=${tracer}, and it is ${traces} now: ${why}; set it to ${tracer}`,
  )
}
