// The chains of Tron in custody.
import {z} from 'zod'
import {findContract} from '../../chains/contract-tokens.ts'
import {addressOf, keyBytes} from '../../chains/tron/address.ts'
import type {TronSettings} from '../../chains/tron/settings.ts'
import type {CustodyFamily} from '../family.ts'
import {gasIntentsOf, intentsOf, stakingIntentsOf, units} from '../intents.ts'
import {secp256k1} from '../keys/secp256k1.ts'
import {checkSweep, type TronTerms, termsOf} from './plan.ts'
import {sign, type TronDetails} from './sign.ts'

const offered = {fee_limit: units.optional()} // of tokens
const Intent = z.discriminatedUnion('intent', [
  ...intentsOf('tron', 'tron', offered),
  ...gasIntentsOf('tron', 'tron'),
  ...stakingIntentsOf('tron', 'tron'),
])

export const tron: CustodyFamily<TronSettings, z.infer<typeof Intent>, TronTerms, TronDetails> = {
  curve: secp256k1,
  branches: {deposit: "m/44'/195'/0'/0/i", treasury: "m/44'/195'/1'/0/i"}, // BIP-44
  address: publicKey => addressOf(keyBytes(publicKey)),
  intents: Intent,
  async plan(context, of, intent) {
    const feeLimit = 'fee_limit' in intent && intent.fee_limit !== undefined ? BigInt(intent.fee_limit) : undefined
    return {plan: await termsOf(context, of, feeLimit)}
  },
  checkSweep,
  funds: {
    isFunded: (settings, token) => findContract(settings, token) !== undefined,
    most: ({tokenSweepFee}) => tokenSweepFee,
    mostLent: ({maxDelegated}) => maxDelegated,
  },
  sign: async (_settings, keys, plan) => await sign(keys, plan),
  fees: ({max_fee, may_burn}) => ({max_fee, ...(may_burn && {may_burn})}),
}
