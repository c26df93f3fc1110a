// How Tron writes addresses (base58check), payments and the ids of transactions. Wallets have no common form of a
// payment: it is the address.
import type {Payment} from '../family.ts'
import type {TronChain} from '../registry.ts'
import {addressOf, bytesOf} from './address.ts'
import type {TronSettings} from './settings.ts'
import {parseTransaction} from './transaction.ts'

export function displayForm(_chain: TronChain, address: string): string {
  // As nodes write it, in hex.
  return addressOf(/^(0x)?41[0-9a-f]{40}$/i.test(address) ? Buffer.from(address.slice(-42), 'hex') : bytesOf(address))
}

export const display = (address: string): string => address

export const paymentUri = (_settings: TronSettings, {address}: Payment): string => address

export const txid = (raw: string): string => parseTransaction(Buffer.from(raw, 'hex')).txid
