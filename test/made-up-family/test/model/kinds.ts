// The kinds of chains of the model, one for each way in which attempts end. Each gives the rules of its chain, reads
// signed bytes, and has the part of the worker that belongs to its family, with a network that is the model's chain.
import {height, time} from './kinds/expiry.ts'
import type {Kind} from './kinds/kind.ts'
import {funded, nonce} from './kinds/nonce.ts'
import {output} from './kinds/output.ts'
import {solana} from './kinds/solana.ts'
import {lent, tron} from './kinds/tron.ts'

export type {Kind, Wanted} from './kinds/kind.ts'

export const kinds = {height, time, nonce, funded, output, tron, lent, solana} satisfies Record<string, Kind>
export type KindName = keyof typeof kinds
export const kindNames: string[] = Object.keys(kinds)
