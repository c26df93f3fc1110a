// The chains of Tron in custody.
import {addressOf, keyBytes} from '../../chains/tron/address.ts'
import type {TronSettings} from '../../chains/tron/settings.ts'
import {subjectOf} from '../expiring.ts'
import type {CustodyFamily} from '../family.ts'
import {checkSweepFee} from '../policy.ts'
import {secp256k1} from '../secp256k1.ts'
import {Intent, judge, type TronPlan} from './judge.ts'
import {sign, type TronDetails} from './sign.ts'

export const tron: CustodyFamily<TronSettings, Intent, TronPlan, TronDetails> = {
  curve: secp256k1,
  branches: {deposit: "m/44'/195'/0'/0/i", treasury: "m/44'/195'/1'/0/i"}, // BIP-44
  address: publicKey => addressOf(keyBytes(publicKey)),
  intents: Intent,
  place: () => 0,
  subject: subjectOf,
  judge,
  checkSweep: checkSweepFee,
  sign: async (_settings, keys, plan) => await sign(keys, plan),
  fees: ({max_fee}) => ({max_fee}),
}
