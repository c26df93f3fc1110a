// Every family of chains, as custody has them. A family of the registry that is missing here does not compile.
import type {SettingsOf} from '../chains/families.ts'
import {chains, type Family} from '../chains/registry.ts'
import {bitcoin} from './bitcoin/family.ts'
import {evm} from './evm/family.ts'
import type {CustodyFamily} from './family.ts'

export const families: {[F in Family]: CustodyFamily<SettingsOf<F>>} = {evm, bitcoin}

/** Those that have a chain. */
export const familyNames: Family[] = [...new Set(chains.map(({family}) => family))]

/** To be given intents, plans and settings of this family alone. */
export function familyOf({family}: {family: Family}): CustodyFamily {
  return families[family]
}
