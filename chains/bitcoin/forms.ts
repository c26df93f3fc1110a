// How Bitcoin writes addresses (bech32 in lower case), payments (BIP-21) and the ids of transactions.
import {RetryableError} from '../../base/errors.ts'
import {formatUnits} from '../../base/units.ts'
import type {Payment} from '../family.ts'
import type {BitcoinChain, BitcoinNetworkData} from '../registry.ts'
import {parseTransaction} from './block.ts'
import {addressOfScript, scriptOfAddress} from './script.ts'
import type {BitcoinSettings} from './settings.ts'

export function displayForm(chain: BitcoinChain, address: string, own: string | undefined): string {
  const network = networkOf(Object.values(chain.networks), own)
  return addressOfScript(scriptOfAddress(address, network), network)!
}

/** Networks that write their addresses in the same way count as one here. */
function networkOf(networks: BitcoinNetworkData[], own: string | undefined): BitcoinNetworkData {
  const network = networks.find(({hrp}) => own?.startsWith(`${hrp}1`))
  if (!network) throw new RetryableError('custody has made no address of this chain yet')
  return network
}

export const display = (address: string): string => address

export function paymentUri({chain}: BitcoinSettings, {address, amount}: Payment): string {
  return `bitcoin:${address}?amount=${formatUnits(amount, chain.assets[0].decimals)}`
}

export const txid = (raw: string): string => parseTransaction(Buffer.from(raw, 'hex')).txid
