// The settings of an EVM chain, and the variables that they are read from.
import {z} from 'zod'
import {choice, url, type Variables, variables, whole} from '../../base/variables.ts'
import {type CommonSettings, coins, commonSettings, commonVariables} from '../chain-settings.ts'
import {
  addToken as addAsset,
  byContract,
  contractReading,
  contractsHere,
  contractVariables,
  type TokenSettings,
} from '../contract-tokens.ts'
import type {AddedToken} from '../family.ts'
import {caip2, type Erc20, type EvmChain, isMainNetwork} from '../registry.ts'
import {collisions, contractAddress, ownTokens, Sweep} from './tokens.ts'

export interface EvmSettings extends TokenSettings<EvmChain> {
  /** Absent if no node is set; the chain then runs as a local chain, or not at all. */
  rpcUrl?: string
  chainId: number
  /** 'tag': the node's finalized block. N: a block is final when it and the blocks above it are N. */
  finality: 'tag' | number
  /** How value that contracts move is read: not at all, with debug_traceBlockByHash, or with trace_block. */
  traces: 'off' | 'debug' | 'trace'
  /** The operator's own tokens as they were set; the chain's assets include them. */
  ownTokens: string
  /** The most that our transactions offer per unit of gas, in wei. */
  maxFeePerGas: bigint
  /** The most that a payment or a withdrawal may cost, in wei. */
  maxPaymentFee: bigint
}

/** The settings as EVM settings. Throws if the chain is of another family. */
export function evmSettings(settings: CommonSettings | undefined): EvmSettings {
  if (settings?.family !== 'evm') throw new Error(`${settings?.chain.code} is not an EVM chain`)
  return settings as EvmSettings
}

/**
 * A token of the chain, with its contract. Throws if the chain has no such token, or the token has no contract on this
 * network.
 */
export function erc20({chain, chainId}: EvmSettings, code: string): Erc20 & {contract: string} {
  const [, ...tokens] = chain.assets
  const token = tokens.find(token => token.token === code)
  if (token?.contract) return {...token, contract: token.contract}
  throw new Error(`${chain.code} has no contract for ${code} on chain ${chainId}`)
}

export function addToken(settings: EvmSettings, {contract, sweep, ...added}: AddedToken): void {
  addAsset(settings, {...added, sweep, contract: contract.toLowerCase()}, {sweep: Sweep.parse(sweep)})
}

/** Whether a token is swept by its address itself, with gas that the treasury sends it. False for the native coin. */
export function isFunded(
  {
    chain: {
      assets: [, ...tokens],
    },
  }: EvmSettings,
  code: string,
): boolean {
  return tokens.some(({token, sweep}) => token === code && sweep.by === 'fund')
}

/** Its variables are read in two steps: amounts in the second step may name tokens from the first. */
export function evmVariables(registered: EvmChain, mainnet: boolean): Variables<EvmSettings> {
  const network = networkVariables(registered, mainnet)
  const restOf = (of: Network) => variables({schema: schema(of.chain), make: given => settings(of, given), ...named})
  const named = {prefix: `${registered.code}_`, inFiles: ['RPC_URL']}
  const without: Network = {chain: registered, chainId: registered.chainId, ownTokens: ''}
  return {
    names: [...network.names, ...restOf(without).names],
    read(environment, problems) {
      const found = network.read(environment, problems)
      const rest = restOf(found ?? without).read(environment, problems)
      return found && rest
    },
  }
}

/** The network that is followed, and the chain with its tokens there. */
interface Network {
  chain: EvmChain
  chainId: number
  ownTokens: string
}

function networkVariables(chain: EvmChain, mainnet: boolean): Variables<Network> {
  const definition = z.object({
    CHAIN_ID: whole(1, Number.MAX_SAFE_INTEGER, chain.chainId)
      .refine(
        id => mainnet || !isMainNetwork(caip2('eip155', id)),
        `must be the id of a test network, such as ${chain.chainId}; coins of this one are worth money (see SLUICE_MAINNET in docs/operations.md)`,
      )
      .default(chain.chainId),
    ...contractVariables(chain, contractAddress),
    TOKENS: ownTokens.default({tokens: [], text: ''}),
  })
  type Given = z.infer<typeof definition>
  const known = (given: Given): EvmChain => {
    const [native, ...tokens] = chain.assets
    const here = contractsHere(tokens, given, {isPublic: given.CHAIN_ID === chain.chainId})
    return {...chain, assets: [native, ...here.map(token => withDomain(token, given.CHAIN_ID))]}
  }
  return variables({
    schema: definition.superRefine((given, {addIssue}) => {
      for (const message of collisions(given.TOKENS.tokens, known(given)))
        addIssue({code: 'custom', path: ['TOKENS'], message})
    }),
    make(given) {
      const {CHAIN_ID: chainId, TOKENS} = given
      const [native, ...tokens] = known(given).assets
      return {chain: {...chain, assets: [native, ...tokens, ...TOKENS.tokens]}, chainId, ownTokens: TOKENS.text}
    },
    prefix: `${chain.code}_`,
    inFiles: ['TOKENS'],
  })
}

/** A token of the registry, with the domain of its signatures on the network that is followed. */
function withDomain(token: Erc20, chainId: number): Erc20 {
  if (token.sweep.by === 'fund') return token
  const {by, domain, domainOn} = token.sweep
  return {...token, sweep: {by, domain: domainOn?.[chainId] ?? domain}}
}

function schema(chain: EvmChain) {
  return z.object({
    RPC_URL: url('https://node.example', 'http', 'https', 'ws', 'wss').optional(),
    FINALITY: finality.default('tag'),
    TRACES: choice(['off', 'debug', 'trace']).default('off'),
    MAX_FEE_GWEI: whole(1, 1_000_000_000, 500).default(500),
    ...commonVariables(chain),
    TOKEN_SWEEP_FEE: coins(chain, chain.tokenSweepFee),
    MAX_PAYMENT_FEE: coins(chain, chain.maxPaymentFee),
  })
}

const finality = z
  .string()
  .refine(
    text => text === 'tag' || (/^\d{1,6}$/.test(text) && Number(text) > 0),
    'must be tag, or a number of blocks from 1 to 999999, such as 64',
  )
  .transform(text => (text === 'tag' ? 'tag' : Number(text)))

function settings({chain, chainId, ownTokens}: Network, given: z.infer<ReturnType<typeof schema>>): EvmSettings {
  const [, ...tokens] = chain.assets
  return {
    ...commonSettings(chain, given),
    rpcUrl: given.RPC_URL,
    chainId,
    finality: given.FINALITY,
    traces: given.TRACES,
    tokens: byContract(tokens, contract => contract.toLowerCase()),
    ownTokens,
    maxFeePerGas: BigInt(given.MAX_FEE_GWEI) * 10n ** 9n,
    tokenSweepFee: given.TOKEN_SWEEP_FEE,
    maxPaymentFee: given.MAX_PAYMENT_FEE,
  }
}

/** The variables that make another process read the chain in the same way. */
export function evmReading(settings: EvmSettings): Record<string, string> {
  const {chain, rpcUrl, chainId, finality, traces, ownTokens} = settings
  return {
    [`${chain.code}_RPC_URL`]: rpcUrl ?? '',
    [`${chain.code}_CHAIN_ID`]: String(chainId),
    [`${chain.code}_FINALITY`]: String(finality),
    [`${chain.code}_TRACES`]: traces,
    ...Object.fromEntries(contractReading(settings)),
    [`${chain.code}_TOKENS`]: ownTokens,
  }
}
