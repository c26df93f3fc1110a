// Migrates a database while the service works on it. Promises: each file of db/tables runs once, in order, in a
// transaction of its own, under an advisory lock, and never changes afterwards (its checksum is stored). Then the
// changed functions and views are replaced, all together (db/migrate/definitions.ts). A statement that has to wait for
// a lock gives up at once, so that nothing queues behind it, and is tried again for some minutes. graphile-worker's
// schema, the registry of chains and assets, the state tables of each chain, and the passwords, connection limits and
// settings of the roles are updated, too. Running it again changes nothing.
//
// Work that takes long on a big table, and must not block others, stands at the top of a file, above the line
// `-- Transaction`: steps with blank lines between them, each in a transaction of its own, and each safe to repeat,
// because a file that failed starts from its top. A step that works CONCURRENTLY blocks no other statement while it
// waits, so it has no time limit. db/README.md says how to change something, and what a migration may do.
import {createHash, createHmac} from 'node:crypto'
import {readdirSync, readFileSync} from 'node:fs'
import {setTimeout as sleep} from 'node:timers/promises'
import pg from 'pg'
import {PermanentError, RetryableError} from '../../base/errors.ts'
import {familyOf} from '../../chains/families.ts'
import {chains} from '../../chains/registry.ts'
import {connectionLimit} from '../client/connections.ts'
import {openPool, withClient} from '../client/pool.ts'
import {describeServer, requireVersion} from '../server/requirements.ts'
import {upsertAssets} from './assets.ts'
import {applyDefinitions, dropWhatIsGone, makeRegister, readDefinitions} from './definitions.ts'
import {writeReasons} from './reasons.ts'

export const roles = [
  'sluice_indexer',
  'sluice_api',
  'sluice_jobs',
  'sluice_custody',
  'sluice_auth',
  'sluice_dashboard',
  'sluice_analyst',
] as const
export type Role = (typeof roles)[number]

const ownFolder = new URL('../', import.meta.url)
const stepsEnd = /^-- Transaction$/m

/** How a migration waits for locks. While it waits, other statements on the same table wait behind it. */
export interface LockWait {
  /** Shorter than the server's deadlock_timeout (1 s): in a deadlock the migration always gives way. */
  lockTimeoutMs: number
  pauseMs: number
  attempts: number
}
const turnPauseMs = 100
const lockWait: LockWait = {lockTimeoutMs: 400, pauseMs: 1000, attempts: 200}

interface Migration {
  /** Path below db/. */
  name: string
  /** Statements that run before the transaction, one by one. */
  steps: string[]
  sql: string
  checksum: string
}

function readMigrations(folder: URL): Migration[] {
  const files = readdirSync(new URL('tables/', folder)).filter(name => name.endsWith('.sql'))
  return files.sort().map(file => {
    const name = `tables/${file}`
    const text = readFileSync(new URL(name, folder), 'utf8')
    const [sql = '', steps = ''] = text.split(stepsEnd).reverse()
    const checksum = createHash('sha256').update(text).digest('hex')
    return {name, steps: steps.split(/\n{2,}/).filter(step => step.trim()), sql, checksum}
  })
}

/**
 * The URL with which a process connects as its own role. The role's password is derived from the owner's, so nothing
 * more has to be stored, and none of them reveals another.
 */
export function roleUrl(ownerUrl: string, role: Role): string {
  const url = new URL(ownerUrl)
  url.password = rolePassword(ownerUrl, role)
  url.username = role
  return url.toString()
}

function rolePassword(ownerUrl: string, role: Role): string {
  return createHmac('sha256', decodeURIComponent(new URL(ownerUrl).password))
    .update(role)
    .digest('base64url')
}

/**
 * Migrates the database that an owner's URL names, from a folder with tables, functions and views (by default Sluice's
 * own). Resolves to the files that were applied now. Throws PermanentError if the server is too old, if a file of
 * tables that already ran was edited since or is gone, if the database is from before this layout, or if something that
 * Sluice did not make depends on what has to change. Throws RetryableError if others held the locks that a file needs
 * for longer than it may wait.
 */
