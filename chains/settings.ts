// Every setting, read from the environment and checked once, at the start of a process. Promises: whatever a variable holds is a setting, or
// an error that names the variable, what it was (unless it may hold a secret), what it may be, and an example; .env.example lists exactly
// these variables (a test compares them); a setting that may hold a password can be given by a file, whose name is then in the variable of
// the same name with _FILE; main networks, whose coins are worth money, are refused unless SLUICE_MAINNET says otherwise.
import {existsSync, readFileSync} from 'node:fs'
import path from 'node:path'
import {z} from 'zod'
import {PermanentError} from '../base/errors.ts'
import {logLevels} from '../base/log.ts'
import {
  type Asset,
  type BitcoinChain,
  type BitcoinNetwork,
  bitcoinNetworks,
  type Chain,
  type ChainCode,
  chains,
  type EvmChain,
  isMainNetwork,
} from './registry.ts'

/** The processes of npm start serve metrics at METRICS_PORT and at most so many ports above it: there the supervisor does, and one below the API. */
export const metricsPorts = 20

/** Ten years: who writes something longer means something else. */
const LONGEST_MS = 315_360_000_000
/** Heights are integers of Postgres. */
const HIGHEST = 2 ** 31 - 1

const flag = choice(['0', '1']).transform(value => value === '1')

/** A whole number, written in decimal digits. */
function whole(min: number, max: number, example: number) {
  return z
    .string()
    .refine(
      text => /^\d{1,16}$/.test(text) && Number(text) >= min && Number(text) <= max,
      `must be a whole number, from ${min} to ${max}, such as ${example}`,
    )
    .transform(Number)
}

const milliseconds = (min: number, example: number) => whole(min, LONGEST_MS, example)

function choice<const T extends readonly string[]>(values: T) {
  return z.enum(values, {error: `must be one of ${values.join(', ')}`})
}

function url(example: string, ...schemes: string[]) {
  const protocol = new RegExp(`^(${schemes.join('|')})$`)
  const starts = schemes.map(scheme => `${scheme}://`).join(' or ')
  return z.url({protocol, error: `must be a URL that starts with ${starts}, such as ${example}`})
}

const exampleDatabase = 'postgres://owner:password@host:5432/sluice'
const databaseUrl = url(exampleDatabase, 'postgres', 'postgresql').refine(
  text => /^\w+:\/\//.test(text) && isDecodable(text),
  `must have // behind its scheme, and %25 for each % in its password, such as ${exampleDatabase}`,
)

function isDecodable(text: string): boolean {
  try {
    return decodeURIComponent(text) !== undefined
  } catch {
    return false
  }
}

