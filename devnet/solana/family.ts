// The family of Solana in devnet/.
import type {DevnetFamily} from '../family.ts'
import {connect, type SolanaClient} from './client.ts'

export const solana: DevnetFamily<SolanaClient> = {
  nodes: ['litesvm'],
  blockIntervalMs: 400,
  connect,
  open: async (chain, file) => (await import('./serve.ts')).open(chain, file),
}
