// The made-up family in custody.
import {randomUUID} from 'node:crypto'
import {addressOf, digestOf, parseTransaction, rawTransaction} from '../../chains/madeup/block.ts'
import type {MadeUpSettings} from '../../chains/madeup/settings.ts'
import {type ExpiringPlan, subjectOf} from '../expiring.ts'
import type {CustodyFamily, Signed} from '../family.ts'
import type {KeyStore} from '../keys.ts'
import {checkSweepFee} from '../policy.ts'
import {secp256k1} from '../secp256k1.ts'
import {Intent, judge} from './judge.ts'

export const madeup: CustodyFamily<MadeUpSettings, Intent, ExpiringPlan> = {
  curve: secp256k1,
  branches: {deposit: "m/44'/1'/0'/0/i", treasury: "m/44'/1'/1'/0/i"},
  address: publicKey => addressOf(Buffer.from(publicKey).toString('hex')),
  intents: Intent,
  place: () => 0,
  subject: subjectOf,
  judge,
  checkSweep: checkSweepFee,
  sign: async (_settings, keys, plan) => await sign(keys, plan),
  fees: () => ({}),
}

async function sign(keys: KeyStore, {path, destination, amount, lifetime}: ExpiringPlan): Promise<Signed> {
  const publicKey = Buffer.from(await keys.publicKey(path)).toString('hex')
  const {from, end} = lifetime
  const body = {
    publicKey,
    outputs: [{to: destination, amount: String(amount)}],
    lifetime: {from, end},
    salt: randomUUID(),
  }
  const signature = (await keys.sign(path, digestOf(body))).subarray(0, 64)
  const raw = rawTransaction(body, signature)
  return {txid: parseTransaction(raw).txid, raw, details: {lifetime: {...lifetime}}}
}
