// All rules that are taken out in turn, in lists that can be run one by one.
import type {Mutation} from './mutation.ts'
import {bitcoin} from './rules/bitcoin.ts'
import {blocking} from './rules/blocking.ts'
import {collectable} from './rules/collectable.ts'
import {deposits} from './rules/deposits.ts'
import {evm} from './rules/evm.ts'
import {expiry} from './rules/expiry.ts'
import {following} from './rules/following.ts'
import {funds} from './rules/funds.ts'
import {merchants} from './rules/merchants.ts'
import {nodes} from './rules/nodes.ts'
import {payouts} from './rules/payouts.ts'
import {requests} from './rules/requests.ts'
import {solana} from './rules/solana.ts'
import {solanaTokens} from './rules/solana-tokens.ts'
import {stakes} from './rules/stake.ts'
import {tron} from './rules/tron.ts'
import {tronTokens} from './rules/tron-tokens.ts'
import {words} from './rules/words.ts'

export const lists: Record<string, Mutation[]> = {
  following,
  deposits,
  payouts,
  merchants,
  requests,
  expiry,
  evm,
  bitcoin,
  tron,
  'tron-tokens': tronTokens,
  solana,
  'solana-tokens': solanaTokens,
  nodes,
  collectable,
  funds,
  stake: stakes,
  blocking,
  words,
}
