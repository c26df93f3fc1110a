// The tokens of the local EVM chains: one contract (contracts/TestToken.sol), deployed once for each of them in block 1
// of every chain. The settings of a service say which of them it knows, as on any other chain.
import {type Abi, encodeDeployData, getContractAddress, type Hex} from 'viem'
import {chain as registered} from '../../chains/registry.ts'
import {deployer, type LocalChainCode, usdcAddress} from './constants.ts'
import contracts from './contracts.json' with {type: 'json'}

export interface LocalToken {
  token: string
  displayName: string
  decimals: number
  contract: Hex
  /** The EIP-712 domain of its signatures. */
  domain: {name: string; version: string}
  /** The smallest payout, and sweep, in whole coins. */
  smallest: string
  /** The chain on which the settings of a service add it as an operator's own token. */
  enteredOn?: LocalChainCode
}

/** The deployer's nonces 0 and 1 are those of USDC and of Multisend. */
const contractOf = (nonce: bigint) => getContractAddress({from: deployer.address, nonce})

const usdc: LocalToken = {
  token: 'USDC',
  displayName: 'USD Coin',
  decimals: 6,
  contract: usdcAddress,
  domain: {name: 'USDC', version: '2'},
  smallest: '1',
}
const eurc: LocalToken = {
  token: 'EURC',
  displayName: 'Euro Coin',
  decimals: 6,
  contract: contractOf(2n),
  domain: {name: 'EURC', version: '2'},
  smallest: '1',
  enteredOn: 'ETH',
}
const jpyc: LocalToken = {
  token: 'JPYC',
  displayName: 'JPY Coin',
  decimals: 18,
  contract: contractOf(3n),
  domain: {name: 'JPY Coin', version: '1'},
  smallest: '100',
  enteredOn: 'POLYGON',
}
export const tokens = [usdc, eurc, jpyc] as const

/** In whole coins. */
const supply = 10n ** 12n

/** The data of the transaction that creates the contract and gives the whole supply to one address. */
export function deployment({token, decimals, domain}: LocalToken, holder: string): Hex {
  const {abi, bytecode} = contracts.TestToken
  const args = [domain.name, token, domain.version, decimals, holder, supply * 10n ** BigInt(decimals)]
  return encodeDeployData({abi: abi as Abi, bytecode: bytecode as Hex, args})
}

/** The settings with the contracts of the chain's tokens that it `has`. */
export function tokenSettings(code: LocalChainCode, has: (contract: Hex) => boolean): Record<string, string> {
  const here = tokens.filter(({contract}) => has(contract))
  const known = here.filter(({token}) => registered(code).assets.some(asset => asset.token === token))
  const own = here.filter(({enteredOn}) => enteredOn === code)
  return {
    ...Object.fromEntries(known.map(({token, contract}) => [`${code}_${token}_CONTRACT`, contract])),
    [`${code}_TOKENS`]: JSON.stringify(own.map(token => tokenEntry(code, token))),
    [`${code}_TOKENS_FILE`]: '',
  }
}

/** The entry of a token in the setting <CHAIN>_TOKENS. */
export function tokenEntry(code: string, {token, displayName, decimals, contract, domain, smallest}: LocalToken) {
  return {
    code: token,
    name: `${code}-${token}`,
    display_name: displayName,
    contract,
    decimals,
    min_payout: smallest,
    sweep_min: smallest,
    sweep: {by: 'eip3009', domain},
  }
}
