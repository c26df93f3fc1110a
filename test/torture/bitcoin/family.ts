// The Bitcoin family under torture: some runs read it from Electrum servers, some from a node.
import {findBitcoind} from '../../../devnet/bitcoin/node.ts'
import type {Asset} from '../asset.ts'
import type {TortureFamily} from '../family.ts'
import {NodeProxy} from '../node-proxy.ts'
import {IndexersElectrum, WorkersElectrum} from './electrum-proxy.ts'
import {BitcoinPayer, confirmations} from './payer.ts'

const settings = {
  BTC_COLLECT_ABOVE: 'BTC:3',
  BTC_MIN_PAYOUT: 'BTC:0', // the smallest amount that the chain carries
  BTC_FINALITY: String(confirmations),
}

const asset: Asset = {chain: 'BTC', token: 'BTC', name: 'BTC', decimals: 8, usual: 10_000_000n}

export const bitcoin: TortureFamily = {
  prepare(chain, service, random) {
    const source = random.fork('source').weighted({electrum: 3, node: findBitcoind() ? 1 : 0})
    console.log(`Bitcoin is read from ${source === 'node' ? 'a node' : 'Electrum servers'}`)
    const {BITCOIND_BIN} = process.env
    service.use({...settings, BTC_SOURCE: source, ...(BITCOIND_BIN && {BITCOIND_BIN})})
    return [
      new NodeProxy({chain, sending: 'sendrawtransaction'}, service, random),
      new WorkersElectrum(service, random),
      ...['first', 'second'].map(name => new IndexersElectrum(name, service, random)),
    ]
  },
  assets: async () => [asset],
  payer: (_chain, cast) => new BitcoinPayer(cast),
}
