// What the contract of USDC says of itself when a worker checks it, for a node that a test plays.
import {domainSeparator, numberToHex, toFunctionSelector} from 'viem'

export const usdc = '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238'

/** By the first four bytes of the call data. */
export const contract: Record<string, string> = {
  [toFunctionSelector('decimals()')]: numberToHex(6, {size: 32}),
  [toFunctionSelector('DOMAIN_SEPARATOR()')]: domainSeparator({
    domain: {name: 'USDC', version: '2', chainId: 11_155_111, verifyingContract: usdc},
  }),
  [toFunctionSelector('authorizationState(address,bytes32)')]: numberToHex(0, {size: 32}),
}
