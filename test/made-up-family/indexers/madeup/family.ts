// How chains of the made-up family are followed, and read again.
import type {MadeUpSettings} from '../../chains/madeup/settings.ts'
import type {ReadBlock} from '../block.ts'
import {type ChainReader, type HistorySource, inSteps, type ReaderOptions} from '../family.ts'
import {follow} from '../follow.ts'
import {countErrors} from '../metrics.ts'
import {MadeUpSource, network} from './source.ts'

export function openReader(settings: MadeUpSettings, options: ReaderOptions): ChainReader {
  const {code, pollIntervalMs: pollMs} = settings.chain
  const {cursor, database, write, log} = options
  const source = countErrors(new MadeUpSource(settings), code)
  return {
    source,
    network,
    networkSettings: `${code}_RPC_URL`,
    async read() {
      await follow({database, cursor, source, network, write, log, pollMs}, new AbortController().signal)
      throw new Error('following has no end')
    },
  }
}

export async function openHistory(settings: MadeUpSettings): Promise<HistorySource> {
  const source = new MadeUpSource(settings)
  async function* blocks(from: number, to: number): AsyncIterable<ReadBlock[]> {
    for (const heights of inSteps(from, to, 100)) yield await Promise.all(heights.map(height => source.block(height)))
  }
  return {
    network: () => source.network(),
    hashAt: height => source.hashAt(height),
    lacks: height => source.lacks(height),
    links: blocks,
    blocks,
    again: height => source.block(height),
    async close() {},
  }
}