export async function migrate(
  ownerUrl: string,
  folder = ownFolder,
  wait: LockWait = lockWait,
): Promise<{applied: string[]}> {
  return await withClient(ownerUrl, 'sluice-migrate', async client => {
    requireVersion(await describeServer(client))
    await waitForTurn(client)
    const definitions = readDefinitions(folder)
    const checksums = await appliedBefore(client)
    await withLockWait(client, wait, () => dropWhatIsGone(client, definitions))
    const applied = await applyMigrations(client, readMigrations(folder), checksums, wait)
    await writeReasons(client)
    applied.push(...(await withLockWait(client, wait, () => applyDefinitions(client, definitions, checksums))))
    await client.query('set lock_timeout = 0')
    await setRoles(client, ownerUrl)
    await migrateJobs(client, ownerUrl)
    await syncRegistry(client)
    return {applied}
  })
}

/**
 * Gives the owner, and with it every role, another password in one transaction: after it the old ones do not work. Open
 * connections stay open.
 */
export async function changeOwnerPassword(ownerUrl: string, password: string): Promise<void> {
  await withClient(ownerUrl, 'sluice-password', async client => {
    await waitForTurn(client)
    await inTransaction(client, async () => {
      await client.query(`alter role current_user password ${pg.escapeLiteral(password)}`)
      await setRoles(client, withPassword(ownerUrl, password))
    })
  })
}

/** A URL with another password. */
export function withPassword(ownerUrl: string, password: string): string {
  const url = new URL(ownerUrl)
  url.password = password
  return url.href
}

// Polls, because an index that is built CONCURRENTLY waits for every waiting statement: both would wait for ever.
async function waitForTurn(client: pg.Client): Promise<void> {
  for (;;) {
    const {rows} = await client.query<{mine: boolean}>(
      `select pg_try_advisory_lock(hashtextextended('sluice.migrate', 0)) as mine`,
    )
    if (rows[0]!.mine) return
    await sleep(turnPauseMs)
  }
}

async function applyMigrations(
  client: pg.Client,
  migrations: Migration[],
  checksums: Map<string, string>,
  wait: LockWait,
): Promise<string[]> {
  const names = migrations.map(({name}) => name)
  // A file after our last one belongs to a newer version, from which an operator goes back.
  const gone = [...checksums.keys()].find(
    name => name.startsWith('tables/') && !names.includes(name) && name < names.at(-1)!,
  )
  if (gone) throw new PermanentError(`db/${gone} ran here, and is gone; restore the file`)
  const applied: string[] = []
  for (const migration of migrations) {
    const {name, checksum} = migration
    const known = checksums.get(name)
    if (known === checksum) continue
    if (known) throw new PermanentError(`db/${name} was changed after it ran here; add a new file to db/tables instead`)
    await apply(client, migration, wait)
    applied.push(name)
  }
  return applied
}

/**
 * The checksums of the files that ran here, by their names. Throws, and changes nothing, if the database has the layout
 * before this one.
 */
async function appliedBefore(client: pg.Client): Promise<Map<string, string>> {
  const {rows: exists} = await client.query(
    `select from pg_tables where (schemaname, tablename) = ('public', 'sluice_migration')`,
  )
  const {rows} = exists.length
    ? await client.query<{name: string; checksum: string}>('select name, checksum from public.sluice_migration')
    : {rows: []}
  if (rows.some(({name}) => !name.includes('/')))
    throw new PermanentError(
      'this database was made by a version of Sluice from before its first release, and cannot be migrated to this version; use a new, empty database',
    )
  if (!exists.length)
    await client.query(`create table public.sluice_migration (
      name text primary key, checksum text not null, applied_at timestamptz not null default clock_timestamp())`)
  await makeRegister(client)
  return new Map(rows.map(({name, checksum}) => [name, checksum]))
}

