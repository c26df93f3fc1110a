// Addresses of EVM chains that are no wallets.
import {tokenAt} from '../contract-tokens.ts'
import type {EvmSettings} from './settings.ts'

/**
 * Below are the zero address, precompiles (1 to 0x11, and 0x100: RIP-7212), Polygon's own contracts (0x1000, 0x1001,
 * 0x1010), and 0x…dead.
 */
const lowest = 0x10000n

const known: Record<string, string> = {
  '0x000f3df6d732807ef1319fb7b8bb8522d0beac02': 'a contract of the protocol (EIP-4788)',
  '0x0000f90827f1c53a10cb7a02335b175320002935': 'a contract of the protocol (EIP-2935)',
  '0x00000961ef480eb55e80d19ad83579a64c007002': 'a contract of the protocol (EIP-7002)',
  '0x0000bbddc7ce488642fb579f8b00f3a590007251': 'a contract of the protocol (EIP-7251)',
  '0x00000000219ab540356cbb839cbe05303d7705fa': "the deposit contract of Ethereum's validators",
  '0xfffffffffffffffffffffffffffffffffffffffe': 'the sender of the protocol itself (EIP-4788)',
  '0xffffffffffffffffffffffffffffffffffffffff': 'an address that coins are burned with',
  '0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee': 'what stands for the coin in contracts',
  '0xdead000000000000000042069420694206942069': 'an address that coins are burned with',
}

export function noWallet(address: string, chains: EvmSettings[]): string | undefined {
  const number = BigInt(address)
  if (number === 0n) return 'the zero address'
  if (number === 0xdeadn) return 'an address that coins are burned with'
  if (number < lowest) return 'a precompile, or a contract of the protocol'
  const lower = address.toLowerCase()
  return tokenAt(chains, lower) ?? known[lower]
}
