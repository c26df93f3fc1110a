// The settings of a Solana chain, and the variables that they are read from.
import {z} from 'zod'
import {choice, plainText, url, type Variables, variables} from '../../base/variables.ts'
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
  contractOf,
  contractReading,
  contractsHere,
  contractVariables,
  type TokenSettings,
} from '../contract-tokens.ts'
import {type ExpirySettings, expirySettings, expiryVariables} from '../expiry-settings.ts'
import type {AddedToken} from '../family.ts'
import {type SolanaChain, type SolanaNetwork, type SplToken, solanaNetworks} from '../registry.ts'
import {bytesOf} from './address.ts'
import {type TokenTransfer, twoSignaturesFee} from './message.ts'
import {associatedAccount, type TokenProgram, tokenPrograms} from './tokens.ts'

export interface SolanaEndpoint {
  url: string
  /** Of Helius, whose nodes take it as a parameter of the URL. */
  apiKey?: string
}

export interface SolanaSettings extends TokenSettings<SolanaChain>, ExpirySettings {
  network: SolanaNetwork
  /** The first is asked, the second if it fails, and where one node is not believed. Empty if none is set. */
  endpoints: SolanaEndpoint[]
  /** A node with all blocks, to read them again; absent: the first of `endpoints` is asked. */
  archive?: SolanaEndpoint
  /** Where a node tells each new slot; absent: it is polled. */
  wsUrl?: string
  /** The most that a transaction may pay for its place in a block, in lamports, on top of its signature. */
  maxPriorityFee: bigint
  /** The most that an account for a token may cost (rent), in lamports. */
  maxAccountRent: bigint
  /** How much of that is paid in a day (UTC) for a merchant's recipients that have none, in lamports. */
  dailyAccountRent: bigint
}

const nodeUrl = () => url('https://node.example', 'http', 'https').optional()
/** Contracts in the registry are those of this network. */
const publicNetwork: SolanaNetwork = 'devnet'
const urls = ['RPC_URL', 'RPC_URL_2', 'ARCHIVE_RPC_URL', 'WS_URL']
const heliusUrl = {devnet: 'https://devnet.helius-rpc.com/', testnet: undefined, local: undefined}

export function solanaVariables(chain: SolanaChain): Variables<SolanaSettings> {
  return variables({
    schema: z
      .object({
        NETWORK: choice(solanaNetworks).default('devnet'),
        RPC_URL: nodeUrl(),
        RPC_URL_2: nodeUrl(),
        ARCHIVE_RPC_URL: nodeUrl(),
        WS_URL: url('wss://node.example', 'ws', 'wss').optional(),
        HELIUS_API_KEY: plainText('a key', 200, '3b6c5d9e-0f1a-4a39-9d1c-3a8f1c2e7b55').optional(),
        MAX_PRIORITY_FEE: coins(chain, '0.0001'),
        MAX_ACCOUNT_RENT: coins(chain, '0.0025'),
        DAILY_ACCOUNT_RENT: coins(chain, '0.05'),
        ...contractVariables(chain, contractAddress(bytesOf, '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU')),
        ...expiryVariables(),
        ...commonVariables(chain),
      })
      .superRefine((given, {addIssue}) => {
        for (const name of ['RPC_URL', 'RPC_URL_2', 'ARCHIVE_RPC_URL'] as const)
          if (given.HELIUS_API_KEY && isOfHelius(given[name]) && URL.parse(given[name]!)?.search)
            addIssue({
              code: 'custom',
              path: [name],
              message: `must have no parameters, such as ${heliusUrl.devnet}: HELIUS_API_KEY is added to it`,
            })
        for (const name of ['RPC_URL_2', 'ARCHIVE_RPC_URL', 'WS_URL'] as const)
          if (given[name] && !given.RPC_URL && !(given.HELIUS_API_KEY && heliusUrl[given.NETWORK]))
            addIssue({
              code: 'custom',
              path: [name],
              message: `has no effect without ${chain.code}_RPC_URL: set that, too, such as https://api.devnet.solana.com`,
            })
      }),
    make: given => {
      const key = given.HELIUS_API_KEY
      const first = given.RPC_URL ?? (key && heliusUrl[given.NETWORK])
      const [native, ...known] = chain.assets
      const tokens = contractsHere(known, given, {isPublic: given.NETWORK === publicNetwork})
      const {pollIntervalMs} = chain.networks[given.NETWORK]
      const common = commonSettings<SolanaChain>({...chain, pollIntervalMs, assets: [native, ...tokens]}, given)
      const sweepFee = twoSignaturesFee + given.MAX_PRIORITY_FEE
      return {
        ...common,
        ...expirySettings(given),
        sweepMin: coinAtLeast(worthSweeping(common, sweepFee), common.sweepMin, common.chain),
        network: given.NETWORK,
        endpoints: [endpointOf(first, key), endpointOf(given.RPC_URL_2, key)].flat(),
        archive: endpointOf(given.ARCHIVE_RPC_URL, key)[0],
        wsUrl: given.WS_URL,
        maxPriorityFee: given.MAX_PRIORITY_FEE,
        maxAccountRent: given.MAX_ACCOUNT_RENT,
        dailyAccountRent: given.DAILY_ACCOUNT_RENT,
        tokens: byContract(tokens),
        tokenSweepFee: sweepFee + given.MAX_ACCOUNT_RENT, // the first one makes the treasury's account
      }
    },
    prefix: `${chain.code}_`,
    unprefixed: ['HELIUS_API_KEY'],
    inFiles: [...urls, 'HELIUS_API_KEY'],
  })
}

