// All rules that are taken out in turn.
import type {Mutation} from './mutation.ts'
import {expiry} from './rules/expiry.ts'
import {solana} from './rules/solana.ts'

export const mutations: Mutation[] = [...expiry, ...solana]
