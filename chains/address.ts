// Addresses as people write them. Promises: what passes is the address of the chain in its display form (EIP-55 on EVM chains, lower case
// where it is bech32), the only form in which addresses of others are stored and compared.
import {getAddress, isAddress} from 'viem/utils'
import {AddressError, RetryableError} from '../base/errors.ts'
import {addressOfScript, scriptOfAddress} from './bitcoin/script.ts'
import {type BitcoinNetworkData, type ChainCode, findChain} from './registry.ts'

export {AddressError}

/** The statement that finds an address of ours on a chain ($1): what tells its network. Custody makes one before anything else. */
export const anyOwnAddress = `select address from custody.address where purpose = 'treasury'
  and family = (select family from app.chain where chain = $1)`

/**
 * The address in its display form. `own`: an address of ours on that chain, whose network it must be of. Throws AddressError where it is none
 * of the chain, RetryableError where there is no address of ours yet; of a chain that cannot run it says nothing.
 */
export function displayForm(code: ChainCode, address: string, own: string | undefined): string {
  const chain = findChain(code)
  if (chain?.family === 'evm') return evmForm(address)
  if (chain?.family !== 'bitcoin') return address
  const network = networkOf(Object.values(chain.networks), own)
  return addressOfScript(scriptOfAddress(address, network), network)!
}

function evmForm(address: string): string {
  const digits = address.slice(2)
  const isMixedCase = digits !== digits.toLowerCase() && digits !== digits.toUpperCase()
  if (!/^0x[0-9a-fA-F]{40}$/.test(address)) throw new AddressError('invalid_address', 'must be 0x and 40 hex digits')
  if (isMixedCase && !isAddress(address, {strict: true}))
    throw new AddressError('invalid_checksum', 'is mistyped: its upper and lower case do not match (EIP-55)')
  if (BigInt(address) === 0n) throw new AddressError('invalid_address', 'must not be the zero address')
  return getAddress(`0x${digits.toLowerCase()}`)
}

/** Networks that write their addresses in the same way are one here. */
function networkOf(networks: BitcoinNetworkData[], own: string | undefined): BitcoinNetworkData {
  const network = networks.find(({hrp}) => own?.startsWith(`${hrp}1`))
  if (!network) throw new RetryableError('custody has made no address of this chain yet')
  return network
}
