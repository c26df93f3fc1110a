// Every family of chains whose chains can be followed. Promises: nothing of a family is loaded before one of its chains is asked for (that is most of
// what a start takes); a family of the registry that is missing here does not compile.
import type {SettingsOf} from '../chains/families.ts'
import type {Family} from '../chains/registry.ts'
import type {IndexerFamily} from './family.ts'

const families: {[F in Family]: () => Promise<IndexerFamily<SettingsOf<F>>>} = {
  evm: () => import('./evm/family.ts'),
  bitcoin: () => import('./bitcoin/family.ts'),
}

/** To be asked about chains of this family alone. */
export async function indexerFamilyOf({family}: {family: Family}): Promise<IndexerFamily> {
  return await families[family]()
}
