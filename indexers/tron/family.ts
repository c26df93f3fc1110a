import {caip2} from '../../chains/registry.ts'
import {TronNodes} from '../../chains/tron/client.ts'
import type {TronSettings} from '../../chains/tron/settings.ts'
import type {ChainCursor} from '../cursor.ts'
import type {ChainReader, HistoryOptions, HistorySource, ReaderOptions} from '../family.ts'
import {follow} from '../follow.ts'
import {historyOf} from '../history.ts'
import {countErrors} from '../metrics.ts'
import {TronSource} from './source.ts'

export function openReader(settings: TronSettings, {cursor, database, write, log}: ReaderOptions): ChainReader {
  const {chain} = settings
  const {code, pollIntervalMs: pollMs} = chain
  const source = countErrors(sourceOf(settings, cursor), code)
  const network = caip2('tron', chain.networks[settings.network].reference)
  return {
    source,
    network,
    networkSettings: `${code}_RPC_URL, ${code}_RPC_URL_2 and ${code}_NETWORK`,
    async read() {
      await follow({database, cursor, source, network, write, log, pollMs}, new AbortController().signal)
      throw new Error('following has no end')
    },
  }
}

function sourceOf(settings: TronSettings, cursor: ChainCursor): TronSource {
  return new TronSource(new TronNodes(settings), settings, block => cursor.noteUnprovenBlock(block))
}

export async function openHistory(settings: TronSettings, {cursor}: HistoryOptions): Promise<HistorySource> {
  return historyOf(sourceOf(settings, cursor))
}
