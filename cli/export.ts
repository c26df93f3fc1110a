// sluice export: writes a view of analytics as CSV, for programs or for spreadsheets, or as Parquet. Promises: rows are
// streamed, so memory use does not grow with their number; a file is written as a whole or not at all; amounts are
// exact and times in UTC; the rows are what the role sluice_analyst may read, at one moment.
import {createWriteStream} from 'node:fs'
import {rename, rm, stat} from 'node:fs/promises'
import path from 'node:path'
import type {Writable} from 'node:stream'
import {type Command, InvalidArgumentError, Option} from 'commander'
import pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import {onInterrupt} from '../base/interrupt.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import {action, isDay, leaf} from './command.ts'
import {type CsvStyle, copyAsCsv, csvColumns} from './csv.ts'
import type {Report} from './output.ts'
import {type Column, copyAsParquet, parquetColumns} from './parquet.ts'
import {Progress, type ProgressOptions} from './progress.ts'

/** The views, each with the column that --from and --to filter by; null for a view of the present only. */
export const views: Record<string, string | null> = {
  address_utilisation: null,
  balances: null,
  cancels: 'created_at',
  chain_lag: null,
  customer_cohorts: 'cohort_month',
  daily_blocks: 'day',
  daily_ledger: 'day',
  daily_volume: 'day',
  delivery_health: 'day',
  deposits: 'created_at',
  earnings: 'day',
  events: 'created_at',
  freshness: null,
  incidents: 'opened_at',
  ledger: 'created_at',
  merchant_totals: null,
  merchants: 'created_at',
  payment_receipts: 'created_at',
  payment_requests: 'created_at',
  payout_costs: 'created_at',
  payout_steps: 'created_at',
  payouts: 'created_at',
  reorganisations: 'happened_at',
  stakes: null,
  sweep_costs: null,
  sweeps: 'created_at',
  time_to_finality: 'day',
  treasury: null,
  unattributed: 'created_at',
  users: 'created_at',
  webhook_responses: 'day',
}

const formats = ['csv', 'spreadsheet', 'parquet'] as const
type Format = (typeof formats)[number]

interface Wanted {
  /** In the form of ISO 8601, in UTC. */
  from?: string
  to?: string
}

interface Options extends Wanted {
  out?: string
  raw?: boolean
  format: Format
  json?: boolean
}

export function addExportCommand(program: Command): void {
  leaf(
    program,
    'export',
    'Writes a view of analytics as CSV, to a file or to standard output, or as Parquet to a file (docs/database.md describes the views).',
    'sluice export deposits --from 2026-06-01 --to 2026-07-01 --out june.csv',
  )
    .addHelpText(
      'after',
      [
        '\nViews, with the column that --from and --to filter by:',
        ...Object.entries(views).map(([view, column]) => `  ${view.padEnd(20)} ${column ?? '(no --from, no --to)'}`),
      ].join('\n'),
    )
    .argument('<view>', 'the view')
    .option('--from <time>', 'from this day or time on, in UTC', utcTime)
    .option('--to <time>', 'before this day or time, in UTC', utcTime)
    .addOption(
      new Option(
        '--format <format>',
        'csv is for programs; spreadsheet is CSV for Excel and the like, where texts stay texts; parquet has DECIMAL and TIMESTAMP',
      )
        .choices(formats)
        .default('csv'),
    )
    .option('--out <file>', 'write to this file instead of standard output, and print the number of rows')
    .option(
      '--raw',
      "csv: leave texts unchanged that a spreadsheet would run as formulas; without it they get a ' in front",
    )
    .action(action<Options>(({service}, options, view) => exportView(service.database_url, view, options)))
}

async function exportView(ownerUrl: string, given: string, options: Options): Promise<Report | undefined> {
  const view = given.replace(/^analytics\./, '')
  conditionOf(view, options)
  if (options.format === 'parquet' && !options.out)
    throw new PermanentError('a Parquet file is no text: name it with --out')
  if (options.raw && options.format !== 'csv')
    throw new PermanentError('--raw is for --format csv: a spreadsheet would run formulas, and Parquet changes no text')
  if (options.json && !options.out)
    throw new PermanentError('--json reports what was written to a file: give --out, too')
  const client = await connect(ownerUrl)
  try {
    const rowsAreShown = !options.out && process.stdout.isTTY // a progress bar would be drawn between them
    const progressTo = rowsAreShown ? {write: () => {}} : process.stderr
    const write =
      options.format === 'parquet'
        ? await parquetOf(client, view, options)
        : await csvOf(client, view, options, options.raw ? 'raw' : options.format)
    const copy: CopyTo = async (open, signal) => {
      signal.addEventListener('abort', () => client.end()) // which ends the query under way
      const progress = await progressOf(client, view, write.select, progressTo)
      let rows: number | undefined
      try {
        rows = await write.copy({open, signal, progress: count => progress.at(count)})
        return rows
      } finally {
        progress.end(rows)
      }
    }
    if (!options.out) return await toStandardOutput(copy)
    const rows = await toFile(options.out, copy)
    return {json: {view, file: options.out, rows}, text: `${rows} rows of ${view} are in ${options.out}.`}
  } finally {
    await client.end()
  }
}

interface Target {
  /** Opens what they are written to. */
  open: () => Writable
  signal: AbortSignal
  /** Is told how many rows are written. */
  progress(rows: number): void
}

/** A query for the rows of a view, and what writes them in one of the formats; resolves to their number. */
interface Written {
  select: string
  copy(target: Target): Promise<number>
}

/** Throws if the view is not known, or has no column for --from and --to. */
async function csvOf(client: pg.Client, view: string, wanted: Wanted, style: CsvStyle): Promise<Written> {
  const select = await selectOf(client, view, wanted, style)
  return {select, copy: target => copyAsCsv(client, {select, style, ...target})}
}

