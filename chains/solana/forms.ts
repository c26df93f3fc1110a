// How Solana writes addresses (base58), payments (Solana Pay) and the ids of transactions.
import {formatUnits} from '../../base/units.ts'
import {contractOf} from '../contract-tokens.ts'
import type {Payment} from '../family.ts'
import type {SolanaChain} from '../registry.ts'
import {addressOf, bytesOf} from './address.ts'
import {parsePayment} from './message.ts'
import type {SolanaSettings} from './settings.ts'

export const displayForm = (_chain: SolanaChain, address: string): string => addressOf(bytesOf(address))

/** @solana/kit is loaded only here, because that takes a quarter of a second. */
export async function doubt(address: string): Promise<string | undefined> {
  const {isOffCurveAddress, address: parsed} = await import('@solana/kit')
  if (!isOffCurveAddress(parsed(address))) return undefined
  return 'is no point of the curve, so no key signs for it: as a rule it is mistyped. Vaults of multisignature wallets have such addresses'
}

export const display = (address: string): string => address

/** A transfer request of the Solana Pay specification (docs.solanapay.com/spec). */
export function paymentUri(settings: SolanaSettings, {token, address, amount}: Payment): string {
  const {decimals} = settings.chain.assets.find(asset => asset.token === token)!
  const mint = contractOf(settings, token)
  return `solana:${address}?amount=${formatUnits(amount, decimals)}${mint === undefined ? '' : `&spl-token=${mint}`}`
}

export const txid = (raw: string): string => parsePayment(raw).txid