export function addToken(settings: SolanaSettings, added: AddedToken): void {
  addAsset(settings, added, {sweep: Sweep.parse(added.sweep)})
}

const Sweep = z.object({
  by: z.literal('treasury'),
  program: z.enum(Object.keys(tokenPrograms) as TokenProgram[]),
  accepts: z.array(z.string()),
})

/** A token of the chain, with its mint on this network. Throws if there is none. */
export function splToken(settings: SolanaSettings, code: string): SplToken & {contract: string} {
  const contract = contractOf(settings, code)!
  const [, ...tokens] = settings.chain.assets
  return {...tokens.find(({token}) => token === code)!, contract}
}

/** The associated account of an owner for a token of the chain. */
export function accountOf(settings: SolanaSettings, token: string, owner: string): string {
  const {contract, sweep} = splToken(settings, token)
  return associatedAccount(owner, contract, sweep.program)
}

/**
 * A transfer of a token to the associated account of its recipient, `to`, which is made first if that is asked, and it
 * is not there.
 */
export function transferTo(
  settings: SolanaSettings,
  {token, fromAccount, recipient, isMade}: {token: string; fromAccount: string; recipient: string; isMade: boolean},
): TokenTransfer & {to: string} {
  const {contract: mint, decimals, sweep} = splToken(settings, token)
  const to = accountOf(settings, token, recipient)
  const of = {program: tokenPrograms[sweep.program], mint, decimals, fromAccount, to}
  return isMade ? {...of, madeFor: recipient} : of
}

export function solanaSettings(settings: CommonSettings | undefined): SolanaSettings {
  if (settings?.family !== 'solana') throw new Error(`${settings?.chain.code} is no chain of Solana`)
  return settings as SolanaSettings
}

/** The key goes to nobody else. What is no URL is of nobody. */
const isOfHelius = (url = '') => /(^|\.)helius-rpc\.com$/.test(URL.parse(url)?.hostname ?? '')

function endpointOf(url: string | undefined, key: string | undefined): SolanaEndpoint[] {
  return url ? [{url, ...(key && isOfHelius(url) && {apiKey: key})}] : []
}

/** The variables that make another process read the chain in the same way. */
export function solanaReading(settings: SolanaSettings): Record<string, string> {
  const {chain, network, endpoints, archive, wsUrl} = settings
  const [first, second] = endpoints
  const of = (name: string, value: string | undefined) => [`${chain.code}_${name}`, value ?? ''] as const
  return Object.fromEntries([
    of('NETWORK', network),
    of('RPC_URL', first?.url),
    of('RPC_URL_2', second?.url),
    of('ARCHIVE_RPC_URL', archive?.url),
    of('WS_URL', wsUrl),
    ...contractReading(settings),
    ['HELIUS_API_KEY', [first, second, archive].find(endpoint => endpoint?.apiKey)?.apiKey ?? ''],
  ])
}