async function parquetOf(client: pg.Client, view: string, wanted: Wanted): Promise<Written> {
  const columns = await columnsOf(client, view)
  const select = `select ${parquetColumns(columns)} from analytics.${view} ${conditionOf(view, wanted)}`
  return {select, copy: target => copyAsParquet(client, {select, columns, ...target})}
}

/**
 * The query for the rows of a view, as they are written to CSV. Throws if the view is not known, or has no column for
 * --from and --to.
 */
export async function selectOf(
  client: pg.ClientBase,
  view: string,
  wanted: Wanted,
  style: CsvStyle = 'csv',
): Promise<string> {
  const columns = csvColumns(await columnsOf(client, view), style)
  return `select ${columns} from analytics.${view} ${conditionOf(view, wanted)}`
}

function conditionOf(view: string, {from, to}: Wanted): string {
  const column = Object.hasOwn(views, view) ? views[view] : undefined
  if (column === undefined)
    throw new PermanentError(`there is no view "${view}"; there are ${Object.keys(views).join(', ')}`)
  if (column === null && (from ?? to))
    throw new PermanentError(`${view} shows the present only: it takes neither --from nor --to`)
  if (from && to && from >= to) throw new PermanentError('--from must be before --to; the time of --to is not included')
  const bounds = [from && `${column} >= '${from}'::timestamptz`, to && `${column} < '${to}'::timestamptz`].filter(
    Boolean,
  )
  return bounds.length ? `where ${bounds.join(' and ')}` : ''
}

/**
 * Connects as the role sluice_analyst, without its time limit. The server ends the query soon after this program ends.
 */
async function connect(ownerUrl: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: roleUrl(ownerUrl, 'sluice_analyst'),
    application_name: 'sluice-export',
    options: '-c statement_timeout=0 -c client_connection_check_interval=1s -c timezone=UTC',
  })
  client.on('error', () => {}) // the running query fails and reports it
  await client.connect()
  return client
}

async function columnsOf(client: pg.ClientBase, view: string): Promise<Column[]> {
  const {rows} = await client.query<Column>(
    `select attname as name, format_type(atttypid, null) as type from pg_attribute
     where attrelid = to_regclass('analytics.' || $1) and attnum > 0 and not attisdropped order by attnum`,
    [view],
  )
  return rows
}

interface PlanNode {
  'Node Type': string
  'Plan Rows': number
  'Parent Relationship'?: string
  Plans?: PlanNode[]
}

/** The number of rows is the planner's estimate: counting them would take as long as copying them. */
async function progressOf(
  client: pg.Client,
  view: string,
  select: string,
  to: NonNullable<ProgressOptions['to']>,
): Promise<Progress> {
  await client.query('set max_parallel_workers_per_gather = 0') // or it estimates the rows of one worker
  const {rows} = await client.query<{'QUERY PLAN': [{Plan: PlanNode}]}>(`explain (format json) ${select}`)
  return new Progress({what: `exporting ${view}`, unit: 'rows', total: estimate(rows[0]!['QUERY PLAN'][0].Plan), to})
}

/**
 * The estimate for the view's main table: the planner overestimates how many of its rows have no match in the joined
 * tables.
 */
function estimate(plan: PlanNode): number {
  const below = (plan.Plans ?? []).filter(({'Parent Relationship': side}) => side === 'Outer' || side === 'Subquery')
  const isSum = plan['Node Type'].includes('Aggregate')
  return Math.max(plan['Plan Rows'], ...(isSum ? [] : below.map(estimate)))
}

type CopyTo = (open: () => Writable, signal: AbortSignal) => Promise<number>

async function toStandardOutput(copy: CopyTo): Promise<undefined> {
  await interruptible('the output is not complete', signal => copy(() => process.stdout, signal))
}

/** Writes to a temporary file beside the named one, and renames it at the end. */
async function toFile(file: string, copy: CopyTo): Promise<number> {
  if ((await stat(file).catch(() => undefined))?.isDirectory())
    throw new PermanentError(`${file} is a directory; name a file`)
  const directory = path.dirname(path.resolve(file))
  if (!(await stat(directory).catch(() => undefined))?.isDirectory())
    throw new PermanentError(`${file} was not written: there is no directory ${directory}; make it, or name another`)
  const partial = `${file}.${process.pid}.partial`
  try {
    const rows = await interruptible(`${file} was not written`, signal =>
      copy(() => createWriteStream(partial, {flags: 'wx', mode: 0o600, flush: true}), signal),
    )
    await rename(partial, file)
    return rows
  } catch (cause) {
    await rm(partial, {force: true})
    if (cause instanceof PermanentError) throw cause
    throw new PermanentError(`${file} was not written: ${(cause as Error).message}`, {cause})
  }
}

async function interruptible<T>(outcome: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const interrupted = new AbortController()
  onInterrupt({first: () => interrupted.abort(), again: () => process.exit(130)})
  try {
    return await work(interrupted.signal)
  } catch (cause) {
    if (interrupted.signal.aborted) throw new PermanentError(`interrupted: ${outcome}`, {cause})
    throw cause
  }
}

/** In ISO 8601 form, in UTC; a time without a zone is taken as UTC. */
function utcTime(text: string): string {
  const [, day, time, zone = 'Z'] =
    text.match(/^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)(Z|[+-]\d{2}:\d{2})?)?$/) ?? []
  const at = new Date(day && isDay(day) ? `${day}T${time ?? '00:00'}${zone}` : Number.NaN)
  if (Number.isNaN(at.getTime()))
    throw new InvalidArgumentError('it must be a day or a time in UTC, such as 2026-11-20 or 2026-11-20T10:00:00Z.')
  return at.toISOString()
}
