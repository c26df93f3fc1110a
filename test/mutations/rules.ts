// All rules that are taken out in turn, in lists that can be run one by one.
import type {Mutation} from './mutation.ts'
import {deposits} from './rules/deposits.ts'
import {expiry} from './rules/expiry.ts'
import {payouts} from './rules/payouts.ts'
import {solana} from './rules/solana.ts'

export const lists: Record<string, Mutation[]> = {deposits, payouts, expiry, solana}
