// Addresses of Tron that are no wallets. Whether one is any other contract only a node can say: to a contract no TRX is
// paid, and tokens are, which some contracts can pass on.
import {tokenAt} from '../contract-tokens.ts'
import {bytesOf} from './address.ts'
import type {TronSettings} from './settings.ts'

/** Below are the zero address and the precompiles: java-tron's PrecompiledContracts has them up to 0x0200000a. */
const lowest = 0x0300_0000n

const blackHole = 'TLsV52sRDL79HXGGm9yzwKibb6BeruhUzy'

export function noWallet(address: string, chains: TronSettings[]): string | undefined {
  const number = BigInt(`0x${Buffer.from(bytesOf(address).subarray(1)).toString('hex')}`)
  if (number === 0n) return 'the zero address'
  if (number === 0xdeadn) return 'an address that coins are burned with'
  if (number < lowest) return 'a precompile'
  return address === blackHole ? 'the black hole, where coins are burned' : tokenAt(chains, address)
}
