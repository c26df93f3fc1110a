// Every setting, read from the environment and checked once, at the start of a process. Promises: an error names the variable, what it
// was, and what it may be; .env.example lists exactly these variables (a test compares them).
import {z} from 'zod'
import {type Chain, type ChainCode, chains} from '../chains/registry.ts'
import {PermanentError} from './errors.ts'

const flag = z.enum(['0', '1']).transform(value => value === '1')
const positive = z.coerce.number().int().positive()

const general = z.object({
  SLUICE_HOME: z.string().min(1).default('.sluice'),
  SLUICE_DEVNET: z.enum(['on', 'off']).default('on'),
  DATABASE_URL: z.url({protocol: /^postgres(ql)?$/}).optional(),
  HOST: z.string().min(1).default('127.0.0.1'),
  PORT: z.coerce.number().int().min(0).max(65_535).default(8080),
  RATE_LIMIT_PER_MINUTE: positive.default(600),
  WEBHOOK_ALLOW_PRIVATE: flag.default(false),
  ADDRESS_POOL_SIZE: positive.default(200),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
})

const perChain = z.object({
  RPC_URL: z.url({protocol: /^(https?|wss?)$/}).optional(),
  CHAIN_ID: positive.optional(),
  FINALITY: z.union([z.literal('tag'), positive]).default('tag'),
  TRACES: z.enum(['off', 'debug', 'trace']).default('off'),
  START_HEIGHT: z.coerce.number().int().nonnegative().optional(),
  STALL_TIMEOUT_MS: positive.optional(),
  USDC_ADDRESS: z
    .string()
    .regex(/^0x[0-9a-fA-F]{40}$/, 'must be a contract address: 0x and 40 hex digits')
    .optional(),
})

export interface ChainSettings {
  chain: Chain
  /** Absent where no node is named; the chain then runs on a local one, or not at all. */
  rpcUrl?: string
  chainId: number
  /** 'tag': the node's finalized block. N: a block is final when it and the blocks above it are N. */
  finality: 'tag' | number
  /** How value moved by contracts is seen: not at all, by debug_traceBlockByHash, or by trace_block. */
  traces: 'off' | 'debug' | 'trace'
  /** First block to index; absent: the one above the node's final block at the first start. */
  startHeight?: number
  stallTimeoutMs: number
  /** Token code by contract address, in lower case. */
  tokens: Map<string, string>
}

export interface Settings {
  home: string
  devnet: boolean
  databaseUrl?: string
  host: string
  port: number
  rateLimitPerMinute: number
  webhookAllowPrivate: boolean
  addressPoolSize: number
  chains: Map<ChainCode, ChainSettings>
}

type Environment = Record<string, string | undefined>

/** Reads all settings. Throws a PermanentError that lists every variable that is wrong. */
export function readSettings(environment: Environment = process.env): Settings {
  const problems: string[] = []
  const read = <T extends z.ZodObject>(schema: T, prefix = ''): z.infer<T> => {
    const names = Object.keys(schema.shape)
    const given = Object.fromEntries(names.map(name => [name, environment[prefix + name] || undefined]))
    const result = schema.safeParse(given)
    if (result.success) return result.data
    problems.push(...result.error.issues.map(issue => `  ${prefix}${issue.path.join('.')}: ${issue.message}`))
    return given as z.infer<T> // not used: the problems are thrown below
  }

  const all = read(general)
  const byChain = chains.map(chain => ({chain, ...read(perChain, `${chain.code}_`)}))
  if (problems.length) throw new PermanentError(`settings that cannot be used:\n${problems.join('\n')}`)

  return {
    home: all.SLUICE_HOME,
    devnet: all.SLUICE_DEVNET === 'on',
    databaseUrl: all.DATABASE_URL,
    host: all.HOST,
    port: all.PORT,
    rateLimitPerMinute: all.RATE_LIMIT_PER_MINUTE,
    webhookAllowPrivate: all.WEBHOOK_ALLOW_PRIVATE,
    addressPoolSize: all.ADDRESS_POOL_SIZE,
    chains: new Map(byChain.map(chain => [chain.chain.code, chainSettings(chain)])),
  }
}

function chainSettings({chain, ...read}: {chain: Chain} & z.infer<typeof perChain>): ChainSettings {
  const contracts = chain.assets.flatMap(asset => {
    const contract = (asset.token === 'USDC' && read.USDC_ADDRESS) || asset.contract
    return contract ? ([[contract.toLowerCase(), asset.token]] as const) : []
  })
  return {
    chain,
    rpcUrl: read.RPC_URL,
    chainId: read.CHAIN_ID ?? chain.chainId,
    finality: read.FINALITY,
    traces: read.TRACES,
    startHeight: read.START_HEIGHT,
    stallTimeoutMs: read.STALL_TIMEOUT_MS ?? chain.stallTimeoutMs,
    tokens: new Map(contracts),
  }
}

/** The database that a process of the service was started with. Throws PermanentError where there is none. */
export function databaseUrlOf(settings: Settings): string {
  if (settings.databaseUrl) return settings.databaseUrl
  throw new PermanentError('DATABASE_URL is not set; npm start sets it for the processes that it starts')
}
