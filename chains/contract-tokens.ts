// Tokens of contracts, as every family whose chains have contracts knows them. Promises: no I/O. A token whose contract
// is not known on a network has no place in the settings of that network.
import {z} from 'zod'
import {PermanentError} from '../base/errors.ts'
import type {CommonSettings} from './chain-settings.ts'
import {type AddedToken, AddressError} from './family.ts'
import {type Asset, type Chain, chain as registered} from './registry.ts'

export interface TokenSettings<C extends Chain = Chain> extends CommonSettings<C> {
  /** Token code by contract, as the indexer writes it, of each token that has one on this network. */
  tokens: Map<string, string>
  /** The most that a sweep of a token, with the gas for it, may cost, in base units of the native coin. */
  tokenSweepFee: bigint
}

/**
 * Adds a token to settings that are in use; whoever has them knows it from then on. Nothing if they know it already.
 * `entry`: what the family adds to an asset.
 */
export function addToken<E extends object>(settings: TokenSettings, added: AddedToken, entry: E): void {
  const {tokens} = settings
  const assets: Asset[] = settings.chain.assets
  const {token, name, displayName, decimals, contract, minPayout, sweepMin, payoutLimit, dailyLimit} = added
  if (assets.some(asset => asset.token === token)) return
  const usual = {usualMinPayout: minPayout, usualSweepMin: sweepMin}
  assets.push({token, name, displayName, decimals, contract, ...entry, ...usual, isAdded: true} as Asset)
  tokens.set(contract, token)
  settings.minPayout.set(token, minPayout)
  settings.sweepMin.set(token, sweepMin)
  if (payoutLimit !== undefined) settings.payoutLimit.set(token, payoutLimit)
  if (dailyLimit !== undefined) settings.dailyLimit.set(token, dailyLimit)
}

/** The contract of a token; undefined for the native coin. Throws if the token has none on this network. */
export function contractOf({chain, tokens}: TokenSettings, token: string): string | undefined {
  if (token === chain.assets[0].token) return
  const contract = findContract({tokens}, token)
  if (contract !== undefined) return contract
  throw new Error(`${chain.code} has no contract for ${token}`)
}

/** The same; undefined as well for a token that has none on this network. */
export const findContract = ({tokens}: Pick<TokenSettings, 'tokens'>, token: string): string | undefined =>
  [...tokens].find(([, code]) => code === token)?.[0]

/** Whose contract it is, such as "the contract of USDT on TRON"; undefined if it is none of these chains. */
export function tokenAt(chains: TokenSettings[], contract: string): string | undefined {
  for (const {chain, tokens} of chains) {
    const token = tokens.get(contract)
    if (token) return `the contract of ${token} on ${chain.code}`
  }
}

/** Token code by contract of those assets that have one. `keyOf`: a contract as the indexer writes it. */
export const byContract = (assets: Asset[], keyOf = (contract: string) => contract): Map<string, string> =>
  new Map(assets.flatMap(({contract, token}) => (contract ? ([[keyOf(contract), token]] as const) : [])))

/** The variable for the contract of each token of the registry, such as USDT_CONTRACT. `address`: its form. */
export const contractVariables = (
  {assets: [, ...tokens]}: Chain,
  address: z.ZodString,
): Record<`${string}_CONTRACT`, z.ZodOptional<z.ZodString>> =>
  Object.fromEntries(tokens.map(({token}) => [`${token}_CONTRACT`, address.optional()]))

/** The form of an address of a contract. `check` throws an AddressError. */
export const contractAddress = (check: (address: string) => unknown, example: string): z.ZodString =>
  z.string().superRefine((text, {addIssue}) => {
    try {
      check(text)
    } catch (error) {
      if (!(error instanceof AddressError)) throw error
      addIssue(`must be the address of a contract, such as ${example}: it ${error.message}`)
    }
  })

/** The chain's tokens, each with its contract on the network that is followed: as given, or that of the public one. */
export const contractsHere = <T extends Asset>(tokens: T[], given: object, {isPublic}: {isPublic: boolean}): T[] =>
  tokens.map(token => {
    const contract = (given as Record<string, unknown>)[`${token.token}_CONTRACT`] as string | undefined
    return {...token, contract: contract ?? (isPublic ? token.contract : undefined)}
  })

/** The variables that make another process know the same contracts. */
export function contractReading({chain}: CommonSettings): [string, string][] {
  const [, ...known] = registered(chain.code).assets
  return known.map(({token}) => [
    `${chain.code}_${token}_CONTRACT`,
    chain.assets.find(asset => asset.token === token)?.contract ?? '',
  ])
}

/** What a token may be called: in requests and URLs, and for people, who must read what is there. */
export const tokenNames = {
  code: {
    pattern: /^[A-Z][A-Z0-9]{0,11}$/,
    must: 'must be a capital letter, and up to 11 more or digits, such as "EURC"',
  },
  name: {
    pattern: /^[A-Z][A-Z0-9]*(-[A-Z0-9]+)*$/,
    must: 'must be its name in payment requests, of capital letters, digits and -, such as "ETH-EURC"',
  },
  displayName: {
    pattern: /^(?=.*\S)\P{C}{1,100}$/u,
    must: 'must be its name for people, of at most 100 visible characters, such as "Euro Coin"',
  },
} as const

const mostDecimals = 36

/** Throws PermanentError if amounts of a token with so many decimals could not be kept. */
export function possibleDecimals(contract: string, count: bigint): number {
  if (count <= BigInt(mostDecimals)) return Number(count)
  throw new PermanentError(
    `${contract} has ${count} decimals; amounts have at most 78 digits here, so no token with more than ${mostDecimals} is taken`,
  )
}
