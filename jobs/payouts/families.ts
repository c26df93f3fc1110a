// The payout code of each family of chains, loaded when needed.
import type {ChainSettings, SettingsOf} from '../../chains/families.ts'
import type {Family} from '../../chains/registry.ts'
import type {PayoutFamily} from './family.ts'

const families: {[F in Family]: () => Promise<PayoutFamily<SettingsOf<F>>>} = {
  evm: () => import('./evm/family.ts'),
  bitcoin: () => import('./bitcoin/family.ts'),
  tron: () => import('./tron/family.ts'),
  solana: () => import('./solana/family.ts'),
}

export async function payoutFamilyOf({family}: {family: Family}): Promise<PayoutFamily<ChainSettings>> {
  return await families[family]()
}
