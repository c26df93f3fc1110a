// Bitcoin in custody: P2WPKH addresses of one network.
import {keyAddress} from '../../chains/bitcoin/script.ts'
import type {BitcoinSettings} from '../../chains/bitcoin/settings.ts'
import type {CustodyFamily} from '../family.ts'
import {secp256k1} from '../keys/secp256k1.ts'
import {BitcoinIntent} from './intents.ts'
import {type BitcoinTerms, checkSweep, type Details, keysOf, planOf} from './plan.ts'
import {signTransaction} from './sign.ts'

export const bitcoin: CustodyFamily<BitcoinSettings, BitcoinIntent, BitcoinTerms, Details> = {
  curve: secp256k1,
  branches: {deposit: "m/84'/1'/0'/0/i", treasury: "m/84'/1'/1'/0/i"}, // BIP-84, with the coin type of all test networks
  address: (publicKey, {chain, network}) => keyAddress(publicKey, chain.networks[network]),
  otherNetwork(made, known) {
    if (prefixOf(made) === prefixOf(known)) return undefined
    return (
      `the Bitcoin addresses of the database are of another network (${prefixOf(known)}1…) than BTC_NETWORK names (${prefixOf(made)}1…); ` +
      'set BTC_NETWORK to the network that this database was filled for, or name another database'
    )
  },
  intents: BitcoinIntent,
  keysOf,
  plan: planOf,
  checkSweep,
  async sign(_settings, keys, plan) {
    const {txid, raw, vsize} = await signTransaction(plan, keys)
    const inputs = plan.inputs.map(({outpoint}) => outpoint)
    return {txid, raw, details: {inputs, network_fee: String(plan.maxFee), vsize, change: String(plan.change)}}
  },
  fees: ({network_fee, vsize}) => ({fee: network_fee, vsize}),
  found: fee => ({network_fee: fee, vsize: 1, change: '0'}),
}

/** The human-readable part of a segwit address. */
function prefixOf(address: string): string {
  return address.slice(0, address.lastIndexOf('1'))
}
