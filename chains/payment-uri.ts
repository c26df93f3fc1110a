// How a wallet is told what to pay: BIP-21 for Bitcoin, EIP-681 for EVM chains. Promises: the amount in it is exact, however large or small;
// a payment of a kind that has no form known to wallets is written as its address alone, which every wallet takes.
import {formatUnits, getAddress} from 'viem/utils'
import type {Chain} from './registry.ts'

/** What of a chain's settings (chains/settings.ts) tells its payments from those of other networks. */
interface Network {
  family: string
  chain: Pick<Chain, 'assets'>
  chainId?: number
  /** Token code by contract address. */
  tokens?: ReadonlyMap<string, string>
}

interface Payment {
  token: string
  /** In its display form. */
  address: string
  /** In base units. */
  amount: bigint
}

export function paymentUri(network: Network, payment: Payment): string {
  if (network.family === 'bitcoin') return bip21(network, payment)
  if (network.family === 'evm') return eip681(network, payment)
  return payment.address
}

function bip21({chain}: Network, {address, amount}: Payment): string {
  return `bitcoin:${address}?amount=${formatUnits(amount, chain.assets[0].decimals)}`
}

// The scheme is "ethereum" on every EVM chain; the number after the @ says which one. Without it a wallet takes the one that it is on.
function eip681({chain, chainId, tokens}: Network, {token, address, amount}: Payment): string {
  if (token === chain.assets[0].token) return `ethereum:${address}@${chainId}?value=${amount}`
  const [contract] = [...(tokens ?? [])].find(([, code]) => code === token) ?? []
  if (!contract) return address
  return `ethereum:${getAddress(contract)}@${chainId}/transfer?address=${address}&uint256=${amount}`
}
