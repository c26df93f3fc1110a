// The reader of Bitcoin: the source that the operator chose, the loop that follows it, and the looks at what is unmined.

import {openBitcoind, openElectrum} from '../../chains/bitcoin/client.ts'
import type {BitcoinSettings} from '../../chains/bitcoin/settings.ts'
import type {ChainReader, ReaderOptions} from '../family.ts'
import {type ChainSource, follow} from '../follow.ts'
import {writeBlocks} from '../match.ts'
import {countErrors} from '../metrics.ts'
import {ChainDatabase} from '../store.ts'
import {AddressFeed} from './addresses.ts'
import {ElectrumSource} from './electrum-source.ts'
import {caip2} from './network.ts'
import {NodeSource} from './node-source.ts'
import {type UnminedSource, watchUnmined} from './unmined.ts'

export function bitcoinReader(settings: BitcoinSettings, {url, db, cursor, log}: ReaderOptions): ChainReader {
  const {chain, confirmations} = settings
  const format = chain.networks[settings.network]
  const source = countErrors(sourceOf(), chain.code)
  const network = caip2(format.genesis)

  function sourceOf(): ChainSource & UnminedSource {
    if (settings.source === 'node') {
      return new NodeSource({node: openBitcoind(settings), db, format, confirmations})
    }
    const electrum = openElectrum(settings, log)
    const addresses = new AddressFeed(db, url, chain.code)
    return new ElectrumSource({electrum, cursor, db, addresses, format, confirmations, log})
  }

  return {
    source,
    network,
    networkSettings: settings.source === 'node' ? 'BTC_RPC_URL and BTC_NETWORK' : 'BTC_ELECTRUM_URLS and BTC_NETWORK',
    async read() {
      const pollMs = chain.pollIntervalMs
      void watchUnmined(source, {db, cursor, format, log, intervalMs: pollMs})
      const options = {database: new ChainDatabase(url, chain.code), cursor, source, network, log, pollMs}
      const write = {chain: chain.code, display: (address: string) => address}
      await follow(
        {...options, write: (store, blocks) => writeBlocks(store, blocks, write)},
        new AbortController().signal,
      )
      throw new Error('following has no end')
    },
  }
}
