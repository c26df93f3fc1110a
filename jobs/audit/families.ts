// The audit code of each family of chains.
import type {ChainSettings, SettingsOf} from '../../chains/families.ts'
import type {Family} from '../../chains/registry.ts'
import {bitcoin} from './bitcoin/outputs.ts'
import {evm} from './evm/balances.ts'
import type {AuditFamily} from './observation.ts'

const families: {[F in Family]: AuditFamily<SettingsOf<F>>} = {evm, bitcoin}

export function auditFamilyOf({family}: {family: Family}): AuditFamily<ChainSettings> {
  return families[family]
}
