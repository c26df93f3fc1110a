// What all commands share: how they are declared, find the service, talk to its database, and fail. Promises: the exit
// code is 0 when the command succeeded, 1 when it failed, 2 when the command line was wrong; an error says what
// happened, why, and what to do next.
import path from 'node:path'
import {createInterface} from 'node:readline/promises'
import {type Command, InvalidArgumentError} from 'commander'
import pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import {awaitService, readService, type Service} from '../base/home.ts'
import {anyOwnAddress, displayForm} from '../chains/address.ts'
import {type ChainSettings, hasNode} from '../chains/families.ts'
import {AddressError} from '../chains/family.ts'
import {type Asset, type ChainCode, chainCodes} from '../chains/registry.ts'
import {factsOf, readSettings, type Settings, settingsFrom} from '../chains/settings.ts'
import {fromDatabase, inWords} from '../db/client/failure.ts'
import {readTokens} from '../db/client/tokens.ts'
import {type Report, show} from './output.ts'

/** The command line is wrong: a value has not the form that it must have. The program ends with code 2. */
export class UsageError extends PermanentError {
  override name = 'UsageError'
}

/**
 * What commands know of the service. If its processes run elsewhere, such as in containers, pid and start time are not
 * known.
 */
type Facts = Omit<Service, 'pid' | 'started_at' | 'running'> & Partial<Service>

/** The running service, and a connection to its database as the owner. */
export interface Sluice {
  home: string
  service: Facts
  db: pg.Client
}

/** Declares a command with --json and an example in its help. */
export function leaf(parent: Command, name: string, about: string, example: string): Command {
  const text = about.replaceAll(/(?<=\S)\n(?=\S)/g, ' ') // joins the lines of a paragraph: the terminal wraps them itself
  return parent
    .command(name)
    .summary(text.split('\n', 1)[0]!)
    .description(text)
    .option('--json', 'print one line of JSON')
    .addHelpText('after', `\nExample:\n  ${example.replaceAll('\n', '\n  ')}`)
}

/**
 * What a command does: takes its options and its argument, and returns a report, unless the result is on standard
 * output already.
 */
type Work<Options> = (sluice: Sluice, options: Options, argument: string) => Promise<Report | undefined>

/** Wraps what a command does: finds the service, runs the command, shows its report. */
export function action<Options extends object>(work: Work<Options>): (...given: unknown[]) => Promise<void> {
  return async (...given) => {
    const options = given.at(-2) as Options & {json?: boolean}
    const argument = given.length > 2 ? String(given[0]) : ''
    const sluice = await findSluice()
    try {
      const report = await work(sluice, options, argument)
      if (report) show(report, options.json ?? false)
    } finally {
      await sluice.db.end()
    }
  }
}

/**
 * Asks on the terminal before a step that cannot be undone. Throws if the reply is not yes, or if there is no terminal.
 */
export async function confirm(what: string, yes: boolean): Promise<void> {
  if (yes) return
  if (!process.stdin.isTTY)
    throw new PermanentError(`${what}\nNothing was done: there is no terminal to ask on; give --yes`)
  const terminal = createInterface({input: process.stdin, output: process.stderr})
  const response = await terminal.question(`${what}\nDo it? (yes/no) `).finally(() => terminal.close())
  if (response.trim().toLowerCase() !== 'yes') throw new PermanentError('nothing was done')
}

async function findSluice(): Promise<Sluice> {
  const settings = readSettings()
  const home = path.resolve(settings.home)
  const service = await findService(home, settings)
  const db = new pg.Client({connectionString: service.database_url, application_name: 'sluice-cli'})
  db.on('error', () => {}) // the running query fails and reports it
  await fromDatabase(db.connect()).catch(cause => {
    const which = service.pid === undefined ? 'DATABASE_URL' : `the service of ${home}`
    throw new PermanentError(`${which}: ${inWords(cause)}`, {cause})
  })
  return {home, service, db}
}

/** The service of this directory. If none runs here: the service whose database and nodes the settings name. */
async function findService(home: string, settings: Settings): Promise<Facts> {
  const running = await awaitService(home)
  if (running) return running
  if (settings.databaseUrl) return apart(settings.databaseUrl, settings)
  const what = readService(home) ? `the service of ${home} was killed` : `no service runs in ${home}`
  throw new PermanentError(
    `${what}; start it with npm start, or set SLUICE_HOME to the directory of another service, or set DATABASE_URL to the URL of the database's owner`,
  )
}

function apart(databaseUrl: string, {host, port, publicUrl, chains, webhookAllowPrivate}: Settings): Facts {
  const followed = [...chains.values()].filter(hasNode)
  return {
    api_url: publicUrl ?? `http://${host}:${port}`,
    database_url: databaseUrl,
    webhook_allow_private: webhookAllowPrivate,
    chains: Object.fromEntries(followed.map(settings => [settings.chain.code, factsOf(settings)])),
  }
}

/** Settings of a chain. Its node, and how it is read, are as the service was started with them. */
export function settingsOf({chains}: Facts, code: ChainCode): ChainSettings {
  return settingsFrom(code, chains[code]?.settings)
}

