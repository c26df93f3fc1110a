// The disk space of a deposit: final deposits with their two webhooks, each delivered at the first attempt, written
// like the indexer, the node's finality and the worker do, each in a block of its own, as in a shop that has some
// thousands a day. Vacuum takes back what is replaced, as often as autovacuum would. Bytes of each table with its
// indexes, and of the indexes alone, for each deposit. Tables with a row for each block, user or payout are left out.
//
// And that of addresses to which nothing was ever paid: users with one on each chain, made as custody and the API make
// them. Bytes for each address.
import {createHash, randomBytes} from 'node:crypto'
import {chainCodes} from '../chains/registry.ts'
import {createEndpoint, createMerchant, type Merchant} from '../test/support/webhooks.ts'
import {type Bench, withDatabase} from './database.ts'
import type {Report} from './result.ts'

const perVacuum = 250

export async function benchSize(report: Report): Promise<void> {
  await depositSize(report, 6 * perVacuum)
  await idleSize(report, 10_000)
}

function depositSize(report: Report, count: number): Promise<void> {
  return withDatabase(async ({pool}) => {
    const merchant = await createMerchant(pool)
    await createEndpoint(pool, merchant, {url: 'https://example.com/hook'})
    const before = await tableSizes(pool)
    for (let height = 1; height <= count; height++) {
      await finalDeposit(pool, merchant, height)
      if (height % perVacuum === 0) await finish(pool)
    }
    const {rows} = await pool.query<{final: string}>(`select count(*) as final from app.deposit where status = 'final'`)
    if (Number(rows[0]!.final) !== count) throw new Error(`${rows[0]!.final} deposits are final, expected ${count}`)
    reportGrowth({before, after: await tableSizes(pool), count, of: 'deposit'}, report)
  })
}

/** A payment in a block, which then becomes final. */
async function finalDeposit(pool: Bench['pool'], {address}: Merchant, height: number): Promise<void> {
  const [txid, hash, parent] = [hex(32), hashOf(height), hashOf(height - 1)]
  await pool.query({
    name: 'block',
    text: `with block as (
        insert into chain.block (id, chain, height, hash, parent_hash, time) values ('ETH:' || $1::int, 'ETH', $1, $2, $3, now()) returning *
      )
      insert into chain.transfer (id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient)
      select 'ETH:' || $4::text || ':0', chain, $4, 0, height, hash, time, 'ETH', 1e18, $5, $6 from block`,
    values: [height, hash, parent, txid, hex(20), address],
  })
  await pool.query({name: 'final', text: `select chain.finalise('ETH', $1, $2)`, values: [height, hash]})
}

const hex = (bytes: number) => `0x${randomBytes(bytes).toString('hex')}`
const hashOf = (height: number) => `0x${createHash('sha256').update(String(height)).digest('hex')}`

/** What the worker and autovacuum do. */
async function finish(pool: Bench['pool']): Promise<void> {
  await pool.query('select app.sequence_events($1)', [4 * perVacuum])
  await deliver(pool)
  await pool.query('select app.fold_balances($1)', [4 * perVacuum])
  while ((await pool.query<{folded: number}>('select app.fold_totals() as folded')).rows[0]!.folded);
  await pool.query('vacuum')
}

async function deliver(pool: Bench['pool']): Promise<void> {
  const {rows} = await pool.query<{id: string; endpoint_id: string}>(
    `select id, endpoint_id from app.delivery where status = 'pending'`,
  )
  const each = (value: number | null) => rows.map(() => value)
  await pool.query('select app.record_attempts($1, $2, $3, $4, $5, $6, $7, $8)', [
    rows[0]!.endpoint_id,
    rows.map(({id}) => id),
    each(1),
    each(0),
    each(20),
    each(204),
    each(null),
    each(null),
  ])
}

/** As long as the addresses of each family are. */
const made: Record<string, () => string> = {
  evm: () => hex(20),
  bitcoin: () => `tb1q${randomBytes(19).toString('hex')}`,
  tron: () => `T${randomBytes(17).toString('hex').slice(1)}`,
  solana: () => randomBytes(22).toString('hex'),
}

/** Of a user's five addresses, ETH and POLYGON are the same text. */
function idleSize(report: Report, users: number): Promise<void> {
  return withDatabase(async ({pool}) => {
    const before = await tableSizes(pool)
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
    reportGrowth({before, after: await tableSizes(pool), count: users * chainCodes.length, of: 'address'}, report)
  })
}

interface Size {
  /** With its indexes. */
  bytes: number
  indexBytes: number
}

/** Of the tables of chain, app and custody; those of partitions are in that of their table. */
export async function tableSizes(pool: Bench['pool']): Promise<Map<string, Size>> {
  const {rows} = await pool.query<{name: string} & Size>(
    `select coalesce(pg_partition_root(c.oid), c.oid)::regclass::text as name, sum(pg_total_relation_size(c.oid))::float8 as bytes,
       sum(pg_indexes_size(c.oid))::float8 as "indexBytes"
     from pg_class c where c.relnamespace in ('chain'::regnamespace, 'app'::regnamespace, 'custody'::regnamespace) and c.relkind = 'r' group by 1`,
  )
  return new Map(rows.map(({name, ...size}) => [name, size]))
}

interface Growth {
  before: Map<string, Size>
  after: Map<string, Size>
  count: number
  of: string
}

/** Of each table that grew by more than 80 bytes for each; of blocks only the newest stay. */
function reportGrowth({before, after, count, of}: Growth, report: Report): void {
  const grown = [...after].map(([table, {bytes, indexBytes}]) => {
    const was = before.get(table) ?? {bytes: 0, indexBytes: 0}
    return {table, bytes: (bytes - was.bytes) / count, indexBytes: (indexBytes - was.indexBytes) / count}
  })
  for (const {table, bytes, indexBytes} of grown.sort((a, b) => b.bytes - a.bytes).filter(({bytes}) => bytes > 80)) {
    if (table === 'chain.block') continue
    const kept = table.startsWith('app.delivery') ? 'kept for DELIVERY_RETENTION_DAYS' : 'kept for ever'
    report({what: `${table}, with its indexes (${kept})`, value: bytes, unit: `bytes for each ${of}`})
    report({what: `${table}, its indexes alone`, value: indexBytes, unit: `bytes for each ${of}`})
  }
}
