// The family of Bitcoin in devnet/.
import type {DevnetFamily} from '../family.ts'
import {type BitcoinClient, connect} from './client.ts'
import type {NodeKind} from './node.ts'

const nodes: readonly NodeKind[] = ['bcoin', 'bitcoind']

export const bitcoin: DevnetFamily<BitcoinClient> = {
  nodes,
  blockIntervalMs: 2000,
  connect,
  open: async (chain, file, named) =>
    (await import('./serve.ts')).open(
      chain,
      file,
      nodes.find(node => node === named),
    ),
}
