// Every family of chains that can be followed. Promises: a family's code is loaded only when one of its chains is
// needed (loading takes most of the start time). Without an entry here for each family of the registry, the code does
// not compile.
import type {SettingsOf} from '../chains/families.ts'
import type {Family} from '../chains/registry.ts'
import type {IndexerFamily} from './family.ts'

const families: {[F in Family]: () => Promise<IndexerFamily<SettingsOf<F>>>} = {
  evm: () => import('./evm/family.ts'),
  bitcoin: () => import('./bitcoin/family.ts'),
  tron: () => import('./tron/family.ts'),
  solana: () => import('./solana/family.ts'),
}

/** Use it only for chains of this family. */
export async function indexerFamilyOf({family}: {family: Family}): Promise<IndexerFamily> {
  return await families[family]()
}
