// The family of Tron in devnet/.
import type {DevnetFamily} from '../family.ts'
import {connect, type TronClient} from './client.ts'

export const tron: DevnetFamily<TronClient> = {
  nodes: ['tron'],
  blockIntervalMs: 1000,
  connect,
  open: async (chain, file) => (await import('./serve.ts')).open(chain, file),
}
