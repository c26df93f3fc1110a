// Rows of a query as CSV. Promises: amounts are exact and times in UTC; memory use does not grow with the number of rows.
import {Transform, type Writable} from 'node:stream'
import {pipeline} from 'node:stream/promises'
import type pg from 'pg'
import {to as copyTo} from 'pg-copy-streams'
import type {Column} from './parquet.ts'

/** A text that a spreadsheet would run as a formula. */
const formula = String.raw`'^[-=+@\t\r\n]'`

/** The columns as they are selected for CSV. */
export function csvColumns(columns: Column[], raw: boolean): string {
  const written: Record<string, (name: string) => string> = {
    'timestamp with time zone': name => `to_char(${name} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
    boolean: name => `${name}::text`,
    text: name => (raw ? name : `case when ${name} ~ ${formula} then '''' || ${name} else ${name} end`),
  }
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
