// Every family of chains under torture. A family of the registry that is missing here does not compile.
import {type ChainCode, chain, type Family} from '../../chains/registry.ts'
import {bitcoin} from './bitcoin/family.ts'
import {evm} from './evm/family.ts'
import type {TortureFamily} from './family.ts'
import {solana} from './solana/family.ts'
import {tron} from './tron/family.ts'

const families: {[F in Family]: TortureFamily} = {evm, bitcoin, tron, solana}

export function familyOf(code: ChainCode): TortureFamily {
  return families[chain(code).family]
}
