// The settings of a Tron chain, and the variables that they are read from.

import {z} from 'zod'
import {choice, plainText, url, type Variables, variables, whole} from '../../base/variables.ts'
import {
  type CommonSettings,
  coinAtLeast,
  coins,
  commonSettings,
  commonVariables,
  worthSweeping,
} from '../chain-settings.ts'
import {
  addToken as addAsset,
  byContract,
  contractAddress,
  contractReading,
  contractsHere,
  contractVariables,
  type TokenSettings,
} from '../contract-tokens.ts'
import {type ExpirySettings, expirySettings, expiryVariables} from '../expiry-settings.ts'
import type {AddedToken} from '../family.ts'
import {type TronChain, type TronNetwork, tronNetworks} from '../registry.ts'
import {bytesOf} from './address.ts'

/** A node: `wallet/…` is served at `url`, and `walletsolidity/…` at `solidityUrl`, which are two ports of java-tron. */
export interface TronEndpoint {
  url: string
  solidityUrl: string
}

/**
 * The longest that a transaction may be mined, by the time of the blocks: 18 blocks for finality, and time for a node
 * that refuses requests.
 */
export const longestLifetimeMs = 600_000

export interface TronSettings extends TokenSettings<TronChain>, ExpirySettings {
  network: TronNetwork
  /** The first is asked, the second if it fails, and where one node is not believed. Empty if none is set. */
  endpoints: TronEndpoint[]
  /** Sent with every request, as TronGrid wants it. */
  apiKey?: string
  /** How long a transaction may be mined, by the time of the blocks. */
  lifetimeMs: number
  /**
   * The most that a sweep of TRX may cost, in sun, and a payment of TRX, whose recipient may have no account yet. (The
   * treasury has one.)
   */
  maxSweepFee: bigint
  maxPaymentFee: bigint
  /** The most that a payment of a token may cost, in sun: its energy, and its bytes. */
  tokenPaymentFee: bigint
  /** How the energy is paid for that the sweep of a token takes. */
  sweepEnergy: SweepEnergy
  /** How much of the treasury's stake may be lent to deposit addresses at once, in sun. */
  maxDelegated: bigint
}

const sweepEnergies = ['cheapest', 'burnt', 'delegated'] as const
export type SweepEnergy = (typeof sweepEnergies)[number]

const nodeUrl = (port: number) => url(`http://node.example:${port}`, 'http', 'https').optional()
/** Contracts in the registry are those of this network. */
const publicNetwork: TronNetwork = 'nile'
const urls = ['RPC_URL', 'SOLIDITY_URL', 'RPC_URL_2', 'SOLIDITY_URL_2']

export function tronVariables(chain: TronChain): Variables<TronSettings> {
  return variables({
    schema: schema(chain),
    make: given => settingsOf(chain, given),
    prefix: `${chain.code}_`,
    inFiles: [...urls, 'API_KEY'],
  })
}

function schema(chain: TronChain) {
  return z
    .object({
      NETWORK: choice(tronNetworks).default('nile'),
      RPC_URL: nodeUrl(8090),
      SOLIDITY_URL: nodeUrl(8091),
      RPC_URL_2: nodeUrl(8090),
      SOLIDITY_URL_2: nodeUrl(8091),
      API_KEY: plainText('a key', 200, '3b6c5d9e-0f1a-4a39-9d1c-3a8f1c2e7b55').optional(),
      LIFETIME_MS: whole(1000, longestLifetimeMs, longestLifetimeMs).default(longestLifetimeMs),
      MAX_SWEEP_FEE: coins(chain, '0.3'),
      MAX_PAYMENT_FEE: coins(chain, '1.1'),
      TOKEN_SWEEP_FEE: coins(chain, '30'),
      TOKEN_PAYMENT_FEE: coins(chain, '30'),
      SWEEP_ENERGY: choice(sweepEnergies).default('cheapest'),
      MAX_DELEGATED: coins(chain, '200000'),
      ...contractVariables(chain, contractAddress(bytesOf, 'TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf')),
      ...expiryVariables(),
      ...commonVariables(chain),
    })
    .superRefine((given, {addIssue}) => {
      for (const [name, needed] of [
        ['SOLIDITY_URL', 'RPC_URL'],
        ['RPC_URL_2', 'RPC_URL'],
        ['SOLIDITY_URL_2', 'RPC_URL_2'],
      ] as const)
        if (given[name] && !given[needed])
          addIssue({code: 'custom', path: [name], message: alone(`${chain.code}_${needed}`)})
    })
}

type Given = z.infer<ReturnType<typeof schema>>

function settingsOf(known: TronChain, given: Given): TronSettings {
  const {pollIntervalMs} = known.networks[given.NETWORK]
  const [native, ...tokens] = known.assets
  const here = contractsHere(tokens, given, {isPublic: given.NETWORK === publicNetwork})
  const chain: TronChain = {...known, pollIntervalMs, assets: [native, ...here]}
  const common = commonSettings(chain, given)
  return {
    ...common,
    ...expirySettings(given),
    minPayout: coinAtLeast(given.MAX_PAYMENT_FEE, common.minPayout, chain), // only the block shows whether its recipient had an account
    sweepMin: coinAtLeast(worthSweeping(common, given.MAX_SWEEP_FEE), common.sweepMin, chain),
    network: given.NETWORK,
    endpoints: [
      endpointOf(given.RPC_URL, given.SOLIDITY_URL),
      endpointOf(given.RPC_URL_2, given.SOLIDITY_URL_2),
    ].flat(),
    apiKey: given.API_KEY,
    lifetimeMs: given.LIFETIME_MS,
    maxSweepFee: given.MAX_SWEEP_FEE,
    maxPaymentFee: given.MAX_PAYMENT_FEE,
    tokens: byContract(here),
    tokenSweepFee: given.TOKEN_SWEEP_FEE,
    tokenPaymentFee: given.TOKEN_PAYMENT_FEE,
    sweepEnergy: given.SWEEP_ENERGY,
    maxDelegated: given.MAX_DELEGATED,
  }
}

export function addToken(settings: TronSettings, added: AddedToken): void {
  addAsset(settings, added, {sweep: ByFund.parse(added.sweep)})
}

const ByFund = z.object({by: z.literal('fund')})

export function tronSettings(settings: CommonSettings | undefined): TronSettings {
  if (settings?.family !== 'tron') throw new Error(`${settings?.chain.code} is no chain of Tron`)
  return settings as TronSettings
}

const alone = (needed: string) => `has no effect without ${needed}: set that, too, such as http://node.example:8090`

function endpointOf(url: string | undefined, solidityUrl = url): TronEndpoint[] {
  return url && solidityUrl ? [{url, solidityUrl}] : []
}

/** The variables that make another process read the chain in the same way. */
export function tronReading(settings: TronSettings): Record<string, string> {
  const {chain, network, endpoints, apiKey} = settings
  const [first, second] = endpoints
  const of = (name: string, value: string | undefined) => [`${chain.code}_${name}`, value ?? ''] as const
  return Object.fromEntries([
    of('NETWORK', network),
    of('RPC_URL', first?.url),
    of('SOLIDITY_URL', first?.solidityUrl),
    of('RPC_URL_2', second?.url),
    of('SOLIDITY_URL_2', second?.solidityUrl),
    of('API_KEY', apiKey),
    ...contractReading(settings),
  ])
}
