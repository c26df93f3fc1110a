// The custody code of each family of chains. Without an entry here for each family of the registry, the code does not
// compile.
import type {SettingsOf} from '../chains/families.ts'
import {chains, type Family} from '../chains/registry.ts'
import {bitcoin} from './bitcoin/family.ts'
import {evm} from './evm/family.ts'
import type {CustodyFamily} from './family.ts'
import {solana} from './solana/family.ts'
import {tron} from './tron/family.ts'

export const families: {[F in Family]: CustodyFamily<SettingsOf<F>>} = {evm, bitcoin, tron, solana}

/** The families that have a chain. */
export const familyNames: Family[] = [...new Set(chains.map(({family}) => family))]

/** Pass it only intents, plans and settings of this family. */
export function familyOf({family}: {family: Family}): CustodyFamily {
  return families[family]
}
