// Lists that are too long to show at once: a page of them, how many there are, and how to see the next.
import type {Command} from 'commander'
import type pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import {wholeNumber} from './command.ts'

export interface PageOptions {
  limit: number
  before?: string
}

export interface Page<Row> {
  rows: Row[]
  /** Of all pages. */
  total: number
  /** What --before of the next page is; null on the last one. */
  next: string | null
}

/** Adds --limit and --before. */
export function paged(command: Command, limit = 200): Command {
  return command
    .option('--limit <number>', 'how many at most', wholeNumber, limit)
    .option('--before <position>', 'the page before this position, which the page after it names')
}

/**
 * A page of what a query selects, the highest `position` first: a column of it whose order never changes. The position
 * is no part of the rows.
 */
export async function pageOf<Row extends object>(
  db: pg.Client,
  query: string,
  values: unknown[],
  {limit, before}: PageOptions,
): Promise<Page<Row>> {
  const [beforeAt, limitAt] = [`$${values.length + 1}`, `$${values.length + 2}`]
  const {rows: found} = await db
    .query<Row & {position: unknown}>(
      `select * from (${query}) listed where position < ${beforeAt} or ${beforeAt} is null order by position desc limit ${limitAt}`,
      [...values, before ?? null, limit + 1],
    )
    .catch(cause => {
      if (cause.code !== '22P02' && cause.code !== '22003') throw cause
      throw new PermanentError(`--before ${before} is no position; the page before names the right one`, {cause})
    })
  const isLast = found.length <= limit
  const shown = found.slice(0, limit)
  const total = isLast && before === undefined ? shown.length : await countOf(db, query, values)
  const rows = shown.map(({position: _, ...row}) => row as unknown as Row)
  return {rows, total, next: isLast ? null : String(shown.at(-1)!.position)}
}

async function countOf(db: pg.Client, query: string, values: unknown[]): Promise<number> {
  const {rows} = await db.query<{count: number}>(`select count(*)::int as count from (${query}) listed`, values)
  return rows[0]!.count
}

/** The table of a page, with what is not on it. */
export function withTotal(table: string, {rows, total, next}: Page<object>): string {
  if (rows.length === total) return table
  const more = next === null ? 'There is no more.' : `The next ones: the same command with --before ${next}`
  return `${table}\n\n${rows.length} of ${total}. ${more}`
}