/** Where a browser finds something, without a slash at its end. */
const webAddress = url('https://pay.example', 'http', 'https')
  .refine(text => !/[?#@]/.test(text), 'must have no user, query or fragment, such as https://pay.example')
  .transform(text => new URL(text).href.replace(/\/+$/, '')) // "https:pay.example/a b" is none that can be clicked in a text

function plainText(what: string, maxLength: number, example: string) {
  return z
    .string()
    .regex(/^\P{Cc}*$/u, `must be ${what}, in one line, such as ${example}`)
    .max(maxLength, `must be ${what}, of at most ${maxLength} characters, such as ${example}`)
}

const fileName = (example: string) => plainText('the name of a file', 4096, example)

/** Amounts in whole coins, such as ETH:5,USDC:10000, as base units by token. */
function amounts(chain: Chain) {
  const known = chain.assets.map(({token}) => token)
  const example = known.map(token => `${token}:${token === 'USDC' ? '10000' : '0.5'}`).join(',')
  return z.string().transform((text, context) => {
    const found = readAmounts(chain, text)
    if (found) return found
    context.addIssue(
      `must be amounts in whole coins, each once, of what ${chain.code} has (${known.join(', ')}), such as ${example}`,
    )
    return z.NEVER
  })
}

/** Undefined where a part is no amount, or of no token of the chain, or has more decimals than the token, or a token comes twice. */
function readAmounts(chain: Chain, text: string): Map<string, bigint> | undefined {
  const found = new Map<string, bigint>()
  for (const part of text.split(',')) {
    const [, token = '', coins = '', fraction = ''] = /^([A-Z]+):(\d{1,30})(?:\.(\d+))?$/.exec(part) ?? []
    const decimals = chain.assets.find(asset => asset.token === token)?.decimals
    if (decimals === undefined || fraction.length > decimals || found.has(token)) return undefined
    found.set(token, BigInt(coins + fraction.padEnd(decimals, '0')))
  }
  return found
}

/** An amount of the native coin, in whole coins, such as 0.5, as base units. */
function coins(chain: Chain, usual: string) {
  const {token, decimals} = chain.assets[0]
  const read = (text: string) => readAmounts(chain, `${token}:${text}`)?.get(token)
  return z
    .string()
    .default(usual)
    .transform((text, context) => {
      const found = read(text)
      if (found !== undefined) return found
      context.addIssue(
        `must be an amount of ${token} in whole coins, with at most ${decimals} decimals, such as ${usual}`,
      )
      return z.NEVER
    })
}

const general = z.object({
  SLUICE_HOME: plainText('the name of a directory', 4096, '.sluice').default('.sluice'),
  SLUICE_DEVNET: choice(['on', 'off']).default('on'),
  SLUICE_MAINNET: z.literal('by-arrangement', {error: 'must be by-arrangement, or not set'}).optional(),
  DATABASE_URL: databaseUrl.optional(),
  DATABASE_REPLICA_URL: databaseUrl.optional(),
  HOST: z
    .string()
    .regex(/^[\w.:%-]{1,255}$/, 'must be an address, or the name of this machine, such as 127.0.0.1')
    .default('127.0.0.1'),
  PORT: whole(0, 65_535, 8080).default(8080),
  PUBLIC_URL: webAddress.optional(),
  METRICS_PORT: whole(1, 65_535 - metricsPorts, 9464).optional(),
  METRICS_ON_API_PORT: flag.default(false),
  RATE_LIMIT_PER_MINUTE: whole(1, 10_000_000, 600).default(600),
  WEBHOOK_ALLOW_PRIVATE: flag.default(false),
  ADDRESS_POOL_SIZE: whole(1, 1_000_000, 200).default(200),
  CUSTODY_PASSPHRASE: z
    .string()
    .min(8, 'must have at least 8 characters, such as six words that nobody guesses')
    .optional(),
  CUSTODY_PASSPHRASE_FILE: fileName('/run/secrets/custody_passphrase').optional(),
  DELIVERY_RETENTION_DAYS: whole(7, 3650, 90).default(90),
  PAYOUT_TIMEOUT_MS: milliseconds(1, 86_400_000).default(86_400_000),
  PAYMENT_EXPIRY_MS: milliseconds(1_000, 86_400_000).default(86_400_000),
  REPLACE_AFTER_MS: milliseconds(1, 120_000).default(120_000),
  LOG_LEVEL: choice(logLevels).default('info'),
})

/** Servers of the Electrum protocol, such as tls://electrum.example:50002. */
const electrumUrls = z
  .string()
  .transform(text => text.split(',').map(part => part.trim()))
  .refine(
    urls => urls.every(isElectrumUrl),
    'must be tcp://host:port or tls://host:port, several with commas between, such as tls://electrum.example:50002',
  )
  .optional()

function isElectrumUrl(text: string): boolean {
  return /^(tcp|tls):\/\/[^/\s]+:\d{1,5}$/.test(text) && URL.canParse(text)
}

/** What every chain has. */
function common(chain: Chain) {
  return {
    START_HEIGHT: whole(0, HIGHEST, 8_000_000).optional(),
    STALL_TIMEOUT_MS: milliseconds(1, chain.stallTimeoutMs).default(chain.stallTimeoutMs),
    PAYOUT_LIMIT: amounts(chain).default(() => new Map()),
    DAILY_LIMIT: amounts(chain).default(() => new Map()),
    COLLECT_ABOVE: amounts(chain).default(() => new Map()),
    MIN_PAYOUT: amounts(chain).default(() => new Map()),
    FEE_BUDGET: coins(chain, chain.feeBudget),
    SWEEP_FEE_PERCENT: whole(1, 100, 50).default(50),
  }
}

function evm(chain: EvmChain, mainnet: boolean) {
  return z.object({
    RPC_URL: url('https://node.example', 'http', 'https', 'ws', 'wss').optional(),
    CHAIN_ID: whole(1, Number.MAX_SAFE_INTEGER, chain.chainId)
      .refine(
        id => mainnet || !isMainNetwork(`eip155:${id}`),
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
    ...common(chain),
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

function bitcoin(chain: BitcoinChain) {
  return z.object({
    NETWORK: choice(bitcoinNetworks).default('testnet4'),
    ELECTRUM_URLS: electrumUrls,
    ELECTRUM_CA: fileName('/etc/ssl/electrum.pem').optional(),
    RPC_URL: url('http://user:password@node.example:8332', 'http', 'https').optional(),
    FINALITY: whole(1, 999_999, 6).optional(),
    MIN_FEE_RATE: whole(1, 1_000_000, 1).default(1),
    MAX_FEE_RATE: whole(1, 1_000_000, 200).default(200),
    ...common(chain),
  })
}

/** Named for the chain, not for its code, as it is not one of the settings that each chain has. */
const bitcoinSource = z.object({BITCOIN_SOURCE: choice(['electrum', 'node']).default('electrum')})

interface CommonSettings {
  /** First block to read, at the first start; absent: as indexers/start.ts finds it. */
  startHeight?: number
  stallTimeoutMs: number
  /** By token, in base units; what is absent has no limit, or is not done. */
  payoutLimit: Map<string, bigint>
  dailyLimit: Map<string, bigint>
  /** Addresses that hold at least this are swept without a payout. */
  collectAbove: Map<string, bigint>
  /** The smallest net amount of a payout of each asset. */
  minPayout: Map<string, bigint>
  /** What the fees of all that custody signs in a day (UTC) may come to, in the native coin's base units. */
  feeBudget: bigint
  /** What a sweep of the native coin may cost, in percent of what it moves. */
  sweepFeePercent: number
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
  /** The most that a sweep of a token may cost, in wei. */
  tokenSweepFee: bigint
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
  /** Main networks are allowed. */
  mainnet: boolean
  databaseUrl?: string
  /** Of the API's role, on a replica that takes its reads. */
  databaseReplicaUrl?: string
  host: string
  port: number
  /** Where customers' browsers reach the API; absent: where it listens. */
  publicUrl?: string
  /** Where this process serves its metrics; npm start: the first of its processes. Absent: nowhere. */
  metricsPort?: number
  /** The API serves its metrics at /metrics of its own port, too, to whoever reaches it. */
  metricsOnApiPort: boolean
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
/** What is never shown, wrong or not. */
const secret = [...readFromFiles, 'PUBLIC_URL', 'CUSTODY_PASSPHRASE', 'CUSTODY_PASSPHRASE_FILE']

/** The names of all variables that have an effect. */
export function settingNames(): string[] {
  const ofChains = chains.flatMap(chain =>
    variables(chain.family === 'evm' ? evm(chain, false) : bitcoin(chain))
      .filter(name => !name.startsWith('USDC_') || chain.assets.some(({token}) => token === 'USDC'))
      .filter(name => name !== 'TOKEN_SWEEP_FEE' || chain.assets.length > 1)
      .map(name => `${chain.code}_${name}`),
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
    const {code} = error as NodeJS.ErrnoException
    const why = `the file cannot be read (${code}); it must hold the value, such as ${name}_FILE=/run/secrets/${name.toLowerCase()}`
    problems.push(`  ${name}_FILE${shownFile(file)}: ${why}`)
    return value
  }
}

/** Names a file in an error, in brackets, unless it may be the secret itself, put where the name of its file belongs. */
export function shownFile(file: string): string {
  const folder = path.dirname(path.resolve(file))
  const isName = existsSync(file) || (path.isAbsolute(file) && folder !== '/' && existsSync(folder))
  return isName ? ` (${file})` : ''
}

const LONGEST_SHOWN = 100

function shownValue(value: string): string {
  return ` (it is ${JSON.stringify(value.length > LONGEST_SHOWN ? `${value.slice(0, LONGEST_SHOWN)}…` : value)})`
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
      const was = file ? `_FILE${shownFile(file)}` : secret.includes(name) ? '' : shownValue(given[name] ?? '')
      problems.push(`  ${prefix}${name}${was}: ${message}`)
    }
    return given as z.infer<T> // not used: the problems are thrown below
  }

  const all = read(general)
  const mainnet = all.SLUICE_MAINNET !== undefined
  const {BITCOIN_SOURCE: source} = read(bitcoinSource)
  const ofChains = chains.map(chain => {
    const prefix = `${chain.code}_`
    if (chain.family === 'evm') {
      const given = read(evm(chain, mainnet), prefix)
      return () => evmChain(chain, given)
    }
    const given = read(bitcoin(chain), prefix)
    return () => bitcoinChain(chain, given, source)
  })
  if (problems.length) throw new PermanentError(`settings that cannot be used:\n${problems.join('\n')}`)

  return {
    home: all.SLUICE_HOME,
    devnet: all.SLUICE_DEVNET === 'on',
    mainnet,
    databaseUrl: all.DATABASE_URL,
    databaseReplicaUrl: all.DATABASE_REPLICA_URL,
    host: all.HOST,
    port: all.PORT,
    publicUrl: all.PUBLIC_URL,
    metricsPort: all.METRICS_PORT,
    metricsOnApiPort: all.METRICS_ON_API_PORT,
    rateLimitPerMinute: all.RATE_LIMIT_PER_MINUTE,
    webhookAllowPrivate: all.WEBHOOK_ALLOW_PRIVATE,
    addressPoolSize: all.ADDRESS_POOL_SIZE,
    custodyPassphrase: all.CUSTODY_PASSPHRASE,
    custodyPassphraseFile: all.CUSTODY_PASSPHRASE_FILE,
    deliveryRetentionDays: all.DELIVERY_RETENTION_DAYS,
    payoutTimeoutMs: all.PAYOUT_TIMEOUT_MS,
    paymentExpiryMs: all.PAYMENT_EXPIRY_MS,
    replaceAfterMs: all.REPLACE_AFTER_MS,
    chains: new Map(ofChains.map(settings => settings()).map(settings => [settings.chain.code, settings])),
  }
}

type Given<Schema extends (...given: never[]) => z.ZodType> = z.infer<ReturnType<Schema>>

function commonSettings(chain: Chain, given: Given<typeof evm> | Given<typeof bitcoin>): CommonSettings {
  return {
    startHeight: given.START_HEIGHT,
    stallTimeoutMs: given.STALL_TIMEOUT_MS,
    payoutLimit: given.PAYOUT_LIMIT,
    dailyLimit: given.DAILY_LIMIT,
    collectAbove: given.COLLECT_ABOVE,
    minPayout: new Map(chain.assets.map(asset => [asset.token, minPayoutOf(asset, given.MIN_PAYOUT)])),
    feeBudget: given.FEE_BUDGET,
    sweepFeePercent: given.SWEEP_FEE_PERCENT,
  }
}

/** Never less than the chain carries. */
function minPayoutOf({token, minPayout = 1n, usualMinPayout}: Asset, given: Map<string, bigint>): bigint {
  const wanted = given.get(token) ?? usualMinPayout
  return wanted < minPayout ? minPayout : wanted
}

function evmChain(chain: EvmChain, given: Given<typeof evm>): EvmSettings {
  const contracts = chain.assets.flatMap(asset => {
    const contract = (asset.token === 'USDC' && given.USDC_ADDRESS) || asset.contract
    return contract ? ([[contract.toLowerCase(), asset.token]] as const) : []
  })
  return {
    family: 'evm',
    chain,
    rpcUrl: given.RPC_URL,
    chainId: given.CHAIN_ID,
    finality: given.FINALITY,
    traces: given.TRACES,
    tokens: new Map(contracts),
    usdcDomain: {name: given.USDC_DOMAIN_NAME, version: given.USDC_DOMAIN_VERSION},
    maxFeePerGas: BigInt(given.MAX_FEE_GWEI) * 10n ** 9n,
    sweepMin: given.SWEEP_MIN,
    tokenSweepFee: given.TOKEN_SWEEP_FEE,
    ...commonSettings(chain, given),
  }
}

function bitcoinChain(
  chain: BitcoinChain,
  given: Given<typeof bitcoin>,
  source: BitcoinSettings['source'],
): BitcoinSettings {
  return {
    family: 'bitcoin',
    chain,
    network: given.NETWORK,
    source,
    electrumUrls: given.ELECTRUM_URLS ?? [],
    electrumCa: given.ELECTRUM_CA,
    rpcUrl: given.RPC_URL,
    confirmations: given.FINALITY ?? chain.networks[given.NETWORK].confirmations,
    minFeeRate: given.MIN_FEE_RATE,
    maxFeeRate: given.MAX_FEE_RATE,
    ...commonSettings(chain, given),
  }
}

/** The database that a process of the service was started with. Throws PermanentError where there is none. */
export function databaseUrlOf(settings: Settings): string {
  if (settings.databaseUrl) return settings.databaseUrl
  throw new PermanentError(
    'no database is named: set DATABASE_URL or DATABASE_URL_FILE (npm start does so for the processes that it starts, and migrates their database itself)',
  )
}
