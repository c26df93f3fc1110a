// Every setting, read from the environment and checked once, at the start of a process: the settings of the service,
// and those of each chain, which its family reads. Promises: all wrong variables are reported at once, as in
// base/variables.ts. .env.example lists exactly these variables (a test compares them). Main networks, whose coins are
// worth money, are refused unless SLUICE_MAINNET allows them.
import {existsSync, readFileSync, statSync} from 'node:fs'
import path from 'node:path'
import ipaddr from 'ipaddr.js'
import {z} from 'zod'
import {PermanentError} from '../base/errors.ts'
import type {ChainFacts} from '../base/home.ts'
import {logLevels} from '../base/log.ts'
import {
  choice,
  type Environment,
  fileName,
  flag,
  milliseconds,
  plainText,
  url,
  variables,
  whole,
} from '../base/variables.ts'
import {type ChainSettings, familyOf} from './families.ts'
import {unknownInWords, unknownVariables, wrongLines} from './misspelt.ts'
import {type ChainCode, chain, chainCodes, chains} from './registry.ts'

/**
 * npm start serves metrics at METRICS_PORT and up to this many ports above it: the supervisor at the highest, the API
 * one below.
 */
export const metricsPorts = 20

const exampleDatabase = 'postgres://owner:password@host:5432/sluice'
const databaseUrl = url(exampleDatabase, 'postgres', 'postgresql').refine(
  text => /^\w+:\/\//.test(text) && isDecodable(text),
  `must have // behind its scheme, and %25 for each % in its password, such as ${exampleDatabase}`,
)

/** Whether a directory has this name, or can get it: what is there already, of it or above it, is a directory. */
function isNoFile(name: string): boolean {
  try {
    return statSync(name).isDirectory()
  } catch (error) {
    const {code = ''} = error as NodeJS.ErrnoException
    return ['ENOENT', 'ENOTDIR'].includes(code) ? isNoFile(path.dirname(path.resolve(name))) : true
  }
}

function isDecodable(text: string): boolean {
  try {
    return decodeURIComponent(text) !== undefined
  } catch {
    return false
  }
}

