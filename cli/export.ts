// sluice export: writes a view of analytics, or a merchant's statement, as CSV, for programs or for spreadsheets, or as
// Parquet. Promises: rows are streamed, so memory use does not grow with their number; a file is written as a whole or
// not at all; amounts are exact and times in UTC; the rows are what the role sluice_analyst may read, at one moment.
import {createWriteStream} from 'node:fs'
import {rename, rm, stat} from 'node:fs/promises'
import path from 'node:path'
import {Writable} from 'node:stream'
import {type Command, InvalidArgumentError, Option} from 'commander'
import pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import {type CsvStyle, csvColumns, csvOf} from '../base/export/csv.ts'
import {parquetColumns, parquetOf} from '../base/export/parquet.ts'
import {type Column, columnsOf, pagesOf, type Row, rowsAtOnce, rowsOf, texts, written} from '../base/export/rows.ts'
import {onInterrupt} from '../base/interrupt.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import {action, isDay, leaf} from './command.ts'
import type {Report} from './output.ts'
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
  solvency: 'day',
  stakes: null,
  statement_lines: 'created_at',
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
  /** A day, or a time in UTC, in the form of ISO 8601. */
  from?: string
  to?: string
}

interface Options extends Wanted {
  out?: string
  raw?: boolean
  /** The prefix of a merchant, for a statement. */
  merchant?: string
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
        `  ${'statement'.padEnd(20)} created_at (of one merchant: --merchant, --from and --to; its days begin in its time zone)`,
        ...Object.entries(views).map(([view, column]) => `  ${view.padEnd(20)} ${column ?? '(no --from, no --to)'}`),
      ].join('\n'),
    )
    .argument('<view>', 'the view')
    .option('--from <time>', 'from this day or time on, in UTC; statement: a day of the merchant', dayOrTime)
    .option('--to <time>', 'before this day or time, in UTC; statement: a day of the merchant', dayOrTime)
    .addOption(
      new Option(
        '--format <format>',
        'csv is for programs; spreadsheet is CSV for Excel and the like, where texts stay texts; parquet has DECIMAL and TIMESTAMP',
      )
        .choices(formats)
        .default('csv'),
    )
    .option('--merchant <prefix>', 'statement: the merchant, by its account prefix')
    .option('--out <file>', 'write to this file instead of standard output, and print the number of rows')
    .option(
      '--raw',
      "csv: leave texts unchanged that a spreadsheet would run as formulas; without it they get a ' in front",
    )
    .action(action<Options>(({service}, options, view) => exportView(service.database_url, view, options)))
}

async function exportView(ownerUrl: string, given: string, options: Options): Promise<Report | undefined> {
  const view = given.replace(/^analytics\./, '')
  if (view !== 'statement') conditionOf(view, options)
  if (options.merchant !== undefined && view !== 'statement') throw new PermanentError('--merchant is for a statement')
  if (options.format === 'parquet' && !options.out)
    throw new PermanentError('a Parquet file is no text: name it with --out')
  if (options.raw && options.format !== 'csv')
    throw new PermanentError('--raw is for --format csv: a spreadsheet would run formulas, and Parquet changes no text')
  if (options.json && !options.out)
    throw new PermanentError('--json reports what was written to a file: give --out, too')
  const client = await connect(ownerUrl)
  try {
    const source = view === 'statement' ? await statementOf(client, options) : await viewOf(client, view, options)
    const copy: CopyTo = (open, signal) => copied(client, {source, options, open, signal})
    if (!options.out) return await toStandardOutput(copy)
    const rows = await toFile(options.out, copy)
    const days = source.zone === undefined ? '' : ` Its days are those of ${source.zone}.`
    return {json: {view, file: options.out, rows}, text: `${rows} rows of ${view} are in ${options.out}.${days}`}
  } catch (error) {
    throw refusal(error) ?? error
  } finally {
    await client.end()
  }
}

/** Rows to be written: their columns, and the rows by what is selected of them. */
interface Source {
  view: string
  /** Where days begin, if that is not UTC alone. */
  zone?: string
  columns: Column[]
  /** The statement of all rows, for the planner's estimate of their number; absent if there is no such statement. */
  select?(columns: string): string
  rows(columns: string): AsyncIterable<Row[]>
}

async function viewOf(client: pg.Client, view: string, wanted: Wanted): Promise<Source> {
  const condition = conditionOf(view, wanted)
  const select = (columns: string) => `select ${columns} from analytics.${view} ${condition}`
  const columns = await columnsOf(client, `analytics.${view}`)
  return {view, columns, select, rows: columns => rowsOf(client, select(columns))}
}

/** What the database refuses, in words of the command line. */
function refusal(error: unknown): PermanentError | undefined {
  const {code, detail, message} = ((error as Error).cause ?? error) as pg.DatabaseError
  if (code === 'SLINV') return new PermanentError(`--${detail} ${message}`)
  return code === 'SL503' ? new PermanentError(message) : undefined
}

