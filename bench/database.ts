// The database of a bench: an embedded Postgres in a temporary directory, with fsync on as in production, and a fresh
// migrated database.
import {chmodSync, mkdtempSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import pg from 'pg'
import {migrate} from '../db/migrate/migrate.ts'
import {startPostgres} from '../db/server/embedded.ts'

export interface Bench {
  ownerUrl: string
  pool: pg.Pool
}

/** Runs the work on a new database, and removes everything afterwards. */
export async function withDatabase<T>(work: (bench: Bench) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
  chmodSync(directory, 0o755) // as root, the server runs as another user
  const server = await startPostgres({dir: directory, flags: ['-c', 'shared_buffers=1GB', '-c', 'max_wal_size=8GB']})
  const pool = new pg.Pool({connectionString: server.url, max: 5})
  try {
    await migrate(server.url)
    return await work({ownerUrl: server.url, pool})
  } finally {
    await pool.end()
    await server.stop()
    rmSync(directory, {recursive: true, force: true})
  }
}

/**
 * One merchant with one user who owns `count` addresses on a chain, made by SQL. `address`: an expression of n, in
 * lower case.
 */
export async function provision(
  pool: pg.Pool,
  chain: string,
  count: number,
  address: string,
): Promise<{merchantId: string}> {
  const [merchant] = (
    await pool.query<{id: string}>(
      `insert into app.merchant (name, prefix, fee_bps) values ('Bench', 'bench', 100) returning id`,
    )
  ).rows
  const [user] = (
    await pool.query<{id: string}>(
      `insert into app.user (merchant_id, external_ref) values ($1, 'bench') returning id`,
      [merchant!.id],
    )
  ).rows
  await pool.query(
    `insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
     select $1, ${address}, ${address}, $2, $3, true from generate_series(0, $4::int - 1) n`,
    [chain, user!.id, merchant!.id, count],
  )
  await pool.query('vacuum analyze app.address')
  return {merchantId: merchant!.id}
}

/** The same for addresses that SQL cannot make: `address` makes the n-th. */
export async function provisionMade(
  pool: pg.Pool,
  chain: string,
  count: number,
  address: (n: number) => string,
): Promise<void> {
  await pool.query('alter table app.address disable trigger announce_address') // nothing listens, and a million notifications would take long
  await provision(pool, chain, 1, "'none'")
  const atOnce = 50_000
  for (let from = 0; from < count; from += atOnce)
    await pool.query(
      `insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
       select chain, name, name, user_id, merchant_id, true from app.address, unnest($1::text[]) name where address = 'none'`,
      [Array.from({length: Math.min(atOnce, count - from)}, (_, n) => address(from + n))],
    )
  await pool.query('vacuum analyze app.address')
}
