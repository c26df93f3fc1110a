// Every family of chains. A family of the registry that is missing here does not compile.
import {bitcoin} from './bitcoin/family.ts'
import {evm} from './evm/family.ts'
import type {ChainFamily, Forms} from './family.ts'
import type {Chain, Family} from './registry.ts'
import {solana} from './solana/family.ts'
import {tron} from './tron/family.ts'

type ChainOf<F extends Family> = Extract<Chain, {family: F}>

const families = {evm, bitcoin, tron, solana} satisfies {[F in Family]: ChainFamily<ChainOf<F>>}

export type SettingsOf<F extends keyof typeof families> =
  (typeof families)[F] extends ChainFamily<infer _, infer Settings> ? Settings : never
export type ChainSettings = SettingsOf<keyof typeof families>

/** Use it only for chains of this family and their settings. */
export function familyOf({family}: {family: Family}): ChainFamily<Chain, ChainSettings> {
  return families[family]
}

export async function formsOf(of: {family: Family}): Promise<Forms<Chain, ChainSettings>> {
  return await familyOf(of).forms()
}

/** Whether the settings name a node or server for the chain; otherwise it runs as a local chain. */
export function hasNode(settings: ChainSettings): boolean {
  return familyOf(settings).endpoint(settings) !== undefined
}
