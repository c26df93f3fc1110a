// Tron under torture: transactions expire within seconds, and nodes say of transactions that they took that they
// refused them.
import type {TortureFamily} from '../family.ts'
import {NodeProxy} from '../node-proxy.ts'
import {TronPayer} from './payer.ts'

const settings = {
  TRON_LIFETIME_MS: '8000',
  TRON_MAX_LAPSES: '20', // a run loses more of them than a network
  TRON_COLLECT_ABOVE: 'TRX:300,USDT:300',
  TRON_MIN_PAYOUT: 'TRX:0,USDT:0', // the smallest amount that the chain carries
  TRON_FEE_BUDGET: '100000', // a run sweeps more often than a shop in a day
}

export const tron: TortureFamily = {
  prepare(chain, service, random) {
    service.use(settings)
    return [new NodeProxy({chain, sending: 'wallet/broadcasthex'}, service, random)]
  },
  assets: async chain => [
    {chain, token: 'TRX', name: 'TRX', decimals: 6, usual: 100_000_000n},
    {chain, token: 'USDT', name: `${chain}-USDT`, decimals: 6, usual: 100_000_000n},
  ],
  payer: (chain, cast) => new TronPayer(chain, cast),
}
