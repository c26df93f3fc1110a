// Rows of the database for a file, some thousand at a time, so that memory use does not grow with their number: from a
// statement, or page by page from a function that gives pages. Values are texts, as PostgreSQL writes them.
import {Readable, type Writable} from 'node:stream'
import {pipeline} from 'node:stream/promises'
import type pg from 'pg'

export interface Column {
  name: string
  /** As PostgreSQL names it. */
  type: string
}
export type Row = (string | null)[]

/** A connection, or a pool of them. */
type Queryable = Pick<pg.Pool, 'query'>

export const rowsAtOnce = 20_000

/** Of what a `from` clause names, with these parameters. */
export async function columnsOf(db: Queryable, from: string, values: unknown[] = []): Promise<Column[]> {
  const {fields} = await db.query({text: `select * from ${from} limit 0`, values})
  const {rows} = await db.query<{type: string}>({
    text: 'select format_type(t, null) as type from unnest($1::oid[]) with ordinality as u (t, n) order by n',
    values: [fields.map(({dataTypeID}) => dataTypeID)],
  })
  return fields.map(({name}, n) => ({name, type: rows[n]!.type}))
}

/** Of a statement, all of one moment. */
export async function* rowsOf(client: pg.ClientBase, select: string): AsyncGenerator<Row[]> {
  await client.query('begin read only')
  await client.query(`declare exported no scroll cursor for ${select}`)
  for (;;) {
    const rows = await texts(client, `fetch ${rowsAtOnce} from exported`)
    if (!rows.length) break
    yield rows
  }
  await client.query('commit')
}

/** Of pages, whose first column is the place of a row, until one is empty. `page` reads the one behind a place. */
export async function* pagesOf(page: (behind: string | null) => Promise<Row[]>): AsyncGenerator<Row[]> {
  for (let behind: string | null = null; ; ) {
    const rows = await page(behind)
    if (!rows.length) return
    behind = rows.at(-1)![0]!
    yield rows.map(([, ...row]) => row)
  }
}

/** The rows of a query, as texts. */
export async function texts(db: Queryable, text: string, values: unknown[] = []): Promise<Row[]> {
  const types = {getTypeParser: () => (value: string) => value}
  const {rows} = await db.query<Row>({text, values, rowMode: 'array', types})
  return rows
}

/** Writes pieces of a file, at the pace of its reader. */
export async function written(
  pieces: AsyncIterable<string | Buffer>,
  to: Writable,
  signal?: AbortSignal,
): Promise<void> {
  await pipeline(Readable.from(pieces, {objectMode: false}), to, {signal})
}
