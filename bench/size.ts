// The disk space of a deposit: final deposits with their two webhooks, each delivered at the first attempt, written
// like the indexer, the node's finality and the worker do. Bytes of each table with its indexes, and of the indexes
// alone, for each deposit. Tables with a row for each block, user or payout are left out.
//
// And that of addresses to which nothing was ever paid: users with one on each chain, made as custody and the API make
// them. Bytes for each address.
import {randomBytes} from 'node:crypto'
import {chainCodes} from '../chains/registry.ts'
import {createEndpoint, createMerchant, deposit} from '../test/support/webhooks.ts'
import {type Bench, withDatabase} from './database.ts'
import type {Report} from './result.ts'

const perTransaction = 500

export async function benchSize(report: Report): Promise<void> {
  await depositSize(report, 20_000)
  await idleSize(report, 10_000)
}

function depositSize(report: Report, count: number): Promise<void> {
  return withDatabase(async ({pool}) => {
    const merchant = await createMerchant(pool)
    await createEndpoint(pool, merchant, {url: 'https://example.com/hook'})
    for (let made = 0; made < count; made += perTransaction) await deposit(pool, merchant, perTransaction)
    await pool.query(`select chain.finalise('ETH', 1000000, '0xfinal')`)
    await pool.query('select app.sequence_events($1)', [4 * count])
    await deliver(pool)
    await pool.query('select app.fold_balances($1)', [4 * count])
    await pool.query('vacuum')
    await reportSizes(pool, {count, of: 'deposit'}, report)
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

/** As long as the addresses of each family are. */
const made: Record<string, () => string> = {
  evm: () => `0x${randomBytes(20).toString('hex')}`,
  bitcoin: () => `tb1q${randomBytes(19).toString('hex')}`,
  tron: () => `T${randomBytes(17).toString('hex').slice(1)}`,
  solana: () => randomBytes(22).toString('hex'),
}

/** Of a user's five addresses, ETH and POLYGON are the same text. */
function idleSize(report: Report, users: number): Promise<void> {
  return withDatabase(async ({pool}) => {
    for (const [family, make] of Object.entries(made))
      await pool.query(
        `insert into custody.address (address, family, derivation_index)
         select address, $1, n from unnest($2::text[]) with ordinality as a (address, n)`,
        [family, Array.from({length: users}, make)],
      )
    const {rows} = await pool.query<{id: string}>(`select app.create_merchant('Bench', 'bench', $1, 50) as id`, [
      chainCodes,
    ])
    for (let n = 0; n < users; n++)
      await pool.query({
        name: 'provision',
        text: 'select app.provision_user($1, $2, null)',
        values: [rows[0]!.id, `customer-${n}`],
      })
    await pool.query('vacuum')
    await reportSizes(pool, {count: users * chainCodes.length, of: 'address'}, report)
  })
}

async function reportSizes(
  pool: Bench['pool'],
  {count, of}: {count: number; of: string},
  report: Report,
): Promise<void> {
  const {rows} = await pool.query<{table: string; bytes: number; index_bytes: number}>(
    `select coalesce(pg_partition_root(c.oid), c.oid)::regclass::text as table, sum(pg_total_relation_size(c.oid))::float8 / $1 as bytes,
       sum(pg_indexes_size(c.oid))::float8 / $1 as index_bytes
     from pg_class c where c.relnamespace in ('chain'::regnamespace, 'app'::regnamespace, 'custody'::regnamespace) and c.relkind = 'r'
     group by 1 having sum(pg_total_relation_size(c.oid)) >= 20 * $1 order by 2 desc`,
    [count],
  )
  for (const {table, bytes, index_bytes} of rows) {
    const kept = table.startsWith('app.delivery') ? 'kept for DELIVERY_RETENTION_DAYS' : 'kept for ever'
    report({what: `${table}, with its indexes (${kept})`, value: bytes, unit: `bytes for each ${of}`})
    report({what: `${table}, its indexes alone`, value: index_bytes, unit: `bytes for each ${of}`})
  }
}
