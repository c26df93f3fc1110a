// The audit code of each family of chains, loaded when needed.
import type {ChainSettings, SettingsOf} from '../../chains/families.ts'
import type {Family} from '../../chains/registry.ts'
import type {AuditFamily} from './observation.ts'

const families: {[F in Family]: () => Promise<AuditFamily<SettingsOf<F>>>} = {
  evm: async () => (await import('./evm/balances.ts')).evm,
  bitcoin: async () => (await import('./bitcoin/outputs.ts')).bitcoin,
  tron: async () => (await import('./tron/balances.ts')).tron,
  solana: async () => (await import('./solana/balances.ts')).solana,
}

export async function auditFamilyOf({family}: {family: Family}): Promise<AuditFamily<ChainSettings>> {
  return await families[family]()
}
