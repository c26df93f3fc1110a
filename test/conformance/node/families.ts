// The families whose nodes can be checked.
import type {Family} from '../../../chains/registry.ts'
import {evm} from '../evm/node.ts'
import {solana} from '../solana/node.ts'
import {tron} from '../tron/node.ts'
import type {NodeFamily} from './node.ts'

export const families: {[F in Family]?: NodeFamily} = {evm, tron, solana}
