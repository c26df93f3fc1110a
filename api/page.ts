// Pages of a list. Promises: one statement per combination of filters, which walks one index from the cursor on and builds the JSON of
// the items; a page never repeats or skips an item because others were added meanwhile.
//
// (Optional filters as `$1 is null or …` took 3 s on 10 million rows, and ordering by an id whose index spans all merchants walks the
// whole table: measured. So each list pages by a number that is indexed behind its merchant.)
import type pg from 'pg'
import {decodeCursor, encodeCursor} from './cursor.ts'
import {row, type Statement, statement} from './database.ts'

export interface PageSource {
  name: string
  /** The rows of the page: a select that ends before its order, with $1 and $2 as the statement below says. */
  rows: string
  /** The column that orders the list. */
  position: string
  ascending?: boolean
  /** The item's JSON text, made from p (a row) and whatever `joins` adds. */
  item: string
  joins?: string
}

/** JSON text of an item with these columns, each `expression as name`. */
export const jsonOf = (columns: string) => `row_to_json((select item from (select ${columns}) item))::text`

/**
 * The statement of a list. $1 the owner's id, $2 the position to go on from (exclusive), $3 the size of the page, $4… the filters.
 * One row: the items' JSON joined by commas, the position of the last one, whether there are more.
 */
export function pageStatement({name, rows, position, ascending, item, joins = ''}: PageSource): Statement {
  const order = ascending ? 'asc' : 'desc'
  return statement(
    name,
    `select string_agg(item, ',' order by n) filter (where n <= $3), max(position::text) filter (where n = $3), count(*) > $3
    from (
      select p.${position} as position, row_number() over (order by p.${position} ${order}) as n, ${item} as item
      from (${rows} and ${position} ${ascending ? '>' : '<'} $2 order by ${position} ${order} limit $3::int + 1) p ${joins}
    ) page`,
  )
}

export interface PageRequest {
  /** Name under which the items appear. */
  key: string
  statement: Statement
  /** Whose list it is: the value of $1. */
  owner: string
  filters?: (string | undefined)[]
  query: {limit: number; cursor?: string}
  /** Where the first page begins; the newest item if absent. */
  start?: bigint
  /** How positions are written in SQL: bigint if absent. */
  positions?: Positions
}

interface Positions {
  /** Above every position. */
  end: bigint
  show(position: bigint): string
  read(text: string): bigint
}

const bigints: Positions = {end: 2n ** 63n - 1n, show: String, read: BigInt}

export const uuids: Positions = {
  end: 2n ** 128n - 1n,
  show: position => position.toString(16).padStart(32, '0'),
  read: text => BigInt(`0x${text.replaceAll('-', '')}`),
}

/** The finished JSON of one page. Throws 400 invalid_request for a cursor of another list. */
export async function page(pool: pg.Pool, request: PageRequest): Promise<string> {
  const {key, owner, filters = [], query, positions = bigints, start = positions.end} = request
  const list = [request.statement.name, owner, ...filters.map(filter => filter ?? '')].join('|')
  const from = query.cursor === undefined ? start : decodeCursor(list, query.cursor, positions.end)
  const values = [owner, positions.show(from), query.limit, ...filters.filter(filter => filter !== undefined)]
  const found = await row<[items: string | null, last: string | null, more: boolean]>(pool, request.statement, values)
  const [items, last, more] = found!
  const next = more ? `"${encodeCursor(list, positions.read(last!))}"` : 'null'
  return `{"${key}":[${items ?? ''}],"next_cursor":${next},"has_more":${more}}`
}
