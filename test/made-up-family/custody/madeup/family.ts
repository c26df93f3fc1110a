// The made-up family in custody: it signs planned transactions, but none are planned, because nothing leaves its chains yet.
import {z} from 'zod'
import {addressOf, digestOf, parseTransaction, rawTransaction} from '../../chains/madeup/block.ts'
import type {MadeUpSettings} from '../../chains/madeup/settings.ts'
import type {CustodyFamily, Signed} from '../family.ts'
import {id} from '../intents.ts'
import type {KeyPath, KeyStore} from '../keys.ts'
import {findPayout, type Plan} from '../policy.ts'
import {Refusal} from '../refusal.ts'
import {secp256k1} from '../secp256k1.ts'

const Intent = z.discriminatedUnion('intent', [z.strictObject({intent: z.literal('pay_madeup'), payout_id: id})])

interface MadeUpPlan extends Plan {
  path: KeyPath
}

export const madeup: CustodyFamily<MadeUpSettings, z.infer<typeof Intent>, MadeUpPlan> = {
  curve: secp256k1,
  branches: {deposit: "m/44'/1'/0'/0/i", treasury: "m/44'/1'/1'/0/i"},
  address: publicKey => addressOf(Buffer.from(publicKey).toString('hex')),
  intents: Intent,
  place: () => 0,
  subject: intent => intent.payout_id,
  async judge(context, intent) {
    const {chain} = await findPayout(context, intent.payout_id)
    throw new Refusal('wrong_state', `nothing leaves ${chain}`)
  },
  checkSweep() {},
  sign: async (_settings, keys, plan) => await sign(keys, plan),
  fees: () => ({}),
}

async function sign(keys: KeyStore, {path, destination, amount}: MadeUpPlan): Promise<Signed> {
  const publicKey = Buffer.from(await keys.publicKey(path)).toString('hex')
  const body = {publicKey, outputs: [{to: destination, amount: String(amount)}]}
  const signature = (await keys.sign(path, digestOf(body))).subarray(0, 64)
  const raw = rawTransaction(body, signature)
  return {txid: parseTransaction(raw).txid, raw, details: {}}
}
