// Brings a database up to date, while the service works on it. Promises: each file of db/migrations runs once, in order, in a transaction
// of its own, under an advisory lock, and never changes afterwards (its checksum is kept); a migration that has to wait for a lock gives
// up at once, so that nobody queues behind it, and tries again for some minutes; graphile-worker's schema, the registry of assets, the
// state tables of each chain, and the passwords, connection limits and habits of the roles are brought up to date with it. Running it again
// changes nothing.
//
// What takes long on a big table, and must not keep anybody waiting, stands at the top of a file, above the line `-- Transaction`: steps
// with blank lines between them, each in a transaction of its own, and each safe to repeat, because a file that failed starts from its top.
// One that works CONCURRENTLY holds nobody up while it waits, so it waits for as long as it takes.
// docs/operations/upgrade.md says what a migration may do.
import {createHash, createHmac} from 'node:crypto'
import {readdirSync, readFileSync} from 'node:fs'
import {setTimeout as sleep} from 'node:timers/promises'
import pg from 'pg'
import {chains} from '../chains/registry.ts'
import {PermanentError, RetryableError} from '../service/errors.ts'
import {connectionLimit} from './connections.ts'

export const roles = ['sluice_indexer', 'sluice_api', 'sluice_jobs', 'sluice_custody', 'sluice_analyst'] as const
export type Role = (typeof roles)[number]

const ownMigrations = new URL('migrations/', import.meta.url)
const stepsEnd = /^-- Transaction$/m

/** How a migration waits for locks. While it waits, whoever wants the same table waits behind it. */
export interface Patience {
  /** Shorter than the server's deadlock_timeout (1 s): in a deadlock it is always the migration that gives way. */
  lockTimeoutMs: number
  pauseMs: number
  attempts: number
}
const turnPauseMs = 100
const patience: Patience = {lockTimeoutMs: 400, pauseMs: 1000, attempts: 200}

interface Migration {
  name: string
  /** What runs before the transaction, one by one. */
  steps: string[]
  sql: string
  checksum: string
}

function readMigrations(folder: URL): Migration[] {
  const names = readdirSync(folder).filter(name => name.endsWith('.sql'))
  return names.sort().map(name => {
    const text = readFileSync(new URL(name, folder), 'utf8')
    const [sql = '', steps = ''] = text.split(stepsEnd).reverse()
    const checksum = createHash('sha256').update(text).digest('hex')
    return {name, steps: steps.split(/\n{2,}/).filter(step => step.trim()), sql, checksum}
  })
}

/**
 * The URL with which a process connects as its own role. The role's password is derived from the owner's, so nothing more has to be
 * stored, and none of them reveals another.
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
 * Migrates the database that an owner's URL names, from a folder of migrations that is Sluice's own unless told. Resolves to the names of
 * those that ran now. Throws PermanentError if a migration that already ran was edited since, RetryableError if others held the locks that
 * one needs for longer than its patience.
 */
export async function migrate(
  ownerUrl: string,
  folder = ownMigrations,
  wait: Patience = patience,
): Promise<{applied: string[]}> {
  const client = new pg.Client({connectionString: ownerUrl, application_name: 'sluice-migrate'})
  await client.connect()
  try {
    await waitForTurn(client)
    const applied = await applyMigrations(client, readMigrations(folder), wait)
    await client.query('set lock_timeout = 0')
    await setRoles(client, ownerUrl)
    await migrateJobs(client, ownerUrl)
    await syncRegistry(client)
    return {applied}
  } finally {
    await client.end()
  }
}

/**
 * Gives the owner another password, and with it every role, in one transaction: after it the old ones open nothing. Connections that are open
 * stay so.
 */
export async function changeOwnerPassword(ownerUrl: string, password: string): Promise<void> {
  const client = new pg.Client({connectionString: ownerUrl, application_name: 'sluice-password'})
  await client.connect()
  try {
    await waitForTurn(client)
    await inTransaction(client, async () => {
      await client.query(`alter role current_user password ${pg.escapeLiteral(password)}`)
      await setRoles(client, withPassword(ownerUrl, password))
    })
  } finally {
    await client.end()
  }
}

/** A URL with another password. */
export function withPassword(ownerUrl: string, password: string): string {
  const url = new URL(ownerUrl)
  url.password = password
  return url.href
}

// Asks again and again, because a statement that waits is what an index that is built CONCURRENTLY waits for: both would wait for ever.
async function waitForTurn(client: pg.Client): Promise<void> {
  for (;;) {
    const {rows} = await client.query<{mine: boolean}>(
      `select pg_try_advisory_lock(hashtextextended('sluice.migrate', 0)) as mine`,
    )
    if (rows[0]!.mine) return
    await sleep(turnPauseMs)
  }
}

async function applyMigrations(client: pg.Client, migrations: Migration[], wait: Patience): Promise<string[]> {
  await client.query(`create table if not exists public.sluice_migration (
    name text primary key, checksum text not null, applied_at timestamptz not null default clock_timestamp())`)
  const done = await client.query<{name: string; checksum: string}>(
    'select name, checksum from public.sluice_migration',
  )
  const checksums = new Map(done.rows.map(row => [row.name, row.checksum]))
  const applied: string[] = []
  for (const migration of migrations) {
    const {name, checksum} = migration
    const known = checksums.get(name)
    if (known === checksum) continue
    if (known)
      throw new PermanentError(`db/migrations/${name} was changed after it ran here; add a new migration instead`)
    await apply(client, migration, wait)
    applied.push(name)
  }
  return applied
}

