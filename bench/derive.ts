// Deriving deposits: deposits/s when a client inserts transfers and the rest follows at COMMIT (deposit, event,
// delivery, job), over a client that inserts the same rows itself, prepared beforehand, with the triggers off; both by
// one unnest statement per table. Then over COPY of the bare transfers. The last: finalisation of all of them
// (deposits, events, deliveries, balances, ledger and holdings follow), over a client that writes the same rows itself
// in one transaction.
import {randomBytes} from 'node:crypto'
import {rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import type pg from 'pg'
import {provision, withDatabase} from './database.ts'
import type {Report} from './result.ts'

const transferColumns =
  'id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient'
const depositColumns =
  'id, merchant_id, user_id, chain, token, amount, sender, address, txid, output_index, block_height, block_hash, status, credited, version, created_at'
const eventColumns = 'id, merchant_id, type, subject_id, version, payload, created_at'
const deliveryColumns = 'event_id, endpoint_id, status, next_attempt_at'
const deltaColumns = 'merchant_id, chain, token, amount, deposit_count'
const ledgerColumns = 'posting, kind, reference, account, chain, token, merchant_id, address, amount, created_at'
const holdingColumns = 'chain, address, token, merchant_id, amount'

/** `count` deposits, `perTransaction` of them in each transaction. */
export function benchDerive(report: Report, count = 30_000, perTransaction = 1000): Promise<void> {
  return withDatabase(async ({pool}) => {
    const {merchantId} = await provision(pool, 'ETH', 100_000, `'0x' || lpad(to_hex(n), 40, '0')`)
    await pool.query(
      `insert into app.webhook_endpoint (merchant_id, url, event_types, secret) values ($1, 'http://127.0.0.1:1', '{deposit.pending,deposit.confirmed}', 'x')`,
      [merchantId],
    )
    await pool.query(`select chain.anchor('ETH', 'bench', 0, '0x', now())`)
    await makeTransfers(pool, count)
    const client = await pool.connect()
    try {
      const rounds = []
      for (let round = 0; round < 3; round++) rounds.push(await measure(client, count, perTransaction))
      summarise(rounds, count, report)
    } finally {
      client.release()
    }
  })
}

interface Round {
  derived: number
  byHand: number
  copied: number
  toFinal: number
  toFinalByHand: number
}

async function measure(client: pg.PoolClient, count: number, perTransaction: number): Promise<Round> {
  await empty(client)
  const transfers = await rowsOf(client, 'chain.transfer', transferColumns, 'made', 'n', perTransaction)
  const derived = await inTransactions(client, count / perTransaction, n => insert(client, transfers, n))
  const {rows} = await client.query<{n: string}>('select count(*) as n from app.delivery')
  if (Number(rows[0]!.n) !== count) throw new Error(`${rows[0]!.n} deliveries, expected ${count}`)
  const made = [
    transfers,
    await rowsOf(client, 'app.deposit', depositColumns, 'app.deposit', 'seq', perTransaction),
    await rowsOf(client, 'app.event', eventColumns, 'app.event', 'position', perTransaction),
    await rowsOf(client, 'app.delivery', deliveryColumns, 'app.delivery', 'id', perTransaction),
  ]
  const toFinal = await time(() => client.query(`select chain.finalise('ETH', 1000000, '0xfinal')`))
  const confirmed = `(select * from app.event where type = 'deposit.confirmed') e`
  const followed = [
    await rowsOf(client, 'app.event', eventColumns, confirmed, 'position', count),
    await rowsOf(
      client,
      'app.delivery',
      deliveryColumns,
      `(select d.* from app.delivery d join ${confirmed} on e.id = d.event_id) d`,
      'id',
      count,
    ),
    await rowsOf(client, 'app.balance_delta', deltaColumns, 'app.balance_delta', 'id'),
    await rowsOf(client, 'app.ledger_entry', ledgerColumns, 'app.ledger_entry', 'id'),
    await rowsOf(client, 'app.holding', holdingColumns, 'app.holding', 'address'),
  ]
  const finalised = await rowsOf(
    client,
    'app.deposit',
    'id, version, finalised_at, finalisation',
    'app.deposit',
    'seq',
    count,
  )

  await empty(client)
  await client.query('set session_replication_role = replica') // no triggers
  const byHand = await inTransactions(client, count / perTransaction, async n => {
    for (const rows of made) await insert(client, rows, n)
    await client.query(`select app.enqueue('sequence_events')`)
  })
  const toFinalByHand = await inTransactions(client, 1, async () => {
    await client.query(
      `update app.deposit d set status = 'final', version = f.version, finalised_at = f.finalised_at, finalisation = f.finalisation
       from unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::bigint[]) as f (id, version, finalised_at, finalisation) where d.id = f.id`,
      finalised.values[0],
    )
    for (const rows of followed) await insert(client, rows, 0)
    await client.query(`select app.enqueue('sequence_events')`)
  })
  await empty(client)
  await client.query('set session_replication_role = replica')
  const file = path.join(tmpdir(), `sluice-bench-${randomBytes(4).toString('hex')}`)
  await client.query(`copy (select ${transferColumns} from made order by n) to '${file}'`)
  const copied = await time(() => client.query(`copy chain.transfer (${transferColumns}) from '${file}'`))
  rmSync(file)
  await client.query('set session_replication_role = origin')
  return {derived, byHand, copied, toFinal, toFinalByHand}
}

interface Rows {
  statement: {name: string; text: string}
  /** The columns' values, for each transaction. */
  values: (string | null)[][][]
}

/** Rows ready to be inserted again by a client, `size` of them at once, or all. */
async function rowsOf(
  client: pg.PoolClient,
  table: string,
  columns: string,
  source: string,
  order: string,
  size?: number,
): Promise<Rows> {
  const names = columns.split(', ')
  const {rows: types} = await client.query<{name: string; type: string}>(
    `select attname as name, format_type(atttypid, null) as type from pg_attribute where attrelid = $1::regclass and attnum > 0`,
    [table],
  )
  const arrays = names.map((name, i) => `$${i + 1}::${types.find(column => column.name === name)!.type}[]`)
  const text = `insert into ${table} (${columns}) select * from unnest(${arrays.join(', ')})`
  const {rows} = await client.query<(string | null)[]>({
    text: `select ${names.map(name => `${name}::text`).join(', ')} from ${source} order by ${order}`,
    rowMode: 'array',
  })
  const each = size ?? rows.length
  const values = Array.from({length: rows.length / each}, (_, n) =>
    names.map((_, i) => rows.slice(n * each, (n + 1) * each).map(row => row[i]!)),
  )
  return {statement: {name: table, text}, values}
}

function insert(client: pg.PoolClient, {statement, values}: Rows, n: number): Promise<unknown> {
  return client.query({...statement, values: values[n]!})
}

/** The best of each. */
function summarise(rounds: Round[], count: number, report: Report): void {
  const best = (key: keyof Round) => count / Math.min(...rounds.map(round => round[key]))
  const derived = {value: best('derived'), unit: 'deposits/s'}
  const toFinal = {value: best('toFinal'), unit: 'deposits/s'}
  report({what: 'deriving deposits, over the same rows by hand', ...derived, floor: best('byHand'), aim: '0.8'})
  report({what: 'deriving deposits, over COPY of the transfers', ...derived, floor: best('copied'), aim: '0.15'})
  report({what: 'finalisation to final, over the same rows by hand', ...toFinal, floor: best('toFinalByHand')})
}

async function makeTransfers(pool: pg.Pool, count: number): Promise<void> {
  await pool.query(
    `create unlogged table made as select n, 'ETH:' || txid || ':0' as id, 'ETH' as chain, txid, 0 as output_index, 1 + n / 5 as block_height,
       '0x' || encode(sha256((n / 5)::text::bytea), 'hex') as block_hash, now() as block_time, 'USDC' as token, (1000000 + n)::numeric as amount,
       '0x' || lpad(to_hex(n), 40, 'e') as sender, '0x' || lpad(to_hex(n * 7919 % 100000), 40, '0') as recipient
     from (select n, '0x' || encode(sha256(n::text::bytea), 'hex') as txid from generate_series(1, $1::int) n) m`,
    [count],
  )
  await pool.query('create unique index on made (n); analyze made')
}

async function empty(client: pg.PoolClient): Promise<void> {
  await client.query('set session_replication_role = replica')
  await client.query(
    `truncate chain.transfer, app.deposit, app.event, app.delivery, app.balance_delta, app.ledger_entry, app.holding, app.treasury,
       graphile_worker._private_jobs cascade`,
  )
  await client.query(`delete from chain.block;
    insert into chain.block (id, chain, height, hash, parent_hash, time)
    values ('ETH:0', 'ETH', 0, '0x', '', now()), ('ETH:1000000', 'ETH', 1000000, '0xfinal', '', now());
    update chain.cursor set final_height = 0, final_hash = '0x'`)
  await client.query('set session_replication_role = origin')
  await client.query('checkpoint')
}

/** Seconds for so many transactions. */
async function inTransactions(
  client: pg.PoolClient,
  count: number,
  work: (n: number) => Promise<unknown>,
): Promise<number> {
  return time(async () => {
    for (let n = 0; n < count; n++) {
      await client.query('begin')
      await work(n)
      await client.query('commit')
    }
  })
}

async function time(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return (performance.now() - began) / 1000
}
