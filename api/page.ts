// Pages of the lists that functions of db/functions/reading give. Promises: a page never repeats or skips an item
// because others were added meanwhile.
//
// (Each list pages by a number that is indexed behind its merchant, and by no other index: ordering by an id whose
// index spans all merchants walks the whole table, and optional filters as `$1 is null or …` took 3 s on 10 million
// rows.)
import {decodeCursor, encodeCursor} from './cursor.ts'
import {type Statement, statement} from './database.ts'
import type {Queries} from './replica.ts'

/** How the places of a list are written in SQL. */
interface Places {
  /** Above every place. */
  end: bigint
  show(place: bigint): string
  read(text: string): bigint
}

/** Of an integer type of SQL. */
export const integers = (end: bigint): Places => ({end, show: String, read: BigInt})
const bigints = integers(2n ** 63n - 1n)

export const uuids: Places = {
  end: 2n ** 128n - 1n,
  show: place => place.toString(16).padStart(32, '0'),
  read: text => BigInt(`0x${text.replaceAll('-', '')}`),
}

/** A list that a function of db/functions/reading gives: a place and the JSON of each item. */
export interface List {
  /** Name under which the items appear. */
  key: string
  /** $1 the merchant, $2 what is asked for, $3 the place to go on from (exclusive), $4 the size of the page. */
  statement: Statement
  places: Places
}

/** `read`: the name of the function. `order`: that of the places. */
export function listOf(key: string, read: string, places = bigints, order: 'asc' | 'desc' = 'desc'): List {
  const text = `select string_agg(item::text, ',' order by n) filter (where n <= $4), ((array_agg(place order by n))[$4])::text, count(*) > $4
    from (select *, row_number() over (order by place ${order}) as n from ${read}($1, $2, $3, $4::int + 1)) page`
  return {key, statement: statement(read, text), places}
}

interface ListRequest {
  merchantId: string
  asked: object
  query: {limit: number; cursor?: string}
  /** The place before the first page; above every place if absent. */
  start?: bigint
}

/** The finished JSON of one page. Throws 400 invalid_request for a cursor of another list. */
export async function pageOfList(db: Queries, list: List, request: ListRequest): Promise<string> {
  const {key, places, statement} = list
  const {merchantId, asked, query, start = places.end} = request
  const filters = JSON.stringify(asked)
  const name = [statement.name, merchantId, filters, ...(request.start === undefined ? [] : [start])].join('|')
  const from = query.cursor === undefined ? start : decodeCursor(name, query.cursor, places.end)
  const values = [merchantId, filters, places.show(from), query.limit]
  const found = await db.read<[items: string | null, last: string | null, more: boolean]>(statement, values)
  const [items, last, more] = found!
  const next = more ? `"${encodeCursor(name, places.read(last!))}"` : 'null'
  return `{"${key}":[${items ?? ''}],"next_cursor":${next},"has_more":${more}}`
}

/**
 * The statement of one object: $1 the merchant, $2 its uuid. No row if there is none: then a replica asks the primary.
 */
export function objectStatement(name: string): Statement {
  return statement(name, `select found::text from ${name}($1, $2) found where found is not null`)
}