async function apply(client: pg.Client, {name, steps, sql, checksum}: Migration, wait: Patience): Promise<void> {
  const transaction = async () => {
    await client.query(sql)
    await client.query('insert into public.sluice_migration (name, checksum) values ($1, $2)', [name, checksum])
  }
  const works: (() => Promise<unknown>)[] = steps.map(step => () => client.query(step))
  const outcome = steps.length ? 'will start from its top again' : 'changed nothing'
  for (const [n, work] of [...works, () => inTransaction(client, transaction)].entries()) {
    const isConcurrent = /\bindex concurrently\b/.test(steps[n] ?? '')
    await client.query(`set lock_timeout = ${isConcurrent ? 0 : wait.lockTimeoutMs}`)
    const attempts = isConcurrent ? 1 : wait.attempts // one that failed leaves an index that its file must drop first
    await patiently(work, {...wait, attempts}).catch(async cause => {
      const message = `db/migrations/${name} failed and ${outcome}: `
      if (!isInTheWay(cause)) throw new Error(message + cause.message, {cause})
      throw new RetryableError(`${message}others hold the locks that it needs; ${await oldestTransaction(client)}`, {
        cause,
      })
    })
  }
}

/** Does the work again while others hold the locks that it needs, until the attempts are used up. */
async function patiently<T>(work: () => Promise<T>, {attempts, pauseMs}: Patience): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (!isInTheWay(error) || attempt >= attempts) throw error
      await sleep(pauseMs)
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
    ? `the oldest transaction is that of ${oldest.text}: wait for its end, or end it with select pg_terminate_backend(pid), and start again`
    : 'start again'
}

// Roles belong to the whole server: two databases migrated at once may collide on the same catalog row, hence the retry.
async function setRoles(client: pg.Client, ownerUrl: string): Promise<void> {
  const {rows} = await client.query<{max: number}>(`select current_setting('max_connections')::int as max`)
  for (const role of roles) {
    const limit = connectionLimit(role, rows[0]!.max)
    const sql = `alter role ${role} password '${rolePassword(ownerUrl, role)}' connection limit ${limit}`
    await client.query(sql).catch(() => client.query(sql))
  }
  for (const sql of await analystHabits(client)) await client.query(sql).catch(() => client.query(sql))
  // Not in a migration: a dump does not carry what is granted on the database itself.
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

// PostgreSQL lets every role change its own settings for the sessions to come. What to run to have the analyst's as they were; nothing if they are.
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

// The owner owns graphile-worker's schema, too, because functions of the owner add jobs: whoever owned what they call could put other code
// in its place, and would be the owner. Its tables let only their owner in (row security without a policy), so the worker gets policies.
async function migrateJobs(client: pg.Client, ownerUrl: string): Promise<void> {
  await client.query(ownGraphileWorker) // older versions of Sluice let sluice_jobs own it
  const {makeWorkerUtils} = await import('graphile-worker') // whoever just wants the URL of a role does without it
  const utils = await makeWorkerUtils({connectionString: ownerUrl})
  try {
    await utils.migrate()
  } finally {
    await utils.release()
  }
  await client.query(grantGraphileWorker)
}

const ownGraphileWorker = `do $$
declare item text;
begin
  for item in
    select format('schema %I', nspname) from pg_namespace where nspname = 'graphile_worker' and nspowner <> current_user::regrole
    union all
    select format('%s %s', case relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end, oid::regclass)
    from pg_class c where relnamespace = to_regnamespace('graphile_worker') and relkind in ('r', 'v', 'S') and relowner <> current_user::regrole
      and not exists (select from pg_depend d where d.objid = c.oid and d.deptype in ('a', 'i') and c.relkind = 'S')
    union all
    select format('function %s', oid::regprocedure) from pg_proc
    where pronamespace = to_regnamespace('graphile_worker') and proowner <> current_user::regrole
    union all
    select format('type %s', t.oid::regtype) from pg_type t left join pg_class c on c.oid = t.typrelid
    where t.typnamespace = to_regnamespace('graphile_worker') and t.typowner <> current_user::regrole and t.typelem = 0
      and (t.typrelid = 0 or c.relkind = 'c')
  loop
    execute format('alter %s owner to %I', item, current_user);
  end loop;
end $$`

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
    await client.query(
      'insert into app.chain (chain, family, native_token) values ($1, $2, $3) on conflict do nothing',
      [chain.code, chain.family, chain.assets[0].token],
    )
    for (const asset of chain.assets) {
      const {rowCount} = await client.query(
        `insert into app.asset as a (chain, token, name, display_name, decimals, min_payout) values ($1, $2, $3, $4, $5, $6)
         on conflict (chain, token) do update
         set name = excluded.name, display_name = excluded.display_name, min_payout = greatest(a.min_payout, excluded.min_payout)
         where a.decimals = excluded.decimals`,
        [chain.code, asset.token, asset.name, asset.displayName, asset.decimals, String(asset.minPayout ?? 1n)],
      )
      if (rowCount) continue
      throw new PermanentError(
        `chains/registry.ts gives ${chain.code} ${asset.token} ${asset.decimals} decimals, and the amounts stored here have others`,
      )
    }
  }
}

async function inTransaction(client: pg.Client, work: () => Promise<void>): Promise<void> {
  await client.query('begin')
  try {
    await work()
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    throw error
  }
}
