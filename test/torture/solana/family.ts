// Solana under torture: transactions expire when blocks come fast, nodes lose answers, and most accounts are new and
// take no less than the rent.
import type {TortureFamily} from '../family.ts'
import {NodeProxy} from '../node-proxy.ts'
import {SolanaPayer} from './payer.ts'
import {known} from './truth.ts'

const settings = {
  SOL_MAX_LAPSES: '20', // a run loses more of them than a network
  SOL_COLLECT_ABOVE: 'SOL:30,USDC:300',
  SOL_DAILY_ACCOUNT_RENT: '1000', // a run pays as many new recipients as a network does in months
  SOL_MIN_PAYOUT: 'SOL:0,USDC:0,USDT:0', // a payout below the rent fails if its recipient has no account
}

export const solana: TortureFamily = {
  prepare(chain, service, random) {
    service.use(settings)
    const sending = 'sendTransaction'
    return [
      new NodeProxy({chain, sending}, service, random),
      // With one node, a payment that expired would wait for minutes.
      new NodeProxy({chain, sending, asker: {processes: 'indexers', setting: 'RPC_URL_2'}}, service, random),
    ]
  },
  assets: async chain => [
    {chain, token: 'SOL', name: 'SOL', decimals: 9, usual: 100_000_000n},
    ...known.map(token => ({chain, token, name: `${chain}-${token}`, decimals: 6, usual: 100_000_000n})),
  ],
  payer: (chain, cast) => new SolanaPayer(chain, cast),
}
