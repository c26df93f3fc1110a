// The settings of an EVM chain, and the variables that they are read from.
import {z} from 'zod'
import {choice, plainText, url, type Variables, variables, whole} from '../../base/variables.ts'
import {amounts, type CommonSettings, coins, commonSettings, commonVariables, readAmounts} from '../chain-settings.ts'
import {caip2, type EvmChain, isMainNetwork} from '../registry.ts'

export interface EvmSettings extends CommonSettings<EvmChain> {
  /** Absent where no node is named; the chain then runs on a local one, or not at all. */
  rpcUrl?: string
  chainId: number
  /** 'tag': the node's finalized block. N: a block is final when it and the blocks above it are N. */
  finality: 'tag' | number
  /** How value moved by contracts is seen: not at all, by debug_traceBlockByHash, or by trace_block. */
  traces: 'off' | 'debug' | 'trace'
  /** Token code by contract address, in lower case. */
  tokens: Map<string, string>
  /** The EIP-712 domain by which USDC signs authorisations (EIP-3009). */
  usdcDomain: {name: string; version: string}
  /** No transaction of ours offers more per unit of gas, in wei. */
  maxFeePerGas: bigint
  /** Addresses that hold less are not worth sweeping. (For the native coin the network fee decides.) */
  sweepMin: Map<string, bigint>
  /** The most that a sweep of a token may cost, in wei. */
  tokenSweepFee: bigint
}

/** The settings as those of an EVM chain. Throws where they are of another family. */
export function evmSettings(settings: CommonSettings | undefined): EvmSettings {
  if (settings?.family !== 'evm') throw new Error(`${settings?.chain.code} is no EVM chain`)
  return settings as EvmSettings
}

export function evmVariables(chain: EvmChain, mainnet: boolean): Variables<EvmSettings> {
  const hasUsdc = chain.assets.some(({token}) => token === 'USDC')
  return variables({
    schema: schema(chain, mainnet),
    make: given => settings(chain, given),
    prefix: `${chain.code}_`,
    inFiles: ['RPC_URL'],
    unused: [
      ...(hasUsdc ? [] : ['USDC_ADDRESS', 'USDC_DOMAIN_NAME', 'USDC_DOMAIN_VERSION']),
      ...(chain.assets.length > 1 ? [] : ['TOKEN_SWEEP_FEE']),
    ],
  })
}

function schema(chain: EvmChain, mainnet: boolean) {
  return z.object({
    RPC_URL: url('https://node.example', 'http', 'https', 'ws', 'wss').optional(),
    CHAIN_ID: whole(1, Number.MAX_SAFE_INTEGER, chain.chainId)
      .refine(
        id => mainnet || !isMainNetwork(caip2('eip155', id)),
        `must be the id of a test network, such as ${chain.chainId}; on this one coins are worth money (docs/operations.md tells of SLUICE_MAINNET)`,
      )
      .default(chain.chainId),
    FINALITY: finality.default('tag'),
    TRACES: choice(['off', 'debug', 'trace']).default('off'),
    USDC_ADDRESS: z
      .string()
      .regex(
        /^0x[0-9a-fA-F]{40}$/,
        'must be a contract address: 0x and 40 hex digits, such as 0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238',
      )
      .optional(),
    USDC_DOMAIN_NAME: plainText('a name', 100, 'USDC').default('USDC'),
    USDC_DOMAIN_VERSION: plainText('a version', 100, '2').default('2'),
    MAX_FEE_GWEI: whole(1, 1_000_000_000, 500).default(500),
    ...commonVariables(chain),
    SWEEP_MIN: amounts(chain).default(() => readAmounts(chain, 'USDC:1') ?? new Map()),
    TOKEN_SWEEP_FEE: coins(chain, chain.tokenSweepFee),
  })
}

const finality = z
  .string()
  .refine(
    text => text === 'tag' || (/^\d{1,6}$/.test(text) && Number(text) > 0),
    'must be tag, or a number of blocks from 1 to 999999, such as 64',
  )
  .transform(text => (text === 'tag' ? 'tag' : Number(text)))

function settings(chain: EvmChain, given: z.infer<ReturnType<typeof schema>>): EvmSettings {
  const contracts = chain.assets.flatMap(asset => {
    const contract = (asset.token === 'USDC' && given.USDC_ADDRESS) || asset.contract
    return contract ? ([[contract.toLowerCase(), asset.token]] as const) : []
  })
  return {
    ...commonSettings(chain, given),
    rpcUrl: given.RPC_URL,
    chainId: given.CHAIN_ID,
    finality: given.FINALITY,
    traces: given.TRACES,
    tokens: new Map(contracts),
    usdcDomain: {name: given.USDC_DOMAIN_NAME, version: given.USDC_DOMAIN_VERSION},
    maxFeePerGas: BigInt(given.MAX_FEE_GWEI) * 10n ** 9n,
    sweepMin: given.SWEEP_MIN,
    tokenSweepFee: given.TOKEN_SWEEP_FEE,
  }
}

/** The variables with which another process reads the chain as it is read here. */
export function evmReading({chain, rpcUrl, chainId, finality, traces, tokens}: EvmSettings): Record<string, string> {
  const [usdc] = [...tokens].find(([, token]) => token === 'USDC') ?? []
  return {
    [`${chain.code}_RPC_URL`]: rpcUrl ?? '',
    [`${chain.code}_CHAIN_ID`]: String(chainId),
    [`${chain.code}_FINALITY`]: String(finality),
    [`${chain.code}_TRACES`]: traces,
    ...(usdc && {[`${chain.code}_USDC_ADDRESS`]: usdc}),
  }
}
