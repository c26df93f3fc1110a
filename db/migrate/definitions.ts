// Functions, triggers and views. Each is defined once, in a file of db/functions or db/views, and the file is applied
// again when it changes; comments do not count.
//
// Promises: all changes come into force in one transaction, or none does. What a file needs exists before it is
// applied. Rights that a file no longer gives are taken back. Every function is checked against the current tables. A
// view is replaced if its columns stay; otherwise it is dropped and made again, with our views that read it, but never
// with objects that Sluice did not make and that depend on it.
//
// An object that no file defines any more is dropped one version later, so that the version before keeps serving while
// this one is installed; triggers, which nobody calls, are dropped at once. For the same reason a function whose
// arguments change takes a new name. db/README.md says how to change something.
import {createHash} from 'node:crypto'
import {readdirSync, readFileSync} from 'node:fs'
import type pg from 'pg'
import {PermanentError} from '../../base/errors.ts'

type Kind = 'function' | 'view' | 'materialized view' | 'trigger'

interface Made {
  kind: Kind
  /** With its schema; for a trigger its own name. */
  name: string
  /** Only for a trigger. */
  table?: string
  /** A constraint trigger, which cannot be replaced. */
  isConstraint?: boolean
}

interface Definition {
  /** Path below db/. */
  file: string
  sql: string
  /** Without comments, which change nothing in the database. */
  checksum: string
  /** With them, as the version before recorded it. */
  fullChecksum: string
  makes: Made[]
  /** Names of functions and views that must be there before. */
  needs: Set<string>
}

const bodiesAndComments = /--[^\n]*|'(?:[^']|'')*'|\$(\w*)\$[\s\S]*?\$\1\$/g
const making =
  /\bcreate (?:or replace )?(?:(function|view)|(materialized view)|(constraint )?(trigger)) ([\w.]+)(?:\s[^;]*?\son ([\w.]+))?/g
const names = /\b(?:chain|app|custody|audit|analytics|auth|dashboard)\.\w+/g

/** The definitions of a folder with the layout of db/, each after what it needs. Throws if two need each other. */
export function readDefinitions(folder: URL): Definition[] {
  const definitions = ['functions/', 'views/'].flatMap(kind =>
    readdirSync(new URL(kind, folder), {recursive: true, encoding: 'utf8'})
      .filter(name => name.endsWith('.sql'))
      .sort()
      .map(name => readDefinition(folder, kind + name)),
  )
  return sortByNeed(definitions)
}

function readDefinition(folder: URL, file: string): Definition {
  const sql = readFileSync(new URL(file, folder), 'utf8')
  const bare = sql.replace(bodiesAndComments, '')
  const makes = [...bare.matchAll(making)].map(([, plain, materialized, constraint, trigger, name, table]) => ({
    kind: (plain ?? materialized ?? trigger) as Kind,
    name: name!,
    ...(trigger && {table: table!, isConstraint: constraint !== undefined}),
  }))
  if (makes.length === 0) throw new Error(`db/${file} makes no function, view or trigger`)
  const needs = new Set(bare.match(names))
  return {file, sql, checksum: sumOf(sql.replace(/^\s*--.*\n/gm, '')), fullChecksum: sumOf(sql), makes, needs}
}

const sumOf = (text: string) => createHash('sha256').update(text).digest('hex')

/**
 * Which file makes a function or a view of this name. Triggers' names have no schema, so a view that Sluice did not
 * make may have the same name.
 */
function makersOf(definitions: Definition[]): Map<string, Definition> {
  const named = (definition: Definition) => definition.makes.filter(({kind}) => kind !== 'trigger')
  return new Map(definitions.flatMap(definition => named(definition).map(({name}) => [name, definition])))
}

function sortByNeed(definitions: Definition[]): Definition[] {
  const makers = makersOf(definitions)
  const sorted = new Set<Definition>()
  const visit = (definition: Definition, path: Definition[]) => {
    if (sorted.has(definition)) return
    if (path.includes(definition))
      throw new Error(`these files need each other: ${path.map(({file}) => `db/${file}`).join(', ')}`)
    for (const name of definition.needs) {
      const maker = makers.get(name)
      if (maker && maker !== definition) visit(maker, [...path, definition])
    }
    sorted.add(definition)
  }
  for (const definition of definitions) visit(definition, [])
  return [...sorted]
}

/** Makes the table that records them, if it is missing. */
export async function makeRegister(client: pg.Client): Promise<void> {
  await client.query(`create table if not exists public.sluice_object (
    kind text not null, name text not null, file text not null, gone_since text, primary key (kind, name))`)
}

/**
 * Applies changed files, by the checksums of those applied before, as a part of the caller's transaction. Resolves to
 * the applied files. Throws PermanentError if a view that Sluice did not make is in the way, or a function has other
 * arguments than before.
 */
