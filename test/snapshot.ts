// The whole schema as text, for people to read and for a test to compare. Promises: two databases with the same schema
// give the same text, whatever their owner is called; any difference in a column, constraint, index, view, function,
// trigger, grant, comment or setting of a role shows. A function is shown as its head and a checksum of its body, which
// stands in db/functions. graphile-worker's schema is left out, and so are the partitions of partitioned tables, which
// come and go.
//
// node test/snapshot.ts (npm run snapshot) writes it to db/schema.snapshot.sql, the outputs of the examples into
// docs/database.md, and what the docs say of reasons (support/reasons-in-docs.ts).
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import pg from 'pg'
import {documentFile, seed, withOutputs} from '../db/examples/examples.ts'
import {migrate, roles, roleUrl} from '../db/migrate/migrate.ts'
import {startPostgres} from '../db/server/embedded.ts'
import {writeReasonsInDocs} from './support/reasons-in-docs.ts'

export const snapshotFile = new URL('../db/schema.snapshot.sql', import.meta.url)

const ours = `(select oid from pg_namespace where nspname !~ '^pg_|^information_schema$|^graphile_worker$')`

interface Schema {
  name: string
  comment: string | null
}

interface Column {
  name: string
  type: string
  not_null: boolean
  default: string | null
  identity: '' | 'a' | 'd'
  generated: '' | 's' | 'v'
  comment: string | null
}

interface Relation {
  schema: string
  name: string
  kind: 'r' | 'p' | 'v' | 'm'
  partitioned_by: string | null
  unlogged: boolean
  options: string[] | null
  comment: string | null
  columns: Column[]
  constraints: string[]
  indexes: string[]
  triggers: string[]
  definition: string | null
}

interface Definition {
  schema: string
  definition: string
  comment: string | null
}

interface Role {
  role: string
  lines: string[]
}

const schemas = `select nspname as name, obj_description(oid, 'pg_namespace') as comment from pg_namespace
  where oid in ${ours} order by nspname collate "C"`

const relations = `
  select n.nspname as schema, c.oid::regclass::text as name, c.relkind as kind, pg_get_partkeydef(c.oid) as partitioned_by,
    c.relpersistence = 'u' as unlogged, c.reloptions as options,
    obj_description(c.oid, 'pg_class') as comment,
    (select json_agg(json_build_object('name', quote_ident(a.attname), 'type', format_type(a.atttypid, a.atttypmod),
        'not_null', a.attnotnull, 'default', pg_get_expr(d.adbin, d.adrelid), 'identity', a.attidentity, 'generated', a.attgenerated,
        'comment', col_description(c.oid, a.attnum)) order by a.attnum)
      from pg_attribute a left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
    array(select format('constraint %I %s', conname, pg_get_constraintdef(oid)) from pg_constraint
      where conrelid = c.oid and contype not in ('n', 't') order by contype = 'p' desc, conname collate "C") as constraints,
    array(select pg_get_indexdef(i.indexrelid) from pg_index i
      where i.indrelid = c.oid and not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x'))
      order by i.indexrelid::regclass::text collate "C") as indexes,
    array(select pg_get_triggerdef(oid) from pg_trigger where tgrelid = c.oid and not tgisinternal order by tgname collate "C") as triggers,
    case when c.relkind in ('v', 'm') then pg_get_viewdef(c.oid, true) end as definition
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.oid in ${ours} and c.relkind in ('r', 'p', 'v', 'm') and not c.relispartition
  order by c.relkind in ('v', 'm'), c.relname collate "C"`

const sequences = `
  select n.nspname as schema, format('create sequence %s as %s;', c.oid::regclass, s.seqtypid::regtype) as definition,
    obj_description(c.oid, 'pg_class') as comment
  from pg_sequence s join pg_class c on c.oid = s.seqrelid join pg_namespace n on n.oid = c.relnamespace
  where n.oid in ${ours} and not exists (select from pg_depend d where d.objid = c.oid and d.deptype in ('a', 'i'))
  order by c.relname collate "C"`

const functions = `
  select n.nspname as schema, regexp_replace(rtrim(split_part(regexp_replace(pg_get_functiondef(p.oid), E'\\n *(RETURN |BEGIN ATOMIC).*', ''), E'\\nAS ', 1)), E'\\n +', ' ', 'g')
      || ' as ' || md5(coalesce(pg_get_function_sqlbody(p.oid), p.prosrc)) || E';\\n'
      || case when p.proowner = to_regrole(current_user) then '' else format(E'alter function %s owner to %s;\\n', p.oid::regprocedure, p.proowner::regrole) end
    as definition, obj_description(p.oid, 'pg_proc') as comment
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
  where n.oid in ${ours} and p.prokind in ('f', 'p')
  order by p.oid::regprocedure::text collate "C"`

