// Rows of a query as CSV, for programs or for spreadsheets. Promises: amounts are exact and times in UTC; no text
// becomes a formula, unless all are to stay as they are; memory use does not grow with the number of rows.
import type {Column, Row} from './rows.ts'

/** SQL for a column. */
type Sql = (name: string) => string

const asText: Sql = name => `${name}::text`
const asTime = (name: string, format: string) => `to_char(${name} at time zone 'UTC', '${format}')`

/** What a formula begins with, in quotes or not; some spreadsheets take the wide forms of East Asia, too. */
const formula = String.raw`[ "]*[-=+@\uff1d\uff0b\uff0d\uff20]`

/**
 * With a ' before what would run: also after a semicolon, a tab or a line break, where a spreadsheet may begin another
 * cell.
 */
const harmless: Sql = name =>
  String.raw`regexp_replace(${name}, '(?<![^;\t\r\n])(?=${formula})|^(?=[\t\r\n])', '''', 'g')`

/**
 * Whether it may become a number, a date, a time or a truth value: 00123, 1e5, 1-2, MARCH1, TRUE. Months have other
 * names in other languages.
 */
const isConvertible: Sql = name =>
  String.raw`${name} ~ '\d' and ${name} !~ '^${formula}'
    and (length(${name}) <= 30 and ${name} !~ '[_";[:cntrl:]]' or ${name} !~ '[^-+\d.,:/ eE]') or lower(${name}) in ('true', 'false')`

/** Excel has no other way to say that a cell of CSV is a text. */
const textCell: Sql = name => `'="' || ${name} || '"'`

const forSpreadsheet: Sql = name => `case when ${isConvertible(name)} then ${textCell(name)} else ${harmless(name)} end`

const raw: Record<string, Sql> = {
  'timestamp with time zone': name => asTime(name, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
  boolean: asText,
}
const csv: Record<string, Sql> = {
  ...raw,
  text: harmless,
  json: name => harmless(asText(name)),
  jsonb: name => harmless(asText(name)),
}
const spreadsheet: Record<string, Sql> = {
  ...csv,
  'timestamp with time zone': name => asTime(name, 'YYYY-MM-DD HH24:MI:SS'),
  text: forSpreadsheet,
}
const styles = {raw, csv, spreadsheet}

/**
 * raw has all texts as they are; csv is for programs, and runs nothing in a spreadsheet; spreadsheet leaves texts texts
 * in Excel and the like.
 */
export type CsvStyle = keyof typeof styles

/**
 * The columns as they are selected for CSV. A spreadsheet keeps 15 digits of a number, so it gets base units as texts.
 */
export function csvColumns(columns: Column[], style: CsvStyle): string {
  const cell = ({name, type}: Column): Sql | undefined =>
    style === 'spreadsheet' && name.endsWith('_base_units') ? textCell : styles[style][type]
  return columns.map(column => `${cell(column)?.(column.name) ?? column.name} as ${column.name}`).join(', ')
}

/** The rows as CSV, with a line of headings first. */
export async function* csvOf(columns: Column[], style: CsvStyle, pages: AsyncIterable<Row[]>): AsyncGenerator<string> {
  // A spreadsheet may take semicolons and tabs for separators, too, so it gets all in quotes.
  const special = style === 'spreadsheet' ? /^/ : /[",\r\n]|^\\\.$/
  const cell = (value: string | null) => {
    if (value === null) return ''
    return value === '' || special.test(value) ? `"${value.replaceAll('"', '""')}"` : value
  }
  const line = (row: Row) => `${row.map(cell).join(',')}\n`
  const mark = style === 'spreadsheet' ? '\ufeff' : '' // by which Excel knows UTF-8
  yield `${mark}${columns.map(({name}) => name).join(',')}\n`
  for await (const rows of pages) yield rows.map(line).join('')
}