/** Of one merchant, between two times. */
async function statementOf(client: pg.Client, {merchant, from: since, to: until}: Options): Promise<Source> {
  if (merchant === undefined || since === undefined || until === undefined)
    throw new PermanentError('a statement is of a merchant and a period: give --merchant <prefix>, --from and --to')
  const {rows: found} = await client.query<{time_zone: string}>(
    'select time_zone from analytics.merchants where merchant_prefix = $1',
    [merchant],
  )
  const [zone] = found.map(({time_zone}) => time_zone)
  if (zone === undefined) throw new PermanentError(`there is no merchant with the prefix "${merchant}"`)
  const from = 'analytics.statement_file($1, $2, $3, $4)'
  const asked = {from: since, to: until}
  const page = (columns: string, after: string | null, size = rowsAtOnce) =>
    texts(client, `select ${columns} from ${from}`, [merchant, asked, after, size])
  await client.query('begin isolation level repeatable read, read only') // all of one moment
  await page('place', null, 1) // refuses a wrong period before anything is written
  const [, ...columns] = await columnsOf(client, from, [merchant, asked, null, 0])
  return {view: 'statement', zone, columns, rows: columns => pagesOf(after => page(`place, ${columns}`, after))}
}

interface Copied {
  source: Source
  options: Options
  open(): Writable
  signal: AbortSignal
}

async function copied(client: pg.Client, {source, options, open, signal}: Copied): Promise<number> {
  const {view, columns} = source
  const {format, raw, out} = options
  const style = format === 'parquet' ? undefined : raw ? 'raw' : format
  const selected = style ? csvColumns(columns, style) : parquetColumns(columns)
  signal.addEventListener('abort', () => client.end()) // which ends the query under way
  const rowsAreShown = !out && process.stdout.isTTY // a progress bar would be drawn between them
  const progress = await progressOf(
    client,
    view,
    source.select?.(selected),
    rowsAreShown ? {write: () => {}} : process.stderr,
  )
  let count = 0
  const counted = async function* () {
    for await (const rows of source.rows(selected)) {
      yield rows
      count += rows.length
      progress.at(count)
    }
  }
  try {
    await written(style ? csvOf(columns, style, counted()) : parquetOf(columns, counted()), open(), signal)
    return count
  } finally {
    progress.end(count)
  }
}

/**
 * The query for the rows of a view, as they are written to CSV. Throws if the view is not known, or has no column for
 * --from and --to.
 */
export async function selectOf(
  client: pg.Client,
  view: string,
  wanted: Wanted,
  style: CsvStyle = 'csv',
): Promise<string> {
  const {columns, select} = await viewOf(client, view, wanted)
  return select!(csvColumns(columns, style))
}

function conditionOf(view: string, {from, to}: Wanted): string {
  const column = Object.hasOwn(views, view) ? views[view] : undefined
  if (column === undefined)
    throw new PermanentError(`there is no view "${view}"; there are ${Object.keys(views).join(', ')}`)
  if (column === null && (from ?? to))
    throw new PermanentError(`${view} shows the present only: it takes neither --from nor --to`)
  if (from && to && Date.parse(from) >= Date.parse(to))
    throw new PermanentError('--from must be before --to; the time of --to is not included')
  const bounds = [from && `${column} >= '${from}'::timestamptz`, to && `${column} < '${to}'::timestamptz`].filter(
    Boolean,
  )
  return bounds.length ? `where ${bounds.join(' and ')}` : ''
}

/**
 * Connects as the role sluice_analyst, without its time limits: a slow reader makes the connection wait. The server
 * ends the query soon after this program ends.
 */
async function connect(ownerUrl: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: roleUrl(ownerUrl, 'sluice_analyst'),
    application_name: 'sluice-export',
    options:
      '-c statement_timeout=0 -c idle_in_transaction_session_timeout=0 -c client_connection_check_interval=1s -c timezone=UTC',
  })
  client.on('error', () => {}) // the running query fails and reports it
  await client.connect()
  return client
}

interface PlanNode {
  'Node Type': string
  'Plan Rows': number
  'Parent Relationship'?: string
  Plans?: PlanNode[]
}

/** The number of rows is the planner's estimate, if there is one: counting them would take as long as copying them. */
async function progressOf(
  client: pg.Client,
  view: string,
  select: string | undefined,
  to: NonNullable<ProgressOptions['to']>,
): Promise<Progress> {
  if (select === undefined) return new Progress({what: `exporting ${view}`, unit: 'rows', total: 1, to})
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
  // An error ends this stream, not the standard output, which would report it in words of its own.
  const open = () => new Writable({write: (chunk, encoding, done) => void process.stdout.write(chunk, encoding, done)})
  await interruptible('the output is not complete', signal => copy(open, signal))
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

/** A day as it is; a time in the form of ISO 8601, in UTC, as which it is taken without a zone. */
function dayOrTime(text: string): string {
  const [, day, time, zone = 'Z'] =
    text.match(/^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)(Z|[+-]\d{2}:\d{2})?)?$/) ?? []
  const at = new Date(day && isDay(day) ? `${day}T${time ?? '00:00'}${zone}` : Number.NaN)
  if (Number.isNaN(at.getTime()))
    throw new InvalidArgumentError('it must be a day or a time in UTC, such as 2026-11-20 or 2026-11-20T10:00:00Z.')
  return time === undefined ? day! : at.toISOString()
}
