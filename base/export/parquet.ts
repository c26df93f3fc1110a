// Rows of a query as a Parquet file. Promises: amounts are DECIMAL and exact, and what no DECIMAL holds is a text in
// the column beside it; times are TIMESTAMP in UTC with microseconds; a view's files have the same columns, whatever
// its rows are; memory use does not grow with their number.
import {ByteWriter, ParquetWriter} from 'hyparquet-writer'
import type {Column, Row} from './rows.ts'

type SchemaElement = ConstructorParameters<typeof ParquetWriter>[0]['schema'][number]

/** A column of the file, and what it makes of a value's text; undefined is null. */
interface Field {
  name: string
  element: Omit<SchemaElement, 'name'>
  read(text: string): unknown
}

/** How values of a type are selected (as text), and the column that they become. */
interface Form extends Omit<Field, 'name'> {
  sql(name: string): string
}

/** The most digits of a DECIMAL that readers support. */
const digits = 38
const fits = new RegExp(`^-?0*\\d{0,${digits}}$`)
const asText = (name: string) => `${name}::text`

const forms: Record<string, Form> = {
  'timestamp with time zone': {
    sql: name => `case when isfinite(${name}) then (extract(epoch from ${name}) * 1000000)::bigint::text end`,
    element: {type: 'INT64', logical_type: {type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS'}},
    read: BigInt,
  },
  date: {
    sql: name => `(${name} - date '1970-01-01')::text`,
    element: {type: 'INT32', converted_type: 'DATE'},
    read: Number,
  },
  boolean: {sql: asText, element: {type: 'BOOLEAN'}, read: text => text === 'true'},
  integer: {sql: asText, element: {type: 'INT32'}, read: Number},
  bigint: {sql: asText, element: {type: 'INT64'}, read: BigInt},
  'double precision': {sql: asText, element: {type: 'DOUBLE'}, read: Number},
}
const text: Form = {sql: asText, element: {type: 'BYTE_ARRAY', converted_type: 'UTF8'}, read: value => value}

const formOf = ({type}: Column) => forms[type] ?? text

const fieldsOf = (column: Column): Field[] =>
  column.type === 'numeric' ? decimal(column.name) : [{name: column.name, ...formOf(column)}]

/**
 * Base units are integers; no coin has more than 18 decimals. Whoever makes a token chooses how large its amounts are:
 * some fit no DECIMAL.
 */
function decimal(name: string): Field[] {
  const scale = name.endsWith('_base_units') ? 0 : 18
  const read = (value: string) => {
    const [whole, fraction = ''] = value.split('.') as [string, string?]
    const unscaled = whole + fraction.padEnd(scale, '0')
    return fraction.length <= scale && fits.test(unscaled) ? BigInt(unscaled) : undefined
  }
  return [
    {
      name,
      element: {type: 'FIXED_LEN_BYTE_ARRAY', type_length: 16, converted_type: 'DECIMAL', precision: digits, scale},
      read,
    },
    {...text, name: `${name}_text`, read: value => (read(value) === undefined ? value : undefined)},
  ]
}

/** The columns as they are selected for a Parquet file. */
export const parquetColumns = (columns: Column[]) =>
  columns.map(column => `${formOf(column).sql(column.name)} as ${column.name}`).join(', ')

/** The rows, selected with parquetColumns, as a Parquet file. */
export async function* parquetOf(columns: Column[], pages: AsyncIterable<Row[]>): AsyncGenerator<Buffer> {
  const fields = columns.flatMap((column, n) => fieldsOf(column).map(field => ({n, ...field})))
  const bytes = new ByteWriter()
  const parquet = new ParquetWriter({
    writer: bytes,
    schema: [
      {name: 'rows', num_children: fields.length},
      ...fields.map(({name, element}) => ({name, repetition_type: 'OPTIONAL' as const, ...element})),
    ],
    createdBy: 'sluice',
  })
  for await (const rows of pages) {
    const columnData = fields.map(({n, name, read}) => ({name, data: rows.map(row => readBy(read, row[n]!))}))
    await parquet.write({columnData, rowGroupSize: rows.length})
    yield taken(bytes)
  }
  await parquet.finish()
  yield taken(bytes)
}

const readBy = (read: Field['read'], value: string | null) => (value === null ? undefined : read(value))

/** What was written since the last time. */
function taken(bytes: ByteWriter): Buffer {
  const piece = Buffer.from(bytes.getBytes())
  bytes.index = 0
  return piece
}
