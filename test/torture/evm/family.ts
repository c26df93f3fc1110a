// The EVM family under torture.
import type {TortureFamily} from '../family.ts'
import {NodeProxy} from '../node-proxy.ts'
import {EvmPayer} from './payer.ts'
import {coinOf, localClient, tokensOf} from './tokens.ts'

/** Tokens in settings have their own minimums for sweeps and payouts. */
const settings: Record<string, Record<string, string>> = {
  ETH: {
    ETH_SWEEP_MIN: 'USDC:0.01',
    ETH_COLLECT_ABOVE: 'ETH:15,USDC:0.9',
    ETH_MIN_PAYOUT: 'ETH:0,USDC:0', // the smallest amount that the chain carries
  },
  POLYGON: {POLYGON_MIN_PAYOUT: 'POL:0'},
}

export const evm: TortureFamily = {
  prepare(chain, service, random) {
    service.use(settings[chain] ?? {})
    return [new NodeProxy({chain, sending: 'eth_sendRawTransaction'}, service, random)]
  },
  async assets(chain, service) {
    const tokens = await tokensOf(await localClient(chain, service), service)
    return [coinOf(chain), ...tokens.filter(({isKnown}) => isKnown)]
  },
  payer: (chain, cast) => new EvmPayer(chain, cast),
}