async function apply(client: pg.Client, {name, steps, sql, checksum}: Migration, wait: LockWait): Promise<void> {
  const outcome = steps.length ? 'will start from its top again' : 'changed nothing'
  const named = (cause: unknown) => {
    if (cause instanceof RetryableError)
      throw new RetryableError(`db/${name} failed and ${outcome}: ${cause.message}`, {cause})
    throw new Error(`db/${name} failed and ${outcome}: ${(cause as Error).message}`, {cause})
  }
  for (const step of steps) {
    const isConcurrent = /\bindex concurrently\b/.test(step)
    // A failed step leaves an index that its file must drop first.
    const once = {...wait, lockTimeoutMs: 0, attempts: 1}
    await withRetries(client, isConcurrent ? once : wait, () => client.query(step)).catch(named)
  }
  await withLockWait(client, wait, async () => {
    await client.query(sql)
    await client.query('insert into public.sluice_migration (name, checksum) values ($1, $2)', [name, checksum])
  }).catch(named)
}

/** Works in one transaction, which is begun again while others hold the locks that it needs. */
function withLockWait<T>(client: pg.Client, wait: LockWait, work: () => Promise<T>): Promise<T> {
  return withRetries(client, wait, () => inTransaction(client, work))
}

/** Does the work again while others hold the locks that it needs, until the attempts are used up. */
async function withRetries<T>(client: pg.Client, wait: LockWait, work: () => Promise<T>): Promise<T> {
  await client.query(`set lock_timeout = ${wait.lockTimeoutMs}`)
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (cause) {
      if (!isInTheWay(cause)) throw cause
      if (attempt >= wait.attempts)
        throw new RetryableError(
          `other transactions hold the locks that it needs; ${await oldestTransaction(client)}`,
          {cause},
        )
      await sleep(wait.pauseMs)
    }
  }
}

/** lock_not_available, deadlock_detected. */
function isInTheWay(error: unknown): boolean {
  return ['55P03', '40P01'].includes((error as pg.DatabaseError).code ?? '')
}

async function oldestTransaction(client: pg.Client): Promise<string> {
  const {rows} = await client.query<{text: string}>(
    `select format('%s (pid %s), open for %s s', coalesce(nullif(application_name, ''), 'a nameless program'), pid,
       extract(epoch from now() - xact_start)::int) as text
     from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
     order by xact_start limit 1`,
  )
  const [oldest] = rows
  return oldest
    ? `the oldest transaction is ${oldest.text}: wait until it ends, or end it with select pg_terminate_backend(pid), and start again`
    : 'start again'
}

// Roles belong to the whole server: two databases migrated at once may collide on the same catalog row, hence the
// retry.
async function setRoles(client: pg.Client, ownerUrl: string): Promise<void> {
  const {rows} = await client.query<{max: number}>(`select current_setting('max_connections')::int as max`)
  for (const role of roles) {
    const limit = connectionLimit(role, rows[0]!.max)
    const sql = `alter role ${role} password '${rolePassword(ownerUrl, role)}' connection limit ${limit}`
    await client.query(sql).catch(() => client.query(sql))
  }
  for (const sql of await analystHabits(client)) await client.query(sql).catch(() => client.query(sql))
  // Not in a migration: a dump does not contain grants on the database itself.
  await client.query(
    `do $$ begin execute format('revoke temporary on database %I from public', current_database()); end $$`,
  )
}

const habits = {
  default_transaction_read_only: 'on',
  statement_timeout: '60s',
  idle_in_transaction_session_timeout: '60s',
  timezone: 'UTC',
  search_path: 'analytics',
}

