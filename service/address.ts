// Addresses as people write them. Promises: what passes is the address of the chain in its display form (EIP-55 on EVM chains), the only
// form in which addresses of others are stored and compared.
import {getAddress, isAddress, zeroAddress} from 'viem'
import {type ChainCode, findChain} from '../chains/registry.ts'
import {AddressError} from './errors.ts'

export {AddressError}

/** The address in its display form. Throws AddressError where it is none of the chain; of a chain that cannot run it says nothing. */
export function displayForm(chain: ChainCode, address: string): string {
  if (findChain(chain)?.family !== 'evm') return address
  const digits = address.slice(2)
  const isMixedCase = digits !== digits.toLowerCase() && digits !== digits.toUpperCase()
  if (!/^0x[0-9a-fA-F]{40}$/.test(address)) throw new AddressError('invalid_address', 'must be 0x and 40 hex digits')
  if (isMixedCase && !isAddress(address, {strict: true}))
    throw new AddressError('invalid_checksum', 'is mistyped: its upper and lower case do not match (EIP-55)')
  if (BigInt(address) === BigInt(zeroAddress)) throw new AddressError('invalid_address', 'must not be the zero address')
  return getAddress(`0x${digits.toLowerCase()}`)
}
