// Settling: deposits/s when transfers are inserted and everything else follows from them at COMMIT (deposit, event, delivery, job), over
// the very same rows inserted by hand with the triggers switched off, and over COPY of the bare transfers. The last, for scale:
// promotion of all of them to final.
import {randomBytes} from 'node:crypto'
import {tmpdir} from 'node:os'
import path from 'node:path'
import type pg from 'pg'
import {provision, withDatabase} from './database.ts'
import type {Result} from './result.ts'

const transferColumns =
  'id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient'
const depositColumns =
  'id, merchant_id, user_id, chain, token, amount, sender, address, txid, output_index, block_height, block_hash, status, credited, version, created_at'
const eventColumns = 'id, txn, merchant_id, type, subject_id, version, payload, created_at'
const deliveryColumns = 'event_id, endpoint_id, status, next_attempt_at'

/** `count` deposits, `perTransaction` of them in each transaction. */
export function benchSettle(count = 100_000, perTransaction = 1000): Promise<Result[]> {
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
      return summarise(rounds, count)
    } finally {
      client.release()
    }
  })
}

interface Round {
  settled: number
  byHand: number
  copied: number
  promoted: number
}

async function measure(client: pg.PoolClient, count: number, perTransaction: number): Promise<Round> {
  await empty(client)
  const settled = await inTransactions(client, count, perTransaction, async (from, to) => {
    await client.query(
      `insert into chain.transfer (${transferColumns}) select ${transferColumns} from made where n between $1 and $2`,
      [from, to],
    )
  })
  const {rows} = await client.query<{n: string}>('select count(*) as n from app.delivery')
  if (Number(rows[0]!.n) !== count) throw new Error(`${rows[0]!.n} deliveries, expected ${count}`)
  await remember(client)

  const promoted = await time(() =>
    client
      .query('update chain.cursor set final_height = 1000000000')
      .then(() => client.query(`insert into chain.touched_chain values (pg_current_xact_id(), 'ETH')`)),
  )

  await empty(client)
  await client.query('set session_replication_role = replica') // no triggers
  const byHand = await inTransactions(client, count, perTransaction, async (from, to) => {
    const rows = [from, to]
    await client.query(
      `insert into chain.transfer (${transferColumns}) select ${transferColumns} from made where n between $1 and $2`,
      rows,
    )
    await client.query(
      `insert into app.deposit (${depositColumns}) select ${depositColumns} from kept_deposit where n between $1 and $2 order by n`,
      rows,
    )
    await client.query(
      `insert into app.event (${eventColumns}) select ${eventColumns} from kept_event where n between $1 and $2 order by n`,
      rows,
    )
    await client.query(
      `insert into app.delivery (${deliveryColumns}) select ${deliveryColumns} from kept_delivery where n between $1 and $2 order by n`,
      rows,
    )
    await client.query(`select app.enqueue('deliver_webhooks')`)
  })
  await empty(client)
  const file = path.join(tmpdir(), `sluice-bench-${randomBytes(4).toString('hex')}`)
  await client.query(`copy (select ${transferColumns} from made order by n) to '${file}'`)
  const copied = await time(() => client.query(`copy chain.transfer (${transferColumns}) from '${file}'`))
  await client.query('set session_replication_role = origin')
  return {settled, byHand, copied, promoted}
}

function summarise(rounds: Round[], count: number): Result[] {
  const best = (key: keyof Round) => count / Math.min(...rounds.map(round => round[key]))
  const settled = {value: best('settled'), unit: 'deposits/s'}
  return [
    {what: 'settling, over the same rows by hand', ...settled, floor: best('byHand'), target: '0.9'},
    {what: 'settling, over COPY of the transfers', ...settled, floor: best('copied'), target: '0.15'},
    {what: 'promotion to final, over settling', value: best('promoted'), unit: 'deposits/s', floor: best('settled')},
  ]
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

/** Keeps what settling made, so that the same rows can be inserted by hand. */
async function remember(client: pg.PoolClient): Promise<void> {
  await client.query(`drop table if exists kept_deposit, kept_event, kept_delivery;
    create unlogged table kept_deposit as select row_number() over (order by seq) as n, * from app.deposit;
    create unlogged table kept_event as select row_number() over (order by position) as n, * from app.event;
    create unlogged table kept_delivery as select row_number() over (order by id) as n, * from app.delivery;
    create index on kept_deposit (n); create index on kept_event (n); create index on kept_delivery (n);
    analyze kept_deposit, kept_event, kept_delivery`)
}

async function empty(client: pg.PoolClient): Promise<void> {
  await client.query('set session_replication_role = replica')
  await client.query(
    'truncate chain.transfer, app.deposit, app.event, app.delivery, app.balance_delta, graphile_worker._private_jobs cascade',
  )
  await client.query('set session_replication_role = origin')
  await client.query(`update chain.cursor set final_height = 0`)
  await client.query('checkpoint')
}

/** Seconds for all rows, `size` of them in each transaction. */
async function inTransactions(
  client: pg.PoolClient,
  count: number,
  size: number,
  work: (from: number, to: number) => Promise<void>,
): Promise<number> {
  return time(async () => {
    for (let from = 1; from <= count; from += size) {
      await client.query('begin')
      await work(from, from + size - 1)
      await client.query('commit')
    }
  })
}

async function time(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return (performance.now() - began) / 1000
}

if (process.argv[1] === import.meta.filename) {
  for (const result of await benchSettle())
    console.log(result.what, result.value.toFixed(0), result.floor.toFixed(0), (result.value / result.floor).toFixed(2))
}
