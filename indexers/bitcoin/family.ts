// How Bitcoin is followed, and read again: the source that the operator chose, the loop that follows it, and the looks at what is unmined.
import {openBitcoind, openElectrum} from '../../chains/bitcoin/client.ts'
import type {BitcoinSettings} from '../../chains/bitcoin/settings.ts'
import {caip2} from '../../chains/registry.ts'
import type {ChainReader, ReaderOptions} from '../family.ts'
import {type ChainSource, follow} from '../follow.ts'
import {countErrors} from '../metrics.ts'
import {AddressFeed} from './addresses.ts'
import {ElectrumSource} from './electrum-source.ts'
import {NodeSource} from './node-source.ts'
import {type UnminedSource, watchUnmined} from './unmined.ts'

export {openHistory} from './history.ts'

export function openReader(settings: BitcoinSettings, options: ReaderOptions): ChainReader {
  const {chain} = settings
  const {db, cursor, database, write, log} = options
  const format = chain.networks[settings.network]
  const network = caip2('bip122', format.genesis)
  const source = countErrors(sourceOf(settings, options), chain.code)
  const named = settings.source === 'node' ? 'RPC_URL' : 'ELECTRUM_URLS'
  const pollMs = chain.pollIntervalMs
  return {
    source,
    network,
    networkSettings: `${chain.code}_${named} and ${chain.code}_NETWORK`,
    async read() {
      void watchUnmined(source, {db, cursor, format, log, intervalMs: pollMs})
      await follow({database, cursor, source, network, write, log, pollMs}, new AbortController().signal)
      throw new Error('following has no end')
    },
  }
}

function sourceOf(settings: BitcoinSettings, {url, db, cursor, log}: ReaderOptions): ChainSource & UnminedSource {
  const {chain, network, confirmations} = settings
  const format = chain.networks[network]
  if (settings.source === 'node') return new NodeSource({node: openBitcoind(settings), db, format, confirmations})
  const electrum = openElectrum(settings, log)
  const addresses = new AddressFeed(db, url, chain.code)
  return new ElectrumSource({electrum, cursor, db, addresses, format, confirmations, log})
}
