import {caip2} from '../../chains/registry.ts'
import {refusedToken} from '../../chains/solana/check-tokens.ts'
import {SlotFeed, type SolanaNode, SolanaNodes} from '../../chains/solana/client.ts'
import type {SolanaSettings} from '../../chains/solana/settings.ts'
import type {ChainReader, HistorySource, ReaderOptions} from '../family.ts'
import {follow} from '../follow.ts'
import {historyOf} from '../history.ts'
import {countErrors} from '../metrics.ts'
import {SolanaSource} from './source.ts'

export function openReader(settings: SolanaSettings, {cursor, database, write, log}: ReaderOptions): ChainReader {
  const {chain, wsUrl, tokens} = settings
  const {code, pollIntervalMs: pollMs, assets} = chain
  const feed = wsUrl === undefined ? undefined : new SlotFeed(wsUrl)
  const codes = {native: assets[0].token, tokens}
  const refused = (node: SolanaNode) => refusedToken(settings, node)
  const options = {commitment: 'confirmed', codes, refusedToken: refused, ...(feed && {feed})} as const
  const source = countErrors(new SolanaSource(new SolanaNodes(settings), options), code)
  const network = caip2('solana', chain.networks[settings.network].genesis)
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

export async function openHistory({chain, tokens, endpoints, archive}: SolanaSettings): Promise<HistorySource> {
  const nodes = new SolanaNodes({endpoints: archive ? [archive] : endpoints})
  const source = new SolanaSource(nodes, {commitment: 'finalized', codes: {native: chain.assets[0].token, tokens}})
  return {
    ...historyOf(source),
    async lacks(height) {
      const why = await source.lacks(height)
      return why && !archive ? `${why}; ${chain.code}_ARCHIVE_RPC_URL may name a node with all blocks` : why
    },
  }
}
