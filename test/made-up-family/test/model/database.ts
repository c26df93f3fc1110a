// The database of the model: the real schema, on a clock that the model moves, with copies of its rows that can be
// restored. Promises: everything in it that asks for the time gets the model's, because the clock was exchanged before
// the schema was made. A copy has all rows of all tables that the service writes.
import {createHash, randomBytes} from 'node:crypto'
import pg from 'pg'
import {migrate, type Role, roleUrl} from '../../db/migrate/migrate.ts'

const clock = `
  alter function pg_catalog.clock_timestamp() rename to real_clock_timestamp;
  create schema model;
  create table model.clock (ahead interval not null);
  insert into model.clock values ('0');
  grant usage on schema model to public;
  grant select on model.clock to public;
  create function pg_catalog.clock_timestamp() returns timestamptz language plpgsql volatile as
    $$ begin return pg_catalog.real_clock_timestamp() + (select ahead from model.clock); end $$;`

/** What functions decide for large tables: to plan each statement anew. Here it would take most of the time. */
const planOnce = `
  do $$ declare f regprocedure; begin
    for f in select oid from pg_proc where array_to_string(proconfig, ' ') like '%plan_cache_mode%' loop
      execute format('alter function %s reset plan_cache_mode', f);
    end loop;
  end $$`

/** All but those that only a migration writes. */
const tables = `
  select format('%I.%I', n.nspname, c.relname) as name, (select string_agg(quote_ident(a.attname), ', ' order by a.attnum) from pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r' and n.nspname !~ '^(pg_|information_schema|model|copy_)'
    and c.relname not in ('sluice_object', 'sluice_migration', 'migrations') order by 1`

/** Nothing vacuums by itself: it would change how long a history takes. */
const restoresBetweenVacuums = 25

export class ModelDatabase {
  readonly ownerUrl: string
  /** The owner, who has every right. */
  readonly pool: pg.Pool
  #restores = 0

  constructor(ownerUrl: string) {
    this.ownerUrl = ownerUrl
    this.pool = new pg.Pool({connectionString: ownerUrl, max: 2})
    this.pool.on('error', () => {})
    this.pool.on('connect', prepareEach)
  }

  url(role: Role): string {
    return roleUrl(this.ownerUrl, role)
  }

  async rows<T extends pg.QueryResultRow>(sql: string, values?: unknown[]): Promise<T[]> {
    return (await this.pool.query<T>(sql, values)).rows
  }

  /** Moves the clock to so far ahead of this machine's. */
  async setClock(aheadMs: number): Promise<void> {
    await this.pool.query(`update model.clock set ahead = $1 * interval '1 millisecond'`, [aheadMs])
  }

  /** Prepares a copy of this name. */
  async prepareCopy(name: string): Promise<void> {
    const all = await this.rows<{name: string; columns: string}>(tables)
    await this.pool.query(`create schema copy_${name}`)
    const bodyOf = (from: (table: string) => string, to: (table: string) => string) =>
      all.map(
        ({name: table, columns}) => `delete from ${to(table)}; insert into ${to(table)} (${columns})
        overriding system value select ${columns} from ${from(table)};`,
      )
    const own = (table: string) => table
    const copied = (table: string) => `copy_${name}."${table.replaceAll('"', '')}"`
    for (const {name: table, columns} of all)
      await this.pool.query(`create unlogged table ${copied(table)} as select ${columns} from ${table} with no data`)
    for (const [what, body] of [
      ['copy', bodyOf(own, copied)],
      ['restore', bodyOf(copied, own)],
    ] as const)
      await this.pool.query(`create function model.${what}_${name}() returns void language plpgsql
        set session_replication_role = replica as $body$\n#variable_conflict use_column\nbegin ${body.join('\n')} end $body$`)
  }

  /** Copies all rows. */
  async copy(name: string): Promise<void> {
    await this.pool.query(`select model.copy_${name}()`)
  }

  /** All rows are as they were when they were copied. */
  async restore(name: string): Promise<void> {
    await this.pool.query(`select model.restore_${name}()`)
    this.#restores += 1
    if (this.#restores % restoresBetweenVacuums === 0) await this.pool.query('vacuum')
  }

  async close(): Promise<void> {
    await this.pool.end()
  }
}

/** Makes so many databases on a server; their URLs. */
export async function makeDatabases(serverUrl: string, count: number): Promise<string[]> {
  const names = Array.from({length: count}, () => `model_${randomBytes(6).toString('hex')}`)
  const urls = names.map(name => Object.assign(new URL(serverUrl), {pathname: `/${name}`}).toString())
  const [first] = names
  await once(serverUrl, `create database ${first}`)
  await once(urls[0]!, 'set allow_system_table_mods = on', clock)
  await migrate(urls[0]!)
  await once(urls[0]!, planOnce)
  for (const name of names.slice(1)) await once(serverUrl, `create database ${name} template ${first}`)
  return urls
}

/** Each statement of this connection is planned once: planning would take most of a history's time. */
export function prepareEach(client: pg.ClientBase): void {
  const query = client.query.bind(client) as (...given: unknown[]) => unknown
  const prepared = (statement: unknown, ...given: unknown[]) => {
    if (typeof statement !== 'string' || (!Array.isArray(given[0]) && !isQuery.test(statement)))
      return query(statement, ...given)
    const [values, ...more] = Array.isArray(given[0]) ? given : [[], ...given]
    return query({name: nameOf(statement), text: statement, values}, ...more)
  }
  Object.assign(client, {query: prepared})
}

/** Several statements cannot be prepared as one. */
const isQuery = /^\s*select [^;]*$/
const statementNames = new Map<string, string>()

function nameOf(statement: string): string {
  const known = statementNames.get(statement) ?? createHash('sha256').update(statement).digest('hex').slice(0, 60)
  statementNames.set(statement, known)
  return known
}

async function once(url: string, ...statements: string[]): Promise<void> {
  const client = new pg.Client({connectionString: url})
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}
