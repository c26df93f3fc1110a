// Reading and changing through named prepared statements, each of which the server parses once per connection.
import type pg from 'pg'

export interface Statement {
  readonly name: string
  readonly text: string
  readonly rowMode: 'array'
}

export function statement(name: string, text: string): Statement {
  return {name, text, rowMode: 'array'}
}

/** The first row of a statement, as an array of its columns; undefined if there is none. */
export async function row<Row extends unknown[]>(
  pool: pg.Pool,
  {name, text, rowMode}: Statement,
  values: unknown[],
): Promise<Row | undefined> {
  const result = await pool.query<Row>({name, text, rowMode, values})
  return result.rows[0]
}

/** The only column of the only row of a statement that always has one. */
export async function value<T = string>(pool: pg.Pool, query: Statement, values: unknown[]): Promise<T> {
  const [result] = (await row<[T]>(pool, query, values))!
  return result
}