// PostgreSQL lets every role change its own settings for later sessions. The statements that set the analyst's back;
// none if nothing changed.
async function analystHabits(client: pg.Client): Promise<string[]> {
  const {rows} = await client.query<{here: boolean; settings: string[]}>(
    `select d.oid is not null as here, s.setconfig as settings from pg_db_role_setting s left join pg_database d on d.oid = s.setdatabase
     where s.setrole = 'sluice_analyst'::regrole and (d.oid is null or d.datname = current_database())`,
  )
  const kept = new Set(rows.filter(({here}) => !here).flatMap(({settings}) => settings.map(one => one.toLowerCase())))
  const changed = Object.entries(habits).filter(([name, value]) => !kept.has(`${name}=${value}`.toLowerCase()))
  const again = changed.map(([name, value]) => `alter role sluice_analyst set ${name} = '${value}'`)
  const {database} = client
  return rows.some(({here}) => here)
    ? [`alter role sluice_analyst in database ${pg.escapeIdentifier(database!)} reset all`, ...again]
    : again
}

// The owner owns graphile-worker's schema, too, because functions of the owner add jobs: another role that owned what
// they call could replace its code, and so act as the owner. Only their owner can use its tables (row security without
// a policy), so the worker gets policies.
async function migrateJobs(client: pg.Client, ownerUrl: string): Promise<void> {
  const {makeWorkerUtils} = await import('graphile-worker') // loaded only here: the URL of a role does not need it
  const pool = openPool(ownerUrl, {name: 'sluice-migrate', max: 1, queryTimeoutMs: 0})
  const utils = await makeWorkerUtils({pgPool: pool})
  try {
    await utils.migrate()
  } finally {
    await utils.release()
    await pool.end()
  }
  await client.query(grantGraphileWorker)
}

const grantGraphileWorker = `
  grant usage on schema graphile_worker to sluice_jobs;
  grant select, insert, update, delete on all tables in schema graphile_worker to sluice_jobs;
  revoke insert, update, delete on graphile_worker.migrations from sluice_jobs; -- a row of a later version stops every worker, for good
  grant usage on all sequences in schema graphile_worker to sluice_jobs;
  grant execute on all functions in schema graphile_worker to sluice_jobs;
  do $$
  declare locked regclass;
  begin
    for locked in
      select oid from pg_class c where relnamespace = 'graphile_worker'::regnamespace and relrowsecurity
        and not exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'sluice_jobs')
    loop
      execute format('create policy sluice_jobs on %s to sluice_jobs using (true) with check (true)', locked);
    end loop;
  end $$`

async function syncRegistry(client: pg.Client): Promise<void> {
  for (const chain of chains) {
    await client.query('select chain.install($1)', [chain.code])
    const {attemptsExcludeBy, expiry, showsUnconfirmed, coinbase, foldsAddresses, nativeSweepsPaidBy} = familyOf(chain)
    await client.query(
      `insert into app.chain (chain, family, native_token, attempts_exclude_by, shows_unconfirmed, coinbase_sender, coinbase_maturity,
         folds_addresses, ends_by, longest_lifetime, longest_lifetime_ms, treasury_pays_native_sweeps)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) on conflict (chain) do update
       set shows_unconfirmed = excluded.shows_unconfirmed, coinbase_sender = excluded.coinbase_sender, coinbase_maturity = excluded.coinbase_maturity,
         longest_lifetime = excluded.longest_lifetime, longest_lifetime_ms = excluded.longest_lifetime_ms,
         treasury_pays_native_sweeps = excluded.treasury_pays_native_sweeps`,
      [
        chain.code,
        chain.family,
        chain.assets[0].token,
        attemptsExcludeBy,
        showsUnconfirmed,
        coinbase?.sender,
        coinbase?.maturity,
        foldsAddresses,
        expiry?.endsBy,
        expiry?.longest,
        expiry?.longestMs,
        nativeSweepsPaidBy === 'treasury',
      ],
    )
    await upsertAssets(client, chain.code, chain.assets)
  }
}

async function inTransaction<T>(client: pg.Client, work: () => Promise<T>): Promise<T> {
  await client.query('begin')
  try {
    const result = await work()
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback')
    throw error
  }
}
