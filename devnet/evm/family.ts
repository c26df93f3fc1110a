// The EVM family in devnet/.
import type {DevnetFamily} from '../family.ts'
import {connect, type EvmClient} from './client.ts'

export const evm: DevnetFamily<EvmClient> = {
  nodes: ['anvil'],
  blockIntervalMs: 1000,
  connect,
  open: async (chain, file) => (await import('./serve.ts')).open(chain, file),
}
