// The chains of Solana in custody.
import {addressOf} from '../../chains/solana/address.ts'
import type {SolanaSettings} from '../../chains/solana/settings.ts'
import {ed25519} from '../ed25519.ts'
import {subjectOf} from '../expiring.ts'
import type {CustodyFamily} from '../family.ts'
import {checkSweepFee} from '../policy.ts'
import {Intent, judge, type SolanaPlan} from './judge.ts'
import {type SolanaDetails, sign} from './sign.ts'

export const solana: CustodyFamily<SolanaSettings, Intent, SolanaPlan, SolanaDetails> = {
  curve: ed25519,
  // As in wallets, whose accounts are the index. The last one is the treasury's: there are not so many deposit addresses.
  branches: {deposit: "m/44'/501'/i'/0'", treasury: "m/44'/501'/2147483647'/i'"},
  address: addressOf,
  intents: Intent,
  place: () => 0,
  subject: subjectOf,
  judge,
  checkSweep: checkSweepFee,
  sign: async (_settings, keys, plan) => await sign(keys, plan),
  fees: ({max_fee, priority_fee}) => ({max_fee, priority_fee}),
}
