// How EVM chains write addresses (EIP-55), payments (EIP-681) and the ids of transactions.
import type {Hex} from 'viem'
import {getAddress, isAddress, keccak256} from 'viem/utils'
import {transferCall} from '../erc20-calls.ts'
import {AddressError, type Payment, type WalletTransaction} from '../family.ts'
import type {EvmChain} from '../registry.ts'
import type {EvmSettings} from './settings.ts'

export function displayForm(_chain: EvmChain, address: string): string {
  const digits = address.slice(2)
  const isMixedCase = digits !== digits.toLowerCase() && digits !== digits.toUpperCase()
  if (!/^0x[0-9a-fA-F]{40}$/.test(address)) throw new AddressError('invalid_address', 'must be 0x and 40 hex digits')
  if (isMixedCase && !isAddress(address, {strict: true}))
    throw new AddressError('invalid_checksum', 'is mistyped: its upper and lower case do not match (EIP-55)')
  return getAddress(`0x${digits.toLowerCase()}`)
}

export const display = (address: string): string => getAddress(address)

// The scheme is "ethereum" on every EVM chain; the number after the @ says which one. Without that number a wallet uses
// its current chain.
export function paymentUri({chain, chainId, tokens}: EvmSettings, {token, address, amount}: Payment): string {
  if (token === chain.assets[0].token) return `ethereum:${address}@${chainId}?value=${amount}`
  const contract = contractOf(tokens, token)
  if (!contract) return address
  return `ethereum:${contract}@${chainId}/transfer?address=${address}&uint256=${amount}`
}

export function walletTransaction(
  {chain, chainId, tokens}: EvmSettings,
  {token, address, amount}: Payment,
): WalletTransaction | undefined {
  const chain_id = hexOf(BigInt(chainId))
  if (token === chain.assets[0].token) return {chain_id, to: address, value: hexOf(amount), data: '0x'}
  const to = contractOf(tokens, token)
  return to === undefined ? to : {chain_id, to, value: '0x0', data: `0x${transferCall(BigInt(address), amount)}`}
}

const hexOf = (number: bigint) => `0x${number.toString(16)}`

function contractOf(tokens: EvmSettings['tokens'], token: string): string | undefined {
  const [contract] = [...tokens].find(([, code]) => code === token) ?? []
  return contract === undefined ? contract : getAddress(contract)
}

export const txid = (raw: string): string => keccak256(raw as Hex)
