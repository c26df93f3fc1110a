// How Tron writes addresses (base58check), payments and the ids of transactions. Wallets have no common form of a payment: it is the address.
import {AddressError, type Payment} from '../family.ts'
import type {TronChain} from '../registry.ts'
import {addressOf, bytesOf} from './address.ts'
import type {TronSettings} from './settings.ts'
import {parseTransaction} from './transaction.ts'

export function displayForm(_chain: TronChain, address: string): string {
  const bytes = bytesOf(address)
  if (bytes.subarray(1).every(byte => byte === 0))
    throw new AddressError('invalid_address', 'must not be the zero address')
  return addressOf(bytes)
}

export const display = (address: string): string => address

export const paymentUri = (_settings: TronSettings, {address}: Payment): string => address

export const txid = (raw: string): string => parseTransaction(Buffer.from(raw, 'hex')).txid
