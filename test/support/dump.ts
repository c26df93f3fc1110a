// A copy of a database, and the way back to it, as when a dump is restored: all rows come back in one transaction.
// Nothing else may use the database meanwhile.
import type {TestDatabase} from './database.ts'

const tables = `select format('%I.%I', n.nspname, c.relname) as name, 'copy.t' || row_number() over (order by c.oid) as copy, (
    select string_agg(quote_ident(a.attname), ', ' order by a.attnum) from pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r' and n.nspname !~ '^pg_|^information_schema$|^copy$'`

interface Table {
  name: string
  copy: string
  columns: string
}

/** Copies it; the result restores it. */
export async function dump(db: TestDatabase): Promise<() => Promise<void>> {
  const copied = await db.rows<Table>(tables)
  const sequences = await db.rows<{name: string; last: string | null}>(
    `select format('%I.%I', schemaname, sequencename) as name, last_value as last from pg_sequences`,
  )
  const copies = copied.map(({name, copy, columns}) => `create table ${copy} as select ${columns} from ${name}`)
  await db.rows(['begin isolation level repeatable read', 'create schema copy', ...copies, 'commit'].join(';'))
  return async () => {
    const now = (await db.rows<Table>(tables)).map(({name}) => name)
    const back = copied.map(
      ({name, copy, columns}) =>
        `insert into ${name} (${columns}) overriding system value select ${columns} from ${copy}`,
    )
    const counters = sequences.filter(({last}) => last).map(({name, last}) => `select setval('${name}', ${last})`)
    const sql = [
      'begin',
      'set local session_replication_role = replica',
      `truncate ${now.join(', ')}`,
      ...back,
      ...counters,
      'commit',
    ]
    await db.rows(sql.join(';'))
  }
}
