// How the made-up family writes addresses and txids. Wallets know no URI for its payments.
import {AddressError, type Payment} from '../family.ts'
import type {MadeUpChain} from '../registry.ts'
import {parseTransaction} from './block.ts'
import type {MadeUpSettings} from './settings.ts'

export function displayForm(_chain: MadeUpChain, address: string): string {
  if (/^made1[0-9a-f]{40}$/.test(address)) return address
  throw new AddressError('invalid_address', 'must be made1 and 40 hex digits')
}

export const display = (address: string): string => address

export const paymentUri = (_settings: MadeUpSettings, {address}: Payment): string => address

export const txid = (raw: string): string => parseTransaction(raw).txid
