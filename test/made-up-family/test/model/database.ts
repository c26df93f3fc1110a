// The database of the model: the real schema, on a clock that the model moves, with copies of its rows that can be restored. Promises: everything in it
// that asks for the time gets the model's, because the clock was exchanged before the schema was made. A copy has all rows of all tables.
import {randomBytes} from 'node:crypto'
import pg from 'pg'
import {migrate, type Role, roleUrl} from '../../db/migrate.ts'

const clock = `
  alter function pg_catalog.clock_timestamp() rename to real_clock_timestamp;
  create schema model;
  create table model.clock (ahead interval not null);
  insert into model.clock values ('0');
  grant usage on schema model to public;
  grant select on model.clock to public;
  create function pg_catalog.clock_timestamp() returns timestamptz language plpgsql volatile as
    $$ begin return pg_catalog.real_clock_timestamp() + (select ahead from model.clock); end $$;`

const tables = `
  select format('%I.%I', n.nspname, c.relname) as name, (select string_agg(quote_ident(a.attname), ', ' order by a.attnum) from pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r' and n.nspname !~ '^(pg_|information_schema|model|copy_)' order by 1`

export class ModelDatabase {
  readonly ownerUrl: string
  /** The owner, who has every right. */
  readonly pool: pg.Pool

  private constructor(ownerUrl: string) {
    this.ownerUrl = ownerUrl
    this.pool = new pg.Pool({connectionString: ownerUrl, max: 2})
    this.pool.on('error', () => {})
  }

  static async open(serverUrl: string): Promise<ModelDatabase> {
    const name = `model_${randomBytes(6).toString('hex')}`
    await once(serverUrl, `create database ${name}`)
    const url = new URL(serverUrl)
    url.pathname = `/${name}`
    await once(String(url), 'set allow_system_table_mods = on', clock)
    await migrate(String(url))
    return new ModelDatabase(String(url))
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
  }

  async close(): Promise<void> {
    await this.pool.end()
  }
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
