// The disk space of a deposit: final deposits with their two webhooks, each delivered at the first attempt, written
// like the indexer, the node's finality and the worker do. Bytes of each table with its indexes, and of the indexes
// alone, for each deposit. Tables with a row for each block, user or payout are left out.
import {createEndpoint, createMerchant, deposit} from '../test/support/webhooks.ts'
import {type Bench, withDatabase} from './database.ts'

export interface Size {
  table: string
  /** Bytes for each deposit, indexes included. */
  bytes: number
  indexBytes: number
  /** Stored for ever, or as long as DELIVERY_RETENTION_DAYS says. */
  isKept: boolean
}

const perTransaction = 500

export function benchSize(count = 20_000): Promise<Size[]> {
  return withDatabase(async ({pool}) => {
    const merchant = await createMerchant(pool)
    await createEndpoint(pool, merchant, {url: 'https://example.com/hook'})
    for (let made = 0; made < count; made += perTransaction) await deposit(pool, merchant, perTransaction)
    await pool.query(`select chain.finalise('ETH', 1000000, '0xfinal')`)
    await pool.query('select app.sequence_events($1)', [4 * count])
    await deliver(pool)
    await pool.query('select app.fold_balances($1)', [4 * count])
    await pool.query('vacuum')
    return await sizes(pool, count)
  })
}

async function deliver(pool: Bench['pool']): Promise<void> {
  const {rows} = await pool.query<{id: string; endpoint_id: string}>('select id, endpoint_id from app.delivery')
  for (let from = 0; from < rows.length; from += perTransaction) {
    const batch = rows.slice(from, from + perTransaction)
    const each = (value: number | null) => batch.map(() => value)
    await pool.query('select app.record_attempts($1, $2, $3, $4, $5, $6, $7, $8)', [
      batch[0]!.endpoint_id,
      batch.map(({id}) => id),
      each(1),
      each(0),
      each(20),
      each(204),
      each(null),
      each(null),
    ])
  }
}

async function sizes(pool: Bench['pool'], count: number): Promise<Size[]> {
  const {rows} = await pool.query<{table: string; bytes: number; index_bytes: number}>(
    `select coalesce(pg_partition_root(c.oid), c.oid)::regclass::text as table, sum(pg_total_relation_size(c.oid))::float8 / $1 as bytes,
       sum(pg_indexes_size(c.oid))::float8 / $1 as index_bytes
     from pg_class c where c.relnamespace in ('chain'::regnamespace, 'app'::regnamespace) and c.relkind = 'r'
     group by 1 having sum(pg_total_relation_size(c.oid)) >= 20 * $1 order by 2 desc`,
    [count],
  )
  return rows.map(({table, bytes, index_bytes: indexBytes}) => ({
    table,
    bytes,
    indexBytes,
    isKept: !table.startsWith('app.delivery'),
  }))
}