/** A URL for browsers, without a slash at its end. */
const webAddress = url('https://pay.example', 'http', 'https')
  .refine(text => !/[?#@]/.test(text), 'must have no user, query or fragment, such as https://pay.example')
  .transform(text => new URL(text).href.replace(/\/+$/, '')) // "https:pay.example/a b" would not be clickable in a text

/** Browsers take passkeys and cookies of a page only if it came by TLS, or from this machine. */
const dashboardAddress = webAddress
  .refine(text => new URL(text).pathname === '/', 'must have no path, such as https://dashboard.example')
  .refine(
    text => text.startsWith('https:') || isLoopback(new URL(text).hostname),
    'must start with https://, such as https://dashboard.example, unless it is on this machine (http://localhost:8088)',
  )

function isLoopback(host: string): boolean {
  return host === 'localhost' || /^\[?::1\]?$/.test(host) || /^127(\.\d+){3}$/.test(host)
}

const addressesOrNetworks = z
  .string()
  .transform(text => text.split(',').map(item => item.trim()))
  .refine(
    items => items.every(item => ipaddr.isValid(item) || ipaddr.isValidCIDR(item)),
    'must be an IP address or a network, such as 10.0.0.5 or 10.0.0.0/8; several with commas between them',
  )

/** The chains that get a local chain while they have no node. */
const localChains = z
  .string()
  .transform(text => (text === 'on' ? [...chainCodes] : text === 'off' ? [] : text.split(',').map(code => code.trim())))
  .refine(
    (codes): codes is ChainCode[] => codes.every(code => chainCodes.some(known => known === code)),
    `must be on, off, or the chains that run on local ones, such as ETH,BTC (of ${chainCodes.join(', ')})`,
  )

const schema = z.object({
  SLUICE_HOME: plainText('the name of a directory', 4096, '.sluice')
    .refine(isNoFile, 'must be the name of a directory, and a file has this name, or one above it; such as .sluice')
    .default('.sluice'),
  SLUICE_DEVNET: localChains.default([...chainCodes]),
  INDEXERS: choice(['together', 'apart']).default('together'),
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
  DOCS_TRY: flag.default(false),
  DASHBOARD_PORT: whole(0, 65_535, 8088).default(8088),
  DASHBOARD_URL: dashboardAddress.optional(),
  DASHBOARD_SECRET: z
    .string()
    .min(32, 'must have at least 32 characters, such as those of openssl rand -hex 32')
    .optional(),
  DASHBOARD_PROXY: addressesOrNetworks.default([]),
  RATE_LIMIT_PER_MINUTE: whole(1, 10_000_000, 600).default(600),
  WEBHOOK_ALLOW_PRIVATE: flag.default(false),
  ADDRESS_POOL_SIZE: whole(1, 1_000_000, 200).default(200),
  CUSTODY_PASSPHRASE: z.string().min(8, 'must have at least 8 characters, such as six random words').optional(),
  CUSTODY_PASSPHRASE_FILE: fileName('/run/secrets/custody_passphrase').optional(),
  CUSTODY_PASSPHRASE_COMMAND: z
    .string()
    .regex(
      /^\/[^\0\n\r]{1,4096}$/,
      'must be the whole path of a program, and its arguments, such as /usr/bin/pass show sluice/custody',
    )
    .optional(),
  DELIVERY_RETENTION_DAYS: whole(7, 3650, 90).default(90),
  PAYOUT_TIMEOUT_MS: milliseconds(1, 259_200_000).default(259_200_000),
  PAYMENT_EXPIRY_MS: milliseconds(1_000, 86_400_000).default(86_400_000),
  PAYMENT_LATE_AFTER_MS: milliseconds(0, 7_200_000).default(7_200_000),
  REPLACE_AFTER_MS: milliseconds(1, 120_000).default(120_000),
  LOG_LEVEL: choice(logLevels).default('info'),
})

/** By the processes that read them; npm start reads those of the whole service. */
export interface Settings {
  // every process
  home: string
  /** These run on local chains while they have no node. */
  localChains: readonly ChainCode[]
  /** Whether the indexers of quiet chains share a process. */
  indexers: 'together' | 'apart'
  /** Main networks are allowed. */
  mainnet: boolean
  databaseUrl?: string
  host: string
  /** The port of this process's metrics; for npm start: of its first process. Absent: no metrics are served. */
  metricsPort?: number
  chains: Map<ChainCode, ChainSettings>

  // api
  port: number
  /** The URL at which customers' browsers reach the API; absent: its own address. dashboard-pages shows it, too. */
  publicUrl?: string
  /** A replica that serves the API's reads; connected with the API's role. */
  databaseReplicaUrl?: string
  /** The API also serves its metrics at /metrics of its own port, to everybody who reaches that port. */
  metricsOnApiPort: boolean
  docsTry: boolean
  rateLimitPerMinute: number
  /** How long a payment request waits to be paid before it expires. */
  paymentExpiryMs: number
  /** What was seen in time, and is in no block so long after the expiry, is late. */
  paymentLateAfterMs: number

  // api and dashboard-pages, which take endpoints of webhooks, and jobs, which call them
  webhookAllowPrivate: boolean

  // dashboard-auth
  dashboardPort: number
  /**
   * The URL at which browsers reach the dashboard, without a path; absent: http://localhost and its port
   * (dashboardUrlOf).
   */
  dashboardUrl?: string
  /** Signs the dashboard's cookies, and encrypts the secrets of authenticators. */
  dashboardSecret?: string
  /** Reverse proxies before the dashboard, whose X-Forwarded-For is believed. */
  dashboardProxies: string[]

  // custody
  addressPoolSize: number
  custodyPassphrase?: string
  custodyPassphraseFile?: string
  /** The path of a program that prints it, and its arguments, with spaces between. */
  custodyPassphraseCommand?: string

  // jobs
  /** The least time for which deliveries of webhooks and their attempts are stored; pending ones stay longer. */
  deliveryRetentionDays: number
  /**
   * How long a payout may wait before its payment begins, whatever for, without halts of its chain; then it fails.
   * dashboard-pages says so.
   */
  payoutTimeoutMs: number
  /** How long a transaction may stay unconfirmed before it is replaced by one with a higher fee. */
  replaceAfterMs: number
}

const general = variables({
  schema,
  make: given => given,
  inFiles: ['DATABASE_URL', 'DATABASE_REPLICA_URL', 'DASHBOARD_SECRET'],
  secret: [
    'PUBLIC_URL',
    'DASHBOARD_URL',
    'CUSTODY_PASSPHRASE',
    'CUSTODY_PASSPHRASE_FILE',
    'CUSTODY_PASSPHRASE_COMMAND',
  ],
})

/** The names of all variables that have an effect. */
export function settingNames(): string[] {
  return [...general.names, ...chains.flatMap(chain => familyOf(chain).variables(chain, false).names)]
}

/**
 * Reads the file .env of the current directory, if there is one, into the environment. What is set already stays.
 * Throws if a line has no effect.
 */
export function loadEnvironmentFile(folder = '.'): void {
  const file = path.join(folder, '.env')
  if (!existsSync(file)) return
  const wrong = wrongLines(readFileSync(file, 'utf8'), [...settingNames(), ...Object.keys(newNames)])
  if (wrong.length) throw new PermanentError(`the file .env has lines without effect:\n${wrong.join('\n')}`)
  process.loadEnvFile(file)
}

/** The variables that begin like settings and are none, in words; undefined if there are none. */
export function unknownSettings(environment: Environment = process.env): string | undefined {
  const known = [...settingNames(), ...Object.keys(newNames)]
  const unknown = unknownVariables(environment, known, chainCodes)
  return unknown.map(name => unknownInWords(name, known)).join(', ') || undefined
}

/** Variables that have a new name. One that is still set would have no effect, so the start refuses it. */
const newNames = {BITCOIN_SOURCE: 'BTC_SOURCE'}

function renamed(environment: Environment): string[] {
  return Object.entries(newNames)
    .filter(([old]) => environment[old])
    .map(([old, name]) => `  ${old}: is called ${name} now; set ${name} instead, and remove ${old}`)
}

/** Reads all settings. Throws a PermanentError that lists every variable that is wrong. */
export function readSettings(environment: Environment = process.env): Settings {
  const problems: string[] = []
  const all = general.read(environment, problems)
  const mainnet = Boolean(environment.SLUICE_MAINNET)
  const ofChains = chains.flatMap(chain => familyOf(chain).variables(chain, mainnet).read(environment, problems) ?? [])
  problems.push(...sharedNames(ofChains), ...renamed(environment))
  if (!all || problems.length) throw refusal(problems)
  return {
    home: all.SLUICE_HOME,
    localChains: all.SLUICE_DEVNET,
    indexers: all.INDEXERS,
    mainnet,
    databaseUrl: all.DATABASE_URL,
    databaseReplicaUrl: all.DATABASE_REPLICA_URL,
    host: all.HOST,
    port: all.PORT,
    publicUrl: all.PUBLIC_URL,
    metricsPort: all.METRICS_PORT,
    metricsOnApiPort: all.METRICS_ON_API_PORT,
    docsTry: all.DOCS_TRY,
    dashboardPort: all.DASHBOARD_PORT,
    dashboardUrl: all.DASHBOARD_URL,
    dashboardSecret: all.DASHBOARD_SECRET,
    dashboardProxies: all.DASHBOARD_PROXY,
    rateLimitPerMinute: all.RATE_LIMIT_PER_MINUTE,
    webhookAllowPrivate: all.WEBHOOK_ALLOW_PRIVATE,
    addressPoolSize: all.ADDRESS_POOL_SIZE,
    custodyPassphrase: all.CUSTODY_PASSPHRASE,
    custodyPassphraseFile: all.CUSTODY_PASSPHRASE_FILE,
    custodyPassphraseCommand: all.CUSTODY_PASSPHRASE_COMMAND,
    deliveryRetentionDays: all.DELIVERY_RETENTION_DAYS,
    payoutTimeoutMs: all.PAYOUT_TIMEOUT_MS,
    paymentExpiryMs: all.PAYMENT_EXPIRY_MS,
    paymentLateAfterMs: all.PAYMENT_LATE_AFTER_MS,
    replaceAfterMs: all.REPLACE_AFTER_MS,
    chains: new Map(ofChains.map(settings => [settings.chain.code, settings])),
  }
}

/** A problem for each asset whose name another one has. Payment requests name only the asset, not the chain. */
function sharedNames(ofChains: ChainSettings[]): string[] {
  const seen = new Set<string>()
  return ofChains.flatMap(({chain: {code, assets}}) =>
    assets
      .filter(({name}) => seen.size === seen.add(name).size)
      .map(
        ({name, token}) =>
          `  ${code}_TOKENS: the name of ${token} must be one that no other asset has, such as ${code}-${token}; ${name} is taken`,
      ),
  )
}

function refusal(problems: string[]): PermanentError {
  return new PermanentError(`these settings are wrong:\n${problems.join('\n')}`)
}

/** The facts about a chain with these settings that another process needs. */
export function factsOf(settings: ChainSettings): ChainFacts {
  const family = familyOf(settings)
  const reading = family.reading(settings)
  const known = settingNames()
  const files = Object.keys(reading).map(name => `${name}_FILE`)
  const unset = files.filter(name => known.includes(name)).map(name => [name, ''])
  return {
    rpc_url: family.endpoint(settings) ?? '',
    local: false,
    settings: {...reading, ...Object.fromEntries(unset)},
  }
}

/**
 * The settings of a chain that another process reads, from that process's facts (factsOf); the rest comes from the
 * environment.
 */
export function settingsFrom(code: ChainCode, facts: ChainFacts['settings'] = {}): ChainSettings {
  const known = chain(code)
  const problems: string[] = []
  const settings = familyOf(known)
    .variables(known, true) // the other process has already checked that
    .read({...process.env, ...facts}, problems)
  if (!settings || problems.length) throw refusal(problems)
  return settings
}

/** The database that a process of the service was started with. Throws PermanentError if there is none. */
export function databaseUrlOf(settings: Settings): string {
  if (settings.databaseUrl) return settings.databaseUrl
  throw new PermanentError(
    'there is no database: set DATABASE_URL or DATABASE_URL_FILE (npm start sets it for the processes that it starts, and migrates their database)',
  )
}

/** The dashboard's URL, when it listens at this port. Throws PermanentError if it has to be set. */
export function dashboardUrlOf({dashboardUrl, dashboardPort, host}: Settings, port = dashboardPort): string {
  if (dashboardUrl) return dashboardUrl
  // Not the address: a passkey belongs to a name.
  if (isLoopback(host)) return `http://localhost:${port}`
  throw new PermanentError(
    `DASHBOARD_URL must be set where HOST (${host}) is not of this machine: passkeys and cookies belong to that URL, such as https://dashboard.example; or leave the dashboard out (npm start -- --without dashboard-auth,dashboard-pages)`,
  )
}
