// The tokens of the local EVM chains, deployed in block 1 of every chain: Circle's and others with authorisations
// (contracts/TestToken.sol), and one with Tether's manners (contracts/TestUsdt.sol). The settings of a service say
// which of them it knows, as on any other chain.
import {type Abi, encodeDeployData, getContractAddress, type Hex} from 'viem'
import {chain as registered} from '../../chains/registry.ts'
import {deployer, type LocalChainCode, usdcAddress} from './constants.ts'
import contracts from './contracts.json' with {type: 'json'}

export interface LocalToken {
  token: string
  displayName: string
  decimals: number
  contract: Hex
  sweep: {by: 'fund'} | {by: 'eip3009'; domain: {name: string; version: string}}
  /** The smallest payout, and sweep, in whole coins. */
  smallest: string
  /** The chains on which the settings of a service add it as an operator's own token. */
  enteredOn: LocalChainCode[]
}

/** The deployer's nonces 0 and 1 are those of USDC and of Multisend. */
const contractOf = (nonce: bigint) => getContractAddress({from: deployer.address, nonce})

const usdc: LocalToken = {
  token: 'USDC',
  displayName: 'USD Coin',
  decimals: 6,
  contract: usdcAddress,
  sweep: {by: 'eip3009', domain: {name: 'USDC', version: '2'}},
  smallest: '1',
  enteredOn: [],
}
const eurc: LocalToken = {
  token: 'EURC',
  displayName: 'Euro Coin',
  decimals: 6,
  contract: contractOf(2n),
  sweep: {by: 'eip3009', domain: {name: 'EURC', version: '2'}},
  smallest: '1',
  enteredOn: ['ETH'],
}
const jpyc: LocalToken = {
  token: 'JPYC',
  displayName: 'JPY Coin',
  decimals: 18,
  contract: contractOf(3n),
  sweep: {by: 'eip3009', domain: {name: 'JPY Coin', version: '1'}},
  smallest: '100',
  enteredOn: ['POLYGON'],
}
const usdt: LocalToken = {
  token: 'USDT',
  displayName: 'Tether USD',
  decimals: 6,
  contract: contractOf(4n),
  sweep: {by: 'fund'},
  smallest: '1',
  enteredOn: ['ETH', 'POLYGON'],
}
export const tokens = [usdc, eurc, jpyc, usdt] as const

/** In whole coins. */
const supply = 10n ** 12n

/** The data of the transaction that creates the contract and gives the whole supply to one address. */
export function deployment({token, displayName, decimals, sweep}: LocalToken, holder: string): Hex {
  const given = [decimals, holder, supply * 10n ** BigInt(decimals)]
  const [{abi, bytecode}, args] =
    sweep.by === 'fund'
      ? [contracts.TestUsdt, [displayName, token, ...given]]
      : [contracts.TestToken, [sweep.domain.name, token, sweep.domain.version, ...given]]
  return encodeDeployData({abi: abi as Abi, bytecode: bytecode as Hex, args})
}

/** The settings with the contracts of the chain's tokens that it `has`. */
export function tokenSettings(code: LocalChainCode, has: (contract: Hex) => boolean): Record<string, string> {
  const here = tokens.filter(({contract}) => has(contract))
  const known = here.filter(({token}) => registered(code).assets.some(asset => asset.token === token))
  const own = here.filter(({enteredOn}) => enteredOn.includes(code))
  return {
    ...Object.fromEntries(known.map(({token, contract}) => [`${code}_${token}_CONTRACT`, contract])),
    [`${code}_TOKENS`]: JSON.stringify(own.map(token => tokenEntry(code, token))),
    [`${code}_TOKENS_FILE`]: '',
  }
}

/** What the issuer of a token calls to freeze an address, and anybody to ask whether it is. Both kinds pause alike. */
export function issuerOf(contract: string) {
  const token = tokens.find(token => token.contract.toLowerCase() === contract.toLowerCase())
  return token?.sweep.by === 'fund'
    ? {abi: contracts.TestUsdt.abi as Abi, freeze: 'addBlackList', free: 'removeBlackList', isFrozen: 'isBlackListed'}
    : {abi: contracts.TestToken.abi as Abi, freeze: 'blacklist', free: 'unBlacklist', isFrozen: 'isBlacklisted'}
}

/** The entry of a token in the setting <CHAIN>_TOKENS. */
export function tokenEntry(code: string, {token, displayName, decimals, contract, sweep, smallest}: LocalToken) {
  return {
    code: token,
    name: `${code}-${token}`,
    display_name: displayName,
    contract,
    decimals,
    min_payout: smallest,
    sweep_min: smallest,
    sweep,
  }
}
