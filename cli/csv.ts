// Rows of a query as CSV. Promises: amounts are exact and times in UTC; no text becomes a formula, unless all are
// to stay as they are; memory use does not grow with the number of rows.
import {Transform, type Writable} from 'node:stream'
import {pipeline} from 'node:stream/promises'
import type pg from 'pg'
import {to as copyTo} from 'pg-copy-streams'
import type {Column} from './parquet.ts'

/** SQL for a column. */
type Sql = (name: string) => string

const asText: Sql = name => `${name}::text`

/** What a formula begins with, in quotes or not; some spreadsheets take the wide forms of East Asia, too. */
const formula = String.raw`[ "]*[-=+@\uff1d\uff0b\uff0d\uff20]`

/** With a ' before what would run: also after a semicolon, a tab or a line break, where a spreadsheet may begin another cell. */
const harmless: Sql = name =>
  String.raw`regexp_replace(${name}, '(?<![^;\t\r\n])(?=${formula})|^(?=[\t\r\n])', '''', 'g')`

const raw: Record<string, Sql> = {
  'timestamp with time zone': name => `to_char(${name} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
  boolean: asText,
}
const csv: Record<string, Sql> = {
  ...raw,
  text: harmless,
  json: name => harmless(asText(name)),
  jsonb: name => harmless(asText(name)),
}

/** The columns as they are selected for CSV. */
export function csvColumns(columns: Column[], isRaw: boolean): string {
  const written = isRaw ? raw : csv
  return columns.map(({name, type}) => `${written[type]?.(name) ?? name} as ${name}`).join(', ')
}

interface Source {
  /** Made with csvColumns. */
  select: string
  /** Opens what is written to. */
  open(): Writable
  signal: AbortSignal
  progress(rows: number): void
}

/** Copies the rows; resolves to their number. Waits for the reader. */
export async function copyAsCsv(client: pg.Client, {select, open, signal, progress}: Source): Promise<number> {
  const rows = client.query(copyTo(`copy (${select}) to stdout with (format csv, header true)`))
  let lines = -1 // the first line has the headings; a line break in a text counts as one too many
  const count = new Transform({
    transform(chunk: Buffer, _, done) {
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++
      progress(Math.max(lines, 0))
      done(null, chunk)
    },
  })
  await pipeline(rows, count, open(), {signal})
  return rows.rowCount
}
