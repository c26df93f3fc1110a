// The settings of a Tron chain, and the variables that they are read from.
import {z} from 'zod'
import {choice, plainText, url, type Variables, variables, whole} from '../../base/variables.ts'
import {atLeast, type CommonSettings, coins, commonSettings, commonVariables, worthSweeping} from '../chain-settings.ts'
import {type ExpirySettings, expirySettings, expiryVariables} from '../expiry-settings.ts'
import {type TronChain, type TronNetwork, tronNetworks} from '../registry.ts'

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

export interface TronSettings extends CommonSettings<TronChain>, ExpirySettings {
  network: TronNetwork
  /** The first is asked, the second if it fails, and where one node is not believed. Empty if none is set. */
  endpoints: TronEndpoint[]
  /** Sent with every request, as TronGrid wants it. */
  apiKey?: string
  /** How long a transaction may be mined, by the time of the blocks. */
  lifetimeMs: number
  /**
   * The most that a sweep may cost, in sun, and a payment, whose recipient may have no account yet. (The treasury has
   * one.)
   */
  maxSweepFee: bigint
  maxPaymentFee: bigint
}

const nodeUrl = (port: number) => url(`http://node.example:${port}`, 'http', 'https').optional()
const urls = ['RPC_URL', 'SOLIDITY_URL', 'RPC_URL_2', 'SOLIDITY_URL_2']

export function tronVariables(chain: TronChain): Variables<TronSettings> {
  return variables({
    schema: z
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
      }),
    make: given => {
      const common = commonSettings({...chain, pollIntervalMs: chain.networks[given.NETWORK].pollIntervalMs}, given)
      return {
        ...common,
        ...expirySettings(given),
        minPayout: atLeast(given.MAX_PAYMENT_FEE, common.minPayout), // only the block shows whether its recipient had an account
        sweepMin: atLeast(worthSweeping(common, given.MAX_SWEEP_FEE), common.sweepMin),
        network: given.NETWORK,
        endpoints: [
          endpointOf(given.RPC_URL, given.SOLIDITY_URL),
          endpointOf(given.RPC_URL_2, given.SOLIDITY_URL_2),
        ].flat(),
        apiKey: given.API_KEY,
        lifetimeMs: given.LIFETIME_MS,
        maxSweepFee: given.MAX_SWEEP_FEE,
        maxPaymentFee: given.MAX_PAYMENT_FEE,
      }
    },
    prefix: `${chain.code}_`,
    inFiles: [...urls, 'API_KEY'],
  })
}

export function tronSettings(settings: CommonSettings | undefined): TronSettings {
  if (settings?.family !== 'tron') throw new Error(`${settings?.chain.code} is no chain of Tron`)
  return settings as TronSettings
}

const alone = (needed: string) => `has no effect without ${needed}: set that, too, such as http://node.example:8090`

function endpointOf(url: string | undefined, solidityUrl = url): TronEndpoint[] {
  return url && solidityUrl ? [{url, solidityUrl}] : []
}

/** The variables that make another process read the chain in the same way. */
export function tronReading({chain, network, endpoints, apiKey}: TronSettings): Record<string, string> {
  const [first, second] = endpoints
  const of = (name: string, value: string | undefined) => [`${chain.code}_${name}`, value ?? ''] as const
  return Object.fromEntries([
    of('NETWORK', network),
    of('RPC_URL', first?.url),
    of('SOLIDITY_URL', first?.solidityUrl),
    of('RPC_URL_2', second?.url),
    of('SOLIDITY_URL_2', second?.solidityUrl),
    of('API_KEY', apiKey),
  ])
}
