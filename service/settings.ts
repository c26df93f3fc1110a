// Every setting, read from the environment and checked once, at the start of a process. Promises: an error names the variable, what it
// was (URLs excepted, they may hold a password), and what it may be; .env.example lists exactly these variables (a test compares them);
// a setting that may hold a password can be given by a file, whose name is then in the variable of the same name with _FILE.
import {existsSync, readFileSync} from 'node:fs'
import {z} from 'zod'
import {
  type BitcoinChain,
  type BitcoinNetwork,
  bitcoinNetworks,
  type Chain,
  type ChainCode,
  chains,
  type EvmChain,
} from '../chains/registry.ts'
import {PermanentError} from './errors.ts'

/** The processes of npm start serve metrics at METRICS_PORT and at most so many ports above it: there the supervisor does. */
export const metricsPorts = 20

const flag = choice(['0', '1']).transform(value => value === '1')
const positive = whole(1)

function whole(min: number, max = Number.MAX_SAFE_INTEGER) {
  const allowed = max === Number.MAX_SAFE_INTEGER ? `${min} or more` : `from ${min} to ${max}`
  return z
    .string()
    .transform(Number)
    .refine(value => Number.isInteger(value) && value >= min && value <= max, `must be a whole number, ${allowed}`)
}

function choice<const T extends readonly string[]>(values: T) {
  return z.enum(values, {error: `must be one of ${values.join(', ')}`})
}

function url(...schemes: string[]) {
  const protocol = new RegExp(`^(${schemes.join('|')})$`)
  return z.url({
    protocol,
    error: `must be a URL that starts with ${schemes.map(scheme => `${scheme}://`).join(' or ')}`,
  })
}

