import {caip2} from '../../chains/registry.ts'
import {TronNodes} from '../../chains/tron/client.ts'
import type {TronSettings} from '../../chains/tron/settings.ts'
import type {ChainCursor} from '../cursor.ts'
import type {ChainReader, HistoryOptions, HistorySource, ReaderOptions} from '../family.ts'
import {follow} from '../follow.ts'
import {historyOf} from '../history.ts'
import {countErrors} from '../metrics.ts'
import {watchInternals} from './internal-transactions.ts'
import {TronSource} from './source.ts'

export function openReader(settings: TronSettings, {cursor, database, write, log}: ReaderOptions): ChainReader {
  const {chain} = settings
  const {code, pollIntervalMs: pollMs} = chain
  const nodes = new TronNodes(settings)
  const source = countErrors(sourceOf(nodes, settings, cursor), code)
  const network = caip2('tron', chain.networks[settings.network].reference)
  return {
    source,
    network,
    networkSettings: `${code}_RPC_URL, ${code}_RPC_URL_2 and ${code}_NETWORK`,
    async read() {
      void watchInternals({nodes, settings, cursor, log})
      await follow({database, cursor, source, network, write, log, pollMs}, new AbortController().signal)
      throw new Error('following has no end')
    },
  }
}

function sourceOf(nodes: TronNodes, settings: TronSettings, cursor: ChainCursor): TronSource {
  return new TronSource(nodes, settings, block => cursor.noteUnprovenBlock(block))
}

export async function openHistory(settings: TronSettings, {cursor}: HistoryOptions): Promise<HistorySource> {
  return historyOf(sourceOf(new TronNodes(settings), settings, cursor))
}
