// Statistics of large tables for small ones, so that PostgreSQL plans as it would for the large ones.
import type {TestDatabase} from './database.ts'

/**
 * Gives a table the statistics of so many rows: how many values each column has (-1: all different), times spread
 * evenly over two years.
 */
export async function grow(
  db: Pick<TestDatabase, 'rows'>,
  table: string,
  rows: number,
  values: Record<string, number>,
): Promise<void> {
  const [schema, name] = table.split('.')
  await db.rows(
    `select pg_restore_relation_stats('schemaname', $1::text, 'relname', $2::text,
       'relpages', pg_relation_size(($1 || '.' || $2)::regclass)::int / 8192, 'reltuples', $3::real)`,
    [schema, name, rows],
  )
  for (const [column, distinct] of Object.entries(values))
    await db.rows(
      `select pg_restore_attribute_stats('schemaname', $1::text, 'relname', $2::text, 'attname', $3::text, 'inherited', false,
         'null_frac', 0::real, 'avg_width', 16, 'n_distinct', $4::real${
           column === 'created_at'
             ? `, 'histogram_bounds', (select array_agg(t order by t)::text from generate_series(timestamptz '2025-01-01', '2027-01-01', '1 week') t)`
             : ''
         })`,
      [schema, name, column, distinct],
    )
}