/** The same, with the tokens that were added to the service: for paying and comparing, not for reading blocks. */
export async function settingsWithTokens({db, service}: Sluice, code: ChainCode): Promise<ChainSettings> {
  const settings = settingsOf(service, code)
  await readTokens(db, new Map([[code, settings]]))
  return settings
}

export function requireFollowed({chains}: Facts, code: ChainCode): void {
  if (!chains[code])
    throw new PermanentError(
      `the service does not follow ${code}; docs/operations.md says how to make it follow a chain`,
    )
}

// --- arguments ---

/** A list of chain codes, separated by commas. */
export function chainList(text: string): ChainCode[] {
  return [...new Set(text.split(',').map(chainCode))]
}

export function chainCode(text: string): ChainCode {
  const code = chainCodes.find(known => known === text.trim().toUpperCase())
  if (!code) throw new InvalidArgumentError(`chains are ${chainCodes.join(', ')}.`)
  return code
}

/** The chain's token with this code. Throws if there is none. */
export function requireAsset({chain: {code, assets}}: ChainSettings, token: string): Asset {
  const asset = assets.find(each => each.token === token.toUpperCase())
  if (asset) return asset
  throw new PermanentError(`${code} has no token ${token}; it has ${assets.map(each => each.token).join(', ')}`)
}

/**
 * An amount in whole coins, such as 1.5, converted to base units. Throws if it is no amount, or has more decimals than
 * the asset.
 */
export function baseUnits({token, decimals}: Asset, amount: string): bigint {
  const [, whole, fraction = ''] = amount.match(/^(\d{1,60})(?:\.(\d+))?$/) ?? []
  if (whole === undefined) throw new UsageError(`"${amount}" is not an amount; write it in whole coins, such as 1.5`)
  if (fraction.length > decimals)
    throw new UsageError(`${token} has ${decimals} decimals; ${amount} has ${fraction.length}`)
  const units = BigInt(whole + fraction.padEnd(decimals, '0'))
  if (units === 0n) throw new UsageError('the amount must be above zero')
  return units
}

/**
 * An address on the chain that is not the service's own, in its display form. Throws if it is not an address, or is the
 * service's own.
 */
export async function foreignAddress(
  {db, service}: Sluice,
  chain: ChainCode,
  text: string,
  {allowOffCurve = false} = {},
): Promise<string> {
  const address = await readAddress(db, service, chain, text, allowOffCurve)
  const {rowCount} = await db.query('select from custody.address where address = $1', [address])
  if (rowCount) throw new PermanentError(`${address} belongs to this service; give an address outside it`)
  return address
}

async function readAddress(
  db: pg.Client,
  service: Facts,
  chain: ChainCode,
  text: string,
  allowOffCurve: boolean,
): Promise<string> {
  const {rows} = await db.query<{address: string}>(anyOwnAddress, [chain])
  try {
    const settings = chainCodes.map(code => settingsOf(service, code))
    return await displayForm(settings, chain, text, rows[0]?.address, {allowOffCurve})
  } catch (error) {
    if (error instanceof AddressError) {
      const sure = error.code === 'off_curve' ? '. If it is meant, add --allow-off-curve' : ''
      throw new UsageError(`"${text}" cannot be used on ${chain}: it ${error.message}${sure}`)
    }
    throw error
  }
}

export function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('it must be a whole number, 0 or more.')
  return Number(text)
}

/** In sat/vB. */
export function feeRate(text: string): number {
  const rate = /^\d{1,6}(\.\d{1,3})?$/.test(text) ? Number(text) : 0
  if (!rate) throw new InvalidArgumentError('it must be a number above zero, in sat/vB, such as 12 or 2.5.')
  return rate
}

/** In the form that block explorers show. */
export function transactionId(text: string): string {
  if (!/^[0-9a-f]{64}$/i.test(text))
    throw new InvalidArgumentError('it must be the id of a transaction: 64 hex digits.')
  return text.toLowerCase()
}

export function time(text: string): Date {
  const at = new Date(text)
  const day = /^\d{4}-\d{2}-\d{2}/.exec(text)?.[0]
  if (Number.isNaN(at.getTime()) || (day && !isDay(day)))
    throw new InvalidArgumentError('it must be a time, such as 2026-11-20T10:00:00Z.')
  return at
}

/**
 * Whether the text is a day that exists, such as 2026-11-20: a Date takes the 31st of a shorter month for a day of the
 * next one.
 */
export function isDay(text: string): boolean {
  const at = new Date(`${text}T00:00Z`)
  return !Number.isNaN(at.getTime()) && at.toISOString().startsWith(text)
}

/** The UUID in a public id of this kind; undefined if the text is not such an id. */
export function parseId(kind: string, text: string): string | undefined {
  return text.match(new RegExp(`^${kind}_([0-9a-f]{32})$`))?.[1]
}

/** The UUID in a public id of this kind. Throws if the text is not such an id. */
export function requireId(kind: string, what: string, text: string): string {
  const id = parseId(kind, text)
  if (!id) throw new PermanentError(`"${text}" is not the id of a ${what} (${kind}_ and 32 hex digits)`)
  return id
}