export async function applyDefinitions(
  client: pg.Client,
  definitions: Definition[],
  checksums: Map<string, string>,
): Promise<string[]> {
  const makers = makersOf(definitions)
  const isApplied = ({file, checksum, fullChecksum}: Definition) =>
    [checksum, fullChecksum].includes(checksums.get(file) ?? '')
  const due = new Set(definitions.filter(definition => !isApplied(definition)))
  await dropTriggers(client, definitions)
  await client.query('set local check_function_bodies = off') // what a body names may be made by a later file
  const applied: string[] = []
  for (const definition of definitions) {
    if (!due.has(definition)) continue
    await apply(client, definition, {makers, due})
    applied.push(definition.file)
  }
  await client.query('set local check_function_bodies = on')
  if (applied.length > 0) await validateFunctions(client)
  await noteWhatIsGone(client, definitions)
  return applied
}

interface Files {
  makers: Map<string, Definition>
  /** The files to apply; a view that is dropped because it read another one is added. */
  due: Set<Definition>
}

async function apply(client: pg.Client, definition: Definition, files: Files): Promise<void> {
  const {file, sql, checksum, makes} = definition
  try {
    for (const made of makes) await prepare(client, made, files)
    await client.query('savepoint before_file')
    await client.query(sql).catch(async error => {
      if (error.code !== invalidTableDefinition) throw error
      await client.query('rollback to savepoint before_file')
      for (const {kind, name} of makes) if (kind === 'view') await dropView(client, name, files)
      await client.query(sql)
    })
    for (const {kind, name} of makes) if (kind === 'function') await refuseOverload(client, name)
  } catch (cause) {
    throw describe(cause as pg.DatabaseError, file)
  }
  await client.query(
    `insert into public.sluice_migration (name, checksum) values ($1, $2)
     on conflict (name) do update set checksum = excluded.checksum, applied_at = clock_timestamp()`,
    [file, checksum],
  )
  for (const made of makes) {
    if (made.kind.endsWith('view'))
      await client.query(`delete from public.sluice_object where name = $1 and kind like '%view' and kind <> $2`, [
        made.name,
        made.kind,
      ])
    await client.query(
      `insert into public.sluice_object (kind, name, file) values ($1, $2, $3)
       on conflict (kind, name) do update set file = excluded.file, gone_since = null`,
      [made.kind, idOf(made), file],
    )
  }
}

const idOf = ({name, table}: Made) => (table ? `${name} on ${table}` : name)

const invalidTableDefinition = '42P16' // a view's columns changed
const invalidFunctionDefinition = '42P13' // a function's result, or the name of an argument
const ambiguousFunction = '42725' // it has other arguments than the one that is there
const dependentObjects = '2BP01'

function describe(error: pg.DatabaseError, file: string): Error {
  if (error instanceof PermanentError) return new PermanentError(`db/${file}: ${error.message}`)
  if (error.code === dependentObjects)
    return new PermanentError(
      `db/${file}: ${error.message}. ${error.detail}. Drop that first, and make it again afterwards`,
    )
  if (error.code === invalidFunctionDefinition || error.code === ambiguousFunction)
    return new PermanentError(
      `db/${file}: ${error.message}; give the function a new name, because the version before still calls it`,
    )
  return Object.assign(new Error(`db/${file} failed and changed nothing: ${error.message}`, {cause: error}), {
    code: error.code,
  })
}

/** Removes what "create or replace" would leave: rights, and objects that cannot be replaced. */
async function prepare(client: pg.Client, {kind, name, table, isConstraint}: Made, files: Files): Promise<void> {
  if (isConstraint) await client.query(`drop trigger if exists ${name} on ${table}`)
  if (kind === 'materialized view' || (kind === 'view' && (await isMaterialised(client, name))))
    await dropView(client, name, files)
  if (kind === 'trigger') return
  const {rows} = await client.query<{revoke: string}>(rights, [kind === 'function' ? 'function' : 'table', name])
  for (const {revoke} of rows) await client.query(revoke)
}

async function isMaterialised(client: pg.Client, view: string): Promise<boolean> {
  const {rows} = await client.query(`select from pg_class where oid = to_regclass($1) and relkind = 'm'`, [view])
  return rows.length > 0
}

// Statements that revoke every right to a function or a view from all but its owner.
const rights = `
  select distinct format('revoke all on %s %s from %s', $1::text, $2::text,
    case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end) as revoke
  from (
    select a.grantee, p.proowner as owner from pg_proc p, aclexplode(p.proacl) a
    where $1 = 'function' and p.oid = to_regproc($2)
    union all
    select a.grantee, c.relowner from pg_class c, aclexplode(c.relacl) a where $1 = 'table' and c.oid = to_regclass($2)
    union all
    select a.grantee, c.relowner from pg_class c join pg_attribute t on t.attrelid = c.oid, aclexplode(t.attacl) a
    where $1 = 'table' and c.oid = to_regclass($2)
  ) given where grantee <> owner`

/** Drops a view, if it exists, with our views that read it; they are made again after it. */
async function dropView(client: pg.Client, view: string, {makers, due}: Files): Promise<void> {
  const {rows} = await client.query<{name: string; kind: string; ours: boolean}>(readers, [view])
  for (const {name, kind, ours} of rows) {
    const maker = makers.get(name)
    if (!maker && !ours)
      throw new PermanentError(
        `${view} has to be made again, and ${name}, which Sluice did not make, reads it: drop ${name} first, and make it again afterwards`,
      )
    await client.query(`drop ${kind} ${name}`)
    if (maker && name !== view) due.add(maker)
  }
}

