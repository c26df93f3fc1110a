// Pages of a list. Promises: one statement per combination of filters, which walks one index from the cursor on (or the
// index of a few parts, all of them at once) and builds the JSON of the items; a page never repeats or skips an item
// because others were added meanwhile.
//
// (Optional filters as `$1 is null or …` took 3 s on 10 million rows, and ordering by an id whose index spans all
// merchants walks the whole table: measured. So each list pages by a number that is indexed behind its merchant, and by
// no other index. Whether there is more is asked in that order, too: a mere `exists` read the whole table.)
import {decodeCursor, encodeCursor} from './cursor.ts'
import {type Statement, statement} from './database.ts'
import type {Queries} from './replica.ts'

/**
 * SQL of a field: of any type; or, faster, of text that is never null and needs no escaping; or of a number that is
 * never null.
 */
export type Field = string | {plain: string} | {number: string}
export type Fields = Record<string, Field>

/** SQL of the JSON text of an object with these fields. (A concatenation: row_to_json costs half as much again.) */
export function jsonOf(fields: Fields): string {
  const parts = Object.entries(fields).map(([name, field]) => {
    if (typeof field === 'string') return `"${name}":' || coalesce(to_json(${field})::text, 'null') || '`
    return 'plain' in field ? `"${name}":"' || ${field.plain} || '"` : `"${name}":' || (${field.number})::text || '`
  })
  return `'{${parts.join(',')}}'`
}

export interface PageSource {
  name: string
  /** The owner's rows, filtered: a select with $1 and $4… that ends within its where clause. */
  rows: string
  /**
   * A few parts of the rows (a select), where an index has each part in order, and none has all: `rows` has the columns
   * of one `part`.
   */
  parts?: string
  /** The column that orders the list. */
  position: string
  ascending?: boolean
  /** The item's JSON text, made from p (a row) and whatever `joins` adds. */
  item: string
  joins?: string
}

/**
 * The statement of a list. $1 the owner's id, $2 the position to go on from (exclusive), $3 the size of the page, $4…
 * the filters. One row: the items' JSON joined by commas, the position of the last one if the page is full, whether
 * there are more.
 */
export function pageStatement({name, rows, parts, position, ascending, item, joins = ''}: PageSource): Statement {
  const [order, beyond] = ascending ? ['asc', '>'] : ['desc', '<']
  const walk = (from: string, limit: string) => {
    const inOrder = `order by ${position} ${order} limit ${limit}`
    const each = `${rows} and ${position} ${beyond} ${from} ${inOrder}`
    return parts ? `select p.* from (${parts}) part cross join lateral (${each}) p ${inOrder}` : each
  }
  return statement(
    name,
    `select items, last::text, (select true from (${walk('last', '1')}) more) is not null
    from (
      select string_agg(item, ',' order by position ${order}) as items, (array_agg(position order by position ${order}))[$3] as last
      from (
        select p.${position} as position, ${item} as item
        from (${walk('$2', '$3::int')}) p ${joins}
      ) item
    ) page`,
  )
}

/**
 * A select that has at most one row, as a source for `rows`. OFFSET keeps the planner from looking for that row in the
 * order of the list, through all that the owner has.
 */
export const oneRow = (select: string): string => `(${select} offset 0) one`

export interface PageRequest {
  /** Name under which the items appear. */
  key: string
  statement: Statement
  /** The owner of the list: the value of $1. */
  owner: string
  /** The values of $4…; undefined: the statement has no such parameter. */
  filters?: (string | null | undefined)[]
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

/** Of an integer type of SQL. */
export const integers = (end: bigint): Positions => ({end, show: String, read: BigInt})
const bigints = integers(2n ** 63n - 1n)

export const uuids: Positions = {
  end: 2n ** 128n - 1n,
  show: position => position.toString(16).padStart(32, '0'),
  read: text => BigInt(`0x${text.replaceAll('-', '')}`),
}

/** The finished JSON of one page. Throws 400 invalid_request for a cursor of another list. */
export async function page(db: Queries, request: PageRequest): Promise<string> {
  const {key, owner, filters = [], query, positions = bigints, start = positions.end} = request
  const list = [request.statement.name, owner, start, ...filters.map(filter => filter ?? '')].join('|')
  const from = query.cursor === undefined ? start : decodeCursor(list, query.cursor, positions.end)
  const values = [owner, positions.show(from), query.limit, ...filters.filter(filter => filter !== undefined)]
  const found = await db.read<[items: string | null, last: string | null, more: boolean]>(request.statement, values)
  const [items, last, more] = found!
  return finished(key, items, more ? encodeCursor(list, positions.read(last!)) : undefined)
}

function finished(key: string, items: string | null, next: string | undefined): string {
  const cursor = next === undefined ? 'null' : `"${next}"`
  return `{"${key}":[${items ?? ''}],"next_cursor":${cursor},"has_more":${next !== undefined}}`
}

/** A list that a function of db/functions/reading gives: a place and the JSON of each item, the highest place first. */
export interface List {
  /** Name under which the items appear. */
  key: string
  /** $1 the merchant, $2 what is asked for, $3 the place to go on from (exclusive), $4 the size of the page. */
  statement: Statement
  places: Positions
}

/** `read`: the name of the function. Places are bigint if nothing else is said. */
export function listOf(key: string, read: string, places = bigints): List {
  const text = `select string_agg(item::text, ',' order by n) filter (where n <= $4), ((array_agg(place order by n))[$4])::text, count(*) > $4
    from (select *, row_number() over (order by place desc) as n from ${read}($1, $2, $3, $4::int + 1)) page`
  return {key, statement: statement(read, text), places}
}

interface ListRequest {
  merchantId: string
  asked: object
  query: {limit: number; cursor?: string}
}

/** The finished JSON of one page. Throws 400 invalid_request for a cursor of another list. */
export async function pageOfList(db: Queries, list: List, {merchantId, asked, query}: ListRequest): Promise<string> {
  const {key, places, statement} = list
  const filters = JSON.stringify(asked)
  const name = [statement.name, merchantId, filters].join('|')
  const from = query.cursor === undefined ? places.end : decodeCursor(name, query.cursor, places.end)
  const values = [merchantId, filters, places.show(from), query.limit]
  const found = await db.read<[items: string | null, last: string | null, more: boolean]>(statement, values)
  const [items, last, more] = found!
  return finished(key, items, more ? encodeCursor(name, places.read(last!)) : undefined)
}

/**
 * The statement of one object: $1 the merchant, $2 its uuid. No row if there is none: then a replica asks the primary.
 */
export function objectStatement(name: string): Statement {
  return statement(name, `select found::text from ${name}($1, $2) found where found is not null`)
}
