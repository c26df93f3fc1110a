// How Bitcoin is followed and read again: the source that the operator chose, the loop that follows it, and the polls
// for unconfirmed transactions.
import {openBitcoind, openElectrum} from '../../chains/bitcoin/client.ts'
import type {BitcoinSettings} from '../../chains/bitcoin/settings.ts'
import {caip2} from '../../chains/registry.ts'
import type {ChainReader, ReaderOptions} from '../family.ts'
import {type ChainSource, follow} from '../follow.ts'
import {countErrors} from '../metrics.ts'
import {AddressFeed} from './addresses.ts'
import {ElectrumSource} from './electrum-source.ts'
import {NodeSource} from './node-source.ts'
import {type UnconfirmedSource, watchUnconfirmed} from './unconfirmed.ts'

export {openHistory} from './history.ts'

export function openReader(settings: BitcoinSettings, options: ReaderOptions): ChainReader {
  const {chain} = settings
  const {db, cursor, database, write, log} = options
  const network = caip2('bip122', chain.networks[settings.network].genesis)
  const source = countErrors(sourceOf(settings, options), chain.code)
  const named = settings.source === 'node' ? 'RPC_URL' : 'ELECTRUM_URLS'
  const pollMs = chain.pollIntervalMs
  return {
    source,
    network,
    networkSettings: `${chain.code}_${named} and ${chain.code}_NETWORK`,
    async read() {
      void watchUnconfirmed(source, {db, cursor, network: settings, log, intervalMs: pollMs})
      await follow({database, cursor, source, network, write, log, pollMs}, new AbortController().signal)
      throw new Error('following has no end')
    },
  }
}

function sourceOf(settings: BitcoinSettings, {url, db, cursor, log}: ReaderOptions): ChainSource & UnconfirmedSource {
  if (settings.source === 'node') return new NodeSource({node: openBitcoind(settings), db, settings})
  const electrum = openElectrum(settings, log)
  const addresses = new AddressFeed(db, url, settings.chain.code)
  return new ElectrumSource({electrum, cursor, db, addresses, settings, log})
}
