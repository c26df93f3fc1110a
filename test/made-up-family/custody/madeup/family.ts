// The made-up family in custody: it has addresses, and nothing is signed for it.
import {z} from 'zod'
import {hashOf} from '../../chains/madeup/block.ts'
import type {MadeUpSettings} from '../../chains/madeup/settings.ts'
import type {CustodyFamily} from '../family.ts'
import {id} from '../intents.ts'
import {findPayout} from '../policy.ts'
import {Refusal} from '../refusal.ts'
import {secp256k1} from '../secp256k1.ts'

const Intent = z.discriminatedUnion('intent', [z.strictObject({intent: z.literal('pay_madeup'), payout_id: id})])

/** No plan: none is ever made. */
export const madeup: CustodyFamily<MadeUpSettings, z.infer<typeof Intent>, never> = {
  curve: secp256k1,
  branches: {deposit: "m/44'/1'/0'/0/i", treasury: "m/44'/1'/1'/0/i"},
  address: publicKey => `made1${hashOf(Buffer.from(publicKey).toString('hex')).slice(0, 40)}`,
  intents: Intent,
  place: () => 0,
  subject: intent => intent.payout_id,
  async judge(context, intent) {
    const {chain} = await findPayout(context, intent.payout_id)
    throw new Refusal('wrong_state', `nothing leaves ${chain}`)
  },
  checkSweep() {},
  sign: async (_settings, _keys, plan) => plan,
  fees: () => ({}),
}
