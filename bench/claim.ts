// Claiming: how long POST /v1/payouts takes at 500 and at BENCH_DEPOSITS (100 thousand) unclaimed deposits, by the
// statement of the API, with the API's role; and how long another writer of deposits of the same merchant and token
// waits meanwhile, and while a job allocates the claimed rows. In transactions like the worker's, with fsync on. The
// floor of the allocation: the same rows updated by hand, as many in each transaction, with the triggers off.
import {setTimeout as sleep} from 'node:timers/promises'
import pg from 'pg'
import {roleUrl} from '../db/migrate/migrate.ts'
import {type Bench, provision, withDatabase} from './database.ts'
import type {Report} from './result.ts'

const perTransaction = 10_000
const allocationBatch = 10_000

export async function benchClaim(report: Report): Promise<void> {
  await claim(report, 500)
  await claim(report, Number(process.env.BENCH_DEPOSITS ?? 100_000))
}

function claim(report: Report, deposits: number): Promise<void> {
  return withDatabase(async bench => {
    const {pool} = bench
    const {merchantId} = await provision(pool, 'ETH', 1000, `'0x' || lpad(to_hex(n), 40, '0')`)
    await pool.query(`insert into app.merchant_chain (merchant_id, chain) values ($1, 'ETH')`, [merchantId])
    await pool.query(`select app.set_payout_address($1, 'ETH', '0x00000000000000000000000000000000000000AA')`, [
      merchantId,
    ])
    await pool.query(`select chain.anchor('ETH', 'bench', 0, '0x', now())`)
    for (let from = 0; from < deposits; from += perTransaction)
      await write(pool, from, Math.min(perTransaction, deposits - from))
    await pool.query('vacuum analyze app.deposit')
    const writer = new Writer(pool, deposits)
    const before = await writer.during(() => sleep(1000))
    const api = await connect(bench, 'sluice_api')
    const jobs = await connect(bench, 'sluice_jobs')
    let claimMs = 0
    let allocationSeconds = 0
    const during = await writer.during(async () => {
      claimMs = await time(() =>
        api.query(`select app.create_payout($1, 'ETH', 'USDC', false, null, null)`, [merchantId]),
      )
      const allocate = 'select app.allocate_deposits($1, $2, $3, $4) as more'
      allocationSeconds =
        (await time(async () => {
          while ((await jobs.query(allocate, [merchantId, 'ETH', 'USDC', allocationBatch])).rows[0].more);
        })) / 1000
    })
    await api.end()
    await jobs.end()
    const what = `a payout of ${deposits.toLocaleString('en')} deposits`
    report({what: `${what}: the request`, value: claimMs, unit: 'ms', aim: '100 ms'})
    const floor = await allocateByHand(pool)
    report({what: `${what}: allocation of the rest`, value: allocationSeconds, unit: 's', floor})
    report({what: `${what}: longest wait of another writer, over before`, value: during, unit: 'ms', floor: before})
  })
}

/** Seconds. */
async function allocateByHand(pool: pg.Pool): Promise<number> {
  const client = await pool.connect()
  await client.query(`set session_replication_role = replica; update app.deposit set settlement_id = null`)
  await client.query('vacuum analyze app.deposit')
  const update = `update app.deposit d set settlement_id = '019b0000-0000-7000-8000-000000000000'
    from (select id from app.deposit where settlement_id is null order by seq limit ${allocationBatch}) n where d.id = n.id`
  const ms = await time(async () => {
    while ((await client.query(update)).rowCount);
  })
  client.release(true)
  return ms / 1000
}

/** Deposits of one USDC, final at once, as an indexer writes them: a block each time. */
async function write(pool: pg.Pool, from: number, count: number): Promise<void> {
  const height = 1 + from
  const hash = `0x${height.toString(16)}`
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query(
      `insert into chain.block (id, chain, height, hash, parent_hash, time) values ('ETH:' || $1::int, 'ETH', $1::int, $2, '', now())`,
      [height, hash],
    )
    await client.query(
      `insert into chain.transfer (id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient)
       select 'ETH:0x' || to_hex(n) || ':0', 'ETH', '0x' || to_hex(n), 0, $3, $4, now(), 'USDC', 1000000, '0x', '0x' || lpad(to_hex(n % 1000), 40, '0')
       from generate_series($1::int, $1::int + $2::int - 1) n`,
      [from, count, height, hash],
    )
    await client.query('commit')
    await client.query(`select chain.finalise('ETH', $1, $2)`, [height, hash])
  } finally {
    client.release()
  }
}

/** The other writer, which writes one deposit after the other. */
class Writer {
  readonly #pool: pg.Pool
  #next: number

  constructor(pool: pg.Pool, next: number) {
    this.#pool = pool
    this.#next = next
  }

  /** Writes while `work` runs; resolves to the longest time of one deposit, in milliseconds. */
  async during(work: () => Promise<unknown>): Promise<number> {
    let isOver = false
    let longest = 0
    const writing = (async () => {
      while (!isOver) longest = Math.max(longest, await time(() => write(this.#pool, this.#next++, 1)))
    })()
    await work()
    isOver = true
    await writing
    return longest
  }
}

async function connect({ownerUrl}: Bench, role: 'sluice_api' | 'sluice_jobs'): Promise<pg.Client> {
  const client = new pg.Client({connectionString: roleUrl(ownerUrl, role)})
  await client.connect()
  await client.query('select 1')
  return client
}

/** Milliseconds. */
async function time(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}