/** Where a browser finds something, without a slash at its end. */
const webAddress = url('http', 'https')
  .refine(text => !/[?#@]/.test(text), 'must have no user, query or fragment')
  .transform(text => new URL(text).href.replace(/\/+$/, '')) // "https:pay.example/a b" is none that can be clicked in a text

/** Amounts by token, such as ETH:5,USDC:10000, in whole coins; kept as text until the chain's decimals are known. */
const amounts = z
  .string()
  .regex(/^[A-Z]+:\d+(\.\d+)?(,[A-Z]+:\d+(\.\d+)?)*$/, 'must be amounts by token, such as ETH:5,USDC:10000')
  .optional()

const general = z.object({
  SLUICE_HOME: z.string().min(1).default('.sluice'),
  SLUICE_DEVNET: choice(['on', 'off']).default('on'),
  DATABASE_URL: url('postgres', 'postgresql').optional(),
  DATABASE_REPLICA_URL: url('postgres', 'postgresql').optional(),
  HOST: z.string().min(1).default('127.0.0.1'),
  PORT: whole(0, 65_535).default(8080),
  PUBLIC_URL: webAddress.optional(),
  METRICS_PORT: whole(1, 65_535 - metricsPorts).optional(),
  RATE_LIMIT_PER_MINUTE: positive.default(600),
  WEBHOOK_ALLOW_PRIVATE: flag.default(false),
  ADDRESS_POOL_SIZE: positive.default(200),
  CUSTODY_PASSPHRASE: z.string().min(8, 'must have at least 8 characters').optional(),
  CUSTODY_PASSPHRASE_FILE: z.string().optional(),
  DELIVERY_RETENTION_DAYS: whole(7).default(90),
  PAYOUT_TIMEOUT_MS: positive.default(86_400_000),
  PAYMENT_EXPIRY_MS: whole(1_000, 315_360_000_000).default(86_400_000),
  REPLACE_AFTER_MS: positive.default(120_000),
  LOG_LEVEL: choice(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
})

/** Servers of the Electrum protocol, such as tls://electrum.example:50002. */
const electrumUrls = z
  .string()
  .transform(text => text.split(',').map(part => part.trim()))
  .refine(urls => urls.every(isElectrumUrl), 'must be tcp://host:port or tls://host:port, several with commas between')
  .optional()

function isElectrumUrl(text: string): boolean {
  return /^(tcp|tls):\/\/[^/\s]+:\d+$/.test(text)
}

/** What every chain has. */
const limits = {PAYOUT_LIMIT: amounts, DAILY_LIMIT: amounts, COLLECT_ABOVE: amounts}

const evm = z.object({
  RPC_URL: url('http', 'https', 'ws', 'wss').optional(),
  CHAIN_ID: positive.optional(),
  FINALITY: z
    .string()
    .transform(value => (value === 'tag' ? 'tag' : Number(value)))
    .refine(value => value === 'tag' || (Number.isInteger(value) && value > 0), 'must be tag, or a number of blocks')
    .default('tag'),
  TRACES: choice(['off', 'debug', 'trace']).default('off'),
  START_HEIGHT: whole(0).optional(),
  STALL_TIMEOUT_MS: positive.optional(),
  USDC_ADDRESS: z
    .string()
    .regex(/^0x[0-9a-fA-F]{40}$/, 'must be a contract address: 0x and 40 hex digits')
    .optional(),
  USDC_DOMAIN_NAME: z.string().default('USDC'),
  USDC_DOMAIN_VERSION: z.string().default('2'),
  MAX_FEE_GWEI: positive.default(500),
  ...limits,
  SWEEP_MIN: amounts,
})

const bitcoin = z.object({
  NETWORK: choice(bitcoinNetworks).default('testnet4'),
  ELECTRUM_URLS: electrumUrls,
  ELECTRUM_CA: z.string().optional(),
  RPC_URL: url('http', 'https').optional(),
  FINALITY: positive.optional(),
  START_HEIGHT: whole(0).optional(),
  STALL_TIMEOUT_MS: positive.optional(),
  MIN_FEE_RATE: positive.default(1),
  MAX_FEE_RATE: positive.default(200),
  ...limits,
})

/** Named for the chain, not for its code, as it is not one of the settings that each chain has. */
const bitcoinSource = z.object({BITCOIN_SOURCE: choice(['electrum', 'node']).default('electrum')})

interface CommonSettings {
  /** First block to index; absent: the one above the source's final block at the first start. */
  startHeight?: number
  stallTimeoutMs: number
  /** By token, in base units; what is absent has no limit, or is not done. */
  payoutLimit: Map<string, bigint>
  dailyLimit: Map<string, bigint>
  /** Addresses that hold at least this are swept without a payout. */
  collectAbove: Map<string, bigint>
}

export interface EvmSettings extends CommonSettings {
  family: 'evm'
  chain: EvmChain
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
}

export interface BitcoinSettings extends CommonSettings {
  family: 'bitcoin'
  chain: BitcoinChain
  network: BitcoinNetwork
  /** Where transactions are read from, and given to: Electrum servers, or a bitcoind. */
  source: 'electrum' | 'node'
  /** tcp:// or tls://; the first that answers rightly is used. Empty where none is named. */
  electrumUrls: string[]
  /** A file of certificates (PEM) that a tls:// server may have, besides those that every program trusts. */
  electrumCa?: string
  /** JSON-RPC of bitcoind, with user and password. */
  rpcUrl?: string
  /** A block is final when it and the blocks above it are so many. */
  confirmations: number
  /** No transaction of ours offers less, or more, in sat per virtual byte. */
  minFeeRate: number
  maxFeeRate: number
}

export type ChainSettings = EvmSettings | BitcoinSettings

/** Whether a chain has a source of its own, rather than a local chain. */
export function hasNode(settings: ChainSettings): boolean {
  if (settings.family === 'evm' || settings.source === 'node') return settings.rpcUrl !== undefined
  return settings.electrumUrls.length > 0
}

/** The settings of an EVM chain. Throws for one of another family. */
export function evmSettings(settings: ChainSettings | undefined): EvmSettings {
  if (settings?.family !== 'evm') throw new Error(`${settings?.chain.code} is no EVM chain`)
  return settings
}

/** The settings of a Bitcoin chain. Throws for one of another family. */
export function bitcoinSettings(settings: ChainSettings | undefined): BitcoinSettings {
  if (settings?.family !== 'bitcoin') throw new Error(`${settings?.chain.code} is no Bitcoin chain`)
  return settings
}

export interface Settings {
  home: string
  devnet: boolean
  databaseUrl?: string
  /** Of the API's role, on a replica that takes its reads. */
  databaseReplicaUrl?: string
  host: string
  port: number
  /** Where customers' browsers reach the API; absent: where it listens. */
  publicUrl?: string
  /** Where this process serves its metrics; npm start: the first of its processes. Absent: the API alone does, at /metrics of its port. */
  metricsPort?: number
  rateLimitPerMinute: number
  webhookAllowPrivate: boolean
  addressPoolSize: number
  custodyPassphrase?: string
  custodyPassphraseFile?: string
  /** How long deliveries of webhooks and their attempts are kept, at least; what is pending stays. */
  deliveryRetentionDays: number
  /** How long a payout waits for the whitelist, or for a refusal of custody to be lifted, before it fails. */
  payoutTimeoutMs: number
  /** How long a payment request waits for its money before it expires. */
  paymentExpiryMs: number
  /** How long a transaction may stay unmined before it is replaced by one with a higher fee. */
  replaceAfterMs: number
  chains: Map<ChainCode, ChainSettings>
}

type Environment = Record<string, string | undefined>

/** What may hold a password: also read from the file that the variable of this name with _FILE names. */
const readFromFiles = ['DATABASE_URL', 'DATABASE_REPLICA_URL', 'RPC_URL', 'ELECTRUM_URLS']

/** The names of all variables that have an effect. */
export function settingNames(): string[] {
  const ofChains = chains.flatMap(({code, assets, family}) =>
    variables(family === 'evm' ? evm : bitcoin)
      .filter(name => !name.startsWith('USDC_') || assets.some(({token}) => token === 'USDC'))
      .map(name => `${code}_${name}`),
  )
  return [...variables(general), ...variables(bitcoinSource), ...ofChains]
}

function variables({shape}: z.ZodObject): string[] {
  return Object.keys(shape).flatMap(name => (readFromFiles.includes(name) ? [name, `${name}_FILE`] : [name]))
}

/** Reads the file .env of the current directory, if there is one, into the environment. What is set already stays. */
export function loadEnvironmentFile(): void {
  if (existsSync('.env')) process.loadEnvFile('.env')
}

/** What a variable holds, or the file that is named for it; undefined where that is nothing. */
function readValue(environment: Environment, name: string, mayBeInFile: boolean, problems: string[]) {
  const value = environment[name] || undefined
  const file = mayBeInFile && environment[`${name}_FILE`]
  if (!file) return value
  try {
    const content = readFileSync(file, 'utf8').trim() || undefined
    if (content && value) problems.push(`  ${name}, ${name}_FILE: set one of them, not both`)
    return content ?? value
  } catch (error) {
    problems.push(`  ${name}_FILE: ${file} cannot be read (${(error as NodeJS.ErrnoException).code})`)
    return value
  }
}

/** Reads all settings. Throws a PermanentError that lists every variable that is wrong. */
export function readSettings(environment: Environment = process.env): Settings {
  const problems: string[] = []
  const read = <T extends z.ZodObject>(schema: T, prefix = ''): z.infer<T> => {
    const names = Object.keys(schema.shape)
    const values = names.map(name => readValue(environment, prefix + name, readFromFiles.includes(name), problems))
    const given = Object.fromEntries(names.map((name, index) => [name, values[index]]))
    const result = schema.safeParse(given)
    if (result.success) return result.data
    for (const {path, message} of result.error.issues) {
      const name = String(path[0])
      const file = readFromFiles.includes(name) && environment[`${prefix}${name}_FILE`]
      const was = file ? `_FILE (${file})` : /URLS?$/.test(name) ? '' : ` (it is ${JSON.stringify(given[name])})`
      problems.push(`  ${prefix}${name}${was}: ${message}`)
    }
    return given as z.infer<T> // not used: the problems are thrown below
  }

  const all = read(general)
  const {BITCOIN_SOURCE: source} = read(bitcoinSource)
  const byChain = chains.map(chain => {
    const prefix = `${chain.code}_`
    const given = chain.family === 'evm' ? read(evm, prefix) : read(bitcoin, prefix)
    for (const [name, text] of Object.entries(given)) {
      if (!['PAYOUT_LIMIT', 'DAILY_LIMIT', 'COLLECT_ABOVE', 'SWEEP_MIN'].includes(name)) continue
      for (const [token, amount] of tokenAmounts(text as string | undefined))
        if (baseUnits(chain, token, amount) === undefined)
          problems.push(`  ${prefix}${name}: ${token}:${amount} is no amount of a token of ${chain.code}`)
    }
    return {chain, given}
  })
  if (problems.length) throw new PermanentError(`settings that cannot be used:\n${problems.join('\n')}`)

  return {
    home: all.SLUICE_HOME,
    devnet: all.SLUICE_DEVNET === 'on',
    databaseUrl: all.DATABASE_URL,
    databaseReplicaUrl: all.DATABASE_REPLICA_URL,
    host: all.HOST,
    port: all.PORT,
    publicUrl: all.PUBLIC_URL,
    metricsPort: all.METRICS_PORT,
    rateLimitPerMinute: all.RATE_LIMIT_PER_MINUTE,
    webhookAllowPrivate: all.WEBHOOK_ALLOW_PRIVATE,
    addressPoolSize: all.ADDRESS_POOL_SIZE,
    custodyPassphrase: all.CUSTODY_PASSPHRASE,
    custodyPassphraseFile: all.CUSTODY_PASSPHRASE_FILE,
    deliveryRetentionDays: all.DELIVERY_RETENTION_DAYS,
    payoutTimeoutMs: all.PAYOUT_TIMEOUT_MS,
    paymentExpiryMs: all.PAYMENT_EXPIRY_MS,
    replaceAfterMs: all.REPLACE_AFTER_MS,
    chains: new Map(byChain.map(({chain, given}) => [chain.code, chainSettings(chain, given, source)])),
  }
}

function tokenAmounts(text?: string): [token: string, amount: string][] {
  if (!text) return []
  return text.split(',').map(part => part.split(':') as [string, string])
}

/** Whole coins in base units; undefined where the chain has no such token, or it has fewer decimals. */
function baseUnits(chain: Chain, token: string, amount: string): bigint | undefined {
  const decimals = chain.assets.find(asset => asset.token === token)?.decimals
  const [whole = '', fraction = ''] = amount.split('.')
  if (decimals === undefined || fraction.length > decimals) return
  return BigInt(whole + fraction.padEnd(decimals, '0'))
}

type Given = z.infer<typeof evm> | z.infer<typeof bitcoin>

function chainSettings(chain: Chain, given: Given, source: BitcoinSettings['source']): ChainSettings {
  return chain.family === 'evm'
    ? evmChain(chain, given as z.infer<typeof evm>)
    : bitcoinChain(chain, given as z.infer<typeof bitcoin>, source)
}

function common(chain: Chain, read: Given): CommonSettings {
  return {
    startHeight: read.START_HEIGHT,
    stallTimeoutMs: read.STALL_TIMEOUT_MS ?? chain.stallTimeoutMs,
    payoutLimit: inBaseUnits(chain, read.PAYOUT_LIMIT),
    dailyLimit: inBaseUnits(chain, read.DAILY_LIMIT),
    collectAbove: inBaseUnits(chain, read.COLLECT_ABOVE),
  }
}

function evmChain(chain: EvmChain, read: z.infer<typeof evm>): EvmSettings {
  const contracts = chain.assets.flatMap(asset => {
    const contract = (asset.token === 'USDC' && read.USDC_ADDRESS) || asset.contract
    return contract ? ([[contract.toLowerCase(), asset.token]] as const) : []
  })
  return {
    family: 'evm',
    chain,
    rpcUrl: read.RPC_URL,
    chainId: read.CHAIN_ID ?? chain.chainId,
    finality: read.FINALITY,
    traces: read.TRACES,
    tokens: new Map(contracts),
    usdcDomain: {name: read.USDC_DOMAIN_NAME, version: read.USDC_DOMAIN_VERSION},
    maxFeePerGas: BigInt(read.MAX_FEE_GWEI) * 10n ** 9n,
    sweepMin: inBaseUnits(chain, read.SWEEP_MIN ?? (chain.assets.some(({token}) => token === 'USDC') ? 'USDC:1' : '')),
    ...common(chain, read),
  }
}

function bitcoinChain(
  chain: BitcoinChain,
  read: z.infer<typeof bitcoin>,
  source: BitcoinSettings['source'],
): BitcoinSettings {
  return {
    family: 'bitcoin',
    chain,
    network: read.NETWORK,
    source,
    electrumUrls: read.ELECTRUM_URLS ?? [],
    electrumCa: read.ELECTRUM_CA,
    rpcUrl: read.RPC_URL,
    confirmations: read.FINALITY ?? chain.networks[read.NETWORK].confirmations,
    minFeeRate: read.MIN_FEE_RATE,
    maxFeeRate: read.MAX_FEE_RATE,
    ...common(chain, read),
  }
}

function inBaseUnits(chain: Chain, text?: string): Map<string, bigint> {
  return new Map(tokenAmounts(text).map(([token, amount]) => [token, baseUnits(chain, token, amount)!]))
}

/** The database that a process of the service was started with. Throws PermanentError where there is none. */
export function databaseUrlOf(settings: Settings): string {
  if (settings.databaseUrl) return settings.databaseUrl
  throw new PermanentError(
    'no database is named: set DATABASE_URL or DATABASE_URL_FILE (npm start does so for the processes that it starts, and migrates their database itself)',
  )
}