// The rights of each role besides what it owns. The owner of the database is called owner, so that its name makes no
// difference.
const grants = `
  with granted as (
    select format('schema %I', nspname) as object, nspowner as owner, acl.* from pg_namespace n,
      aclexplode(coalesce(n.nspacl, acldefault('n', nspowner))) acl where n.oid in ${ours}
    union all
    select c.oid::regclass::text, c.relowner, acl.* from pg_class c,
      aclexplode(coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner))) acl
    where c.relnamespace in ${ours} and c.relkind in ('r', 'p', 'v', 'm', 'S') and not c.relispartition
    union all
    select format('%s (%s)', c.oid::regclass, string_agg(quote_ident(a.attname), ', ' order by a.attnum)), c.relowner,
      acl.grantor, acl.grantee, acl.privilege_type, acl.is_grantable
    from pg_class c join pg_attribute a on a.attrelid = c.oid, aclexplode(a.attacl) acl
    where c.relnamespace in ${ours} group by c.oid, acl.grantor, acl.grantee, acl.privilege_type, acl.is_grantable
    union all
    select format('function %s', p.oid::regprocedure), p.proowner, acl.* from pg_proc p,
      aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) acl where p.pronamespace in ${ours}
  ), line as (
    select case grantee when 0 then 'public' when to_regrole(current_user) then 'owner' else grantee::regrole::text end as role,
      format('grant %s on %s to %s;', string_agg(lower(privilege_type), ', ' order by privilege_type), object,
        case grantee when 0 then 'public' when to_regrole(current_user) then 'owner' else grantee::regrole::text end) as line
    from granted where grantee <> owner group by grantee, object
  )
  select role, array_agg(line order by line collate "C") as lines from line group by role order by role collate "C"`

// Without connection limits, which depend on the server.
const roleSettings = `
  select rolname::text as role, array(
      select format('alter role %s set %s = %L;', rolname, split_part(setting, '=', 1), substr(setting, strpos(setting, '=') + 1))
      from unnest(rolconfig) setting order by setting collate "C"
    ) as lines
  from pg_roles where rolname = any($1) order by rolname collate "C"`

/** The schema of the database that a client is connected to, as its owner. */
export async function schemaSnapshot(client: pg.Client): Promise<string> {
  await client.query('set search_path = pg_catalog') // so that the catalogs write every other name in full
  const rows = async <T extends pg.QueryResultRow>(sql: string, values?: unknown[]) =>
    (await client.query<T>(sql, values)).rows
  const allRelations = await rows<Relation>(relations)
  const definitions = [...(await rows<Definition>(sequences)), ...(await rows<Definition>(functions))]
  const parts = ['-- The schema as all migrations leave it. Written by npm run snapshot; never edited.']
  for (const {name, comment} of await rows<Schema>(schemas)) {
    parts.push(`${note(comment)}create schema ${name};`)
    for (const relation of allRelations) if (relation.schema === name) parts.push(relationText(relation))
    for (const {schema, definition, comment} of definitions)
      if (schema === name) parts.push(note(comment) + definition.trimEnd())
  }
  const byRole = Object.groupBy(
    [...(await rows<Role>(roleSettings, [roles])), ...(await rows<Role>(grants))],
    ({role}) => role,
  )
  for (const role of Object.keys(byRole).sort())
    parts.push([`-- ${role}`, ...byRole[role]!.flatMap(({lines}) => lines)].join('\n'))
  return `${parts.join('\n\n')}\n`
}

function relationText({
  name,
  kind,
  partitioned_by,
  unlogged,
  options,
  comment,
  columns,
  constraints,
  indexes,
  triggers,
  definition,
}: Relation): string {
  const lines: string[] = []
  if (definition === null) {
    const last = columns.length + constraints.length - 1
    lines.push(`create ${unlogged ? 'unlogged ' : ''}table ${name} (`)
    for (const [n, column] of columns.entries())
      lines.push(`  ${columnText(column)}${n < last ? ',' : ''}${column.comment ? ` -- ${column.comment}` : ''}`)
    for (const [n, constraint] of constraints.entries())
      lines.push(`  ${constraint}${columns.length + n < last ? ',' : ''}`)
    lines.push(partitioned_by === null ? ');' : `) partition by ${partitioned_by};`)
  } else {
    lines.push(
      `create ${kind === 'm' ? 'materialized ' : ''}view ${name}${options ? ` with (${options.join(', ')})` : ''} as`,
    )
    lines.push(definition)
    for (const column of columns)
      lines.push(`--   ${column.name} ${column.type}${column.comment ? `: ${column.comment}` : ''}`)
  }
  return note(comment) + [...lines, ...indexes.map(end), ...triggers.map(end)].join('\n')
}

function columnText({name, type, not_null, default: value, identity, generated}: Column): string {
  const words = [name, type]
  if (not_null) words.push('not null')
  if (identity) words.push(`generated ${identity === 'a' ? 'always' : 'by default'} as identity`)
  if (generated) words.push(`generated always as (${value})${generated === 's' ? ' stored' : ''}`)
  else if (value !== null) words.push(`default ${value}`)
  return words.join(' ')
}

const end = (statement: string) => `${statement};`
const note = (comment: string | null) => (comment === null ? '' : `-- ${comment}\n`)

async function main(): Promise<void> {
  writeReasonsInDocs()
  const directory = mkdtempSync(path.join(tmpdir(), 'sluice-snapshot-'))
  const server = await startPostgres({dir: directory, flags: ['-c fsync=off']})
  try {
    await migrate(server.url)
    const client = new pg.Client({connectionString: server.url})
    await client.connect()
    writeFileSync(snapshotFile, await schemaSnapshot(client))
    await client.end()
    await seed(server.url)
    const document = readFileSync(documentFile, 'utf8')
    writeFileSync(documentFile, await withOutputs(document, roleUrl(server.url, 'sluice_analyst')))
  } finally {
    await server.stop()
    rmSync(directory, {recursive: true, force: true})
  }
}

if (import.meta.main) await main()