// A view and all views that read it, starting with those that nothing reads.
const readers = `
  with recursive reader (oid, depth) as (
    select to_regclass($1)::oid, 0
    union
    select r.ev_class, o.depth + 1 from reader o
    join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = o.oid and d.classid = 'pg_rewrite'::regclass
    join pg_rewrite r on r.oid = d.objid and r.ev_class <> o.oid
  )
  select c.oid::regclass::text as name, case c.relkind when 'm' then 'materialized view' else 'view' end as kind,
    exists (select from public.sluice_object o where o.name = c.oid::regclass::text) as ours
  from reader join pg_class c using (oid) group by c.oid, c.relkind order by max(depth) desc`

async function refuseOverload(client: pg.Client, name: string): Promise<void> {
  const {rows} = await client.query<{count: number}>(
    `select count(*)::int as count from pg_proc
     where pronamespace = to_regnamespace(split_part($1, '.', 1)) and proname = split_part($1, '.', 2)`,
    [name],
  )
  if (rows[0]!.count > 1)
    throw new PermanentError(
      `${name} has other arguments than before; give the function a new name, because the version before still calls it`,
    )
}

/** Checks all functions, one by one: a table may have changed under a function whose file did not. */
async function validateFunctions(client: pg.Client): Promise<void> {
  const {rows} = await client.query<{oid: number; name: string; file: string; language: string}>(
    `select p.oid, o.name, o.file, l.lanname as language
     from public.sluice_object o join pg_proc p on p.oid = to_regproc(o.name) join pg_language l on l.oid = p.prolang
     where o.kind = 'function' and o.gone_since is null`,
  )
  for (const {oid, name, file, language} of rows) {
    const validator = language === 'sql' ? 'fmgr_sql_validator' : 'plpgsql_validator'
    await client.query(`select ${validator}($1)`, [oid]).catch((cause: pg.DatabaseError) => {
      throw new Error(`db/${file}: ${name} does not fit the tables, and nothing was changed: ${cause.message}`, {cause})
    })
  }
}

async function dropTriggers(client: pg.Client, definitions: Definition[]): Promise<void> {
  const kept = definitions.flatMap(({makes}) => makes.filter(({kind}) => kind === 'trigger').map(idOf))
  const {rows} = await client.query<{name: string}>(
    `delete from public.sluice_object where kind = 'trigger' and name <> all($1) returning name`,
    [kept],
  )
  for (const {name} of rows) await client.query(`drop trigger if exists ${name}`)
}

const objectsOf = (definitions: Definition[]) =>
  definitions.flatMap(({makes}) => makes.map(made => `${made.kind} ${idOf(made)}`))

const versionOf = (definitions: Definition[]) =>
  createHash('sha256')
    .update(definitions.map(({checksum}) => checksum).join())
    .digest('hex')

async function noteWhatIsGone(client: pg.Client, definitions: Definition[]): Promise<void> {
  await client.query(`delete from public.sluice_migration where name ~ '^(functions|views)/' and name <> all($1)`, [
    definitions.map(({file}) => file),
  ])
  await client.query(
    `update public.sluice_object set gone_since = $1 where gone_since is null and kind || ' ' || name <> all($2)`,
    [versionOf(definitions), objectsOf(definitions)],
  )
}

/**
 * Drops objects for which neither the version before nor this one has a file, as a part of the caller's transaction.
 * This runs before the tables change, so that they may lose columns that only a dropped view read. Throws
 * PermanentError if a view that Sluice did not make depends on one.
 */
export async function dropWhatIsGone(client: pg.Client, definitions: Definition[]): Promise<void> {
  const {rows} = await client.query<{kind: string; name: string}>(
    `select kind, name from public.sluice_object where gone_since <> $1 and kind || ' ' || name <> all($2)`,
    [versionOf(definitions), objectsOf(definitions)],
  )
  await dropAll(client, rows)
}

/** Drops them in an order that works: an object that others need waits until those are gone. */
async function dropAll(client: pg.Client, objects: {kind: string; name: string}[]): Promise<void> {
  const left: typeof objects = []
  let problem: pg.DatabaseError | undefined
  for (const object of objects) {
    await client.query('savepoint before_drop')
    try {
      await client.query(`drop ${object.kind} if exists ${object.name}`)
      await client.query('delete from public.sluice_object where kind = $1 and name = $2', [object.kind, object.name])
    } catch (error) {
      problem = error as pg.DatabaseError
      if (problem.code !== dependentObjects) throw problem
      await client.query('rollback to savepoint before_drop')
      left.push(object)
    }
  }
  if (left.length === objects.length && problem)
    throw new PermanentError(
      `${problem.message}: ${problem.detail}. Drop that first; no file of db/ defines the other any more`,
    )
  if (left.length > 0) await dropAll(client, left)
}
