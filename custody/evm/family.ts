// The EVM chains in custody: one key, and one address, on all of them.
import {type EvmSettings, isFunded} from '../../chains/evm/settings.ts'
import type {CustodyFamily} from '../family.ts'
import {secp256k1} from '../keys/secp256k1.ts'
import {authorise} from './authorise.ts'
import {EvmIntent} from './intents.ts'
import {checkSweep, type Details, type EvmTerms, keysOf, planOf} from './plan.ts'
import {addressOf} from './sign.ts'
import {signPlan} from './sign-plan.ts'

export const evm: CustodyFamily<EvmSettings, EvmIntent, EvmTerms, Details> = {
  curve: secp256k1,
  branches: {deposit: "m/44'/60'/0'/0/i", treasury: "m/44'/60'/1'/0/i"}, // BIP-44
  address: addressOf,
  intents: EvmIntent,
  place: ({nonce}) => nonce, // lower nonces are signed first
  keysOf,
  plan: planOf,
  checkSweep,
  funds: {isFunded, most: ({tokenSweepFee}) => tokenSweepFee},
  sign: signPlan,
  authorise,
  fees: ({max_fee_per_gas, max_priority_fee_per_gas, gas_limit}) => ({
    max_fee_per_gas,
    max_priority_fee_per_gas,
    gas_limit,
  }),
  found: () => ({max_fee_per_gas: '0', max_priority_fee_per_gas: '0', gas_limit: 0}),
}
