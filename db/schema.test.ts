// The schema after all migrations: it equals the snapshot, everything in it has a comment, and its functions are safe
// to call.
import {existsSync, readdirSync, readFileSync} from 'node:fs'
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {chainCodes, chains} from '../chains/registry.ts'
import {schemaSnapshot, snapshotFile} from '../test/snapshot.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.drop())

test('db/schema.snapshot.sql equals the schema of a freshly migrated database', async () => {
  const client = new pg.Client({connectionString: db.ownerUrl})
  await client.connect()
  const schema = await schemaSnapshot(client)
  await client.end()
  expect(
    schema,
    'the migrations make another schema than db/schema.snapshot.sql: check the difference, then run npm run snapshot',
  ).toBe(readFileSync(snapshotFile, 'utf8'))
})

test('docs/database.md has a part for each view of analysts, and names it in its list', async () => {
  const text = readFileSync(new URL('../docs/database.md', import.meta.url), 'utf8')
  const [{views} = {views: []}] = await db.rows<{views: string[]}>(
    `select array_agg(relname::text order by relname::text collate "C") as views from pg_class where relnamespace = 'analytics'::regnamespace and relkind in ('v', 'm')`,
  )
  const parts = [...text.matchAll(/^### analytics\.(\w+)$/gm)].map(([, name]) => name)
  const listed = [...text.matchAll(/\[(\w+)\]\(#analytics(\w+)\)/g)].flatMap(([, name, target]) =>
    name === target ? [name] : [],
  )
  expect(parts.toSorted()).toEqual(views)
  for (const view of views) expect(listed).toContain(view)
})

/** Wherever they stand, the name says it; analysts may know none of them. */
const known = ['chain', 'token', 'merchant_id', 'id', 'txid', 'address', 'status', 'deposit_id', 'payout_id', 'since']

test('every table, view and column of the schemas chain, app, custody, audit and analytics has a comment, if its name does not say it', async () => {
  expect(
    await db.rows(
      `select n.nspname || '.' || c.relname || coalesce('.' || a.attname, '') as without_comment
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      left join lateral (
        select attname, attnum from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped
        union all select null, 0
      ) a on true
      where n.nspname in ('chain', 'app', 'custody', 'audit', 'analytics') and c.relkind in ('r', 'p', 'v', 'm') and not c.relispartition
        and coalesce(col_description(c.oid, a.attnum), case a.attnum when 0 then obj_description(c.oid, 'pg_class') end, '') = ''
        and (n.nspname = 'analytics' or coalesce(a.attname <> all($1), true))
      order by 1`,
      [known],
    ),
  ).toEqual([])
})

test('every function has a comment', async () => {
  expect(
    await db.rows(`
      select p.oid::regprocedure::text as without_comment from pg_proc p
      where p.pronamespace in ('chain'::regnamespace, 'app'::regnamespace, 'custody'::regnamespace, 'analytics'::regnamespace)
        and coalesce(obj_description(p.oid, 'pg_proc'), '') = ''
      order by 1`),
  ).toEqual([])
})

test('each function and view is defined once, in db/functions or db/views', async () => {
  const defined = await db.rows<{kind: string; name: string}>(
    'select kind, name from public.sluice_object order by name',
  )
  const texts = ['functions', 'views', 'tables'].flatMap(kind => {
    const folder = new URL(`${kind}/`, import.meta.url)
    return readdirSync(folder, {recursive: true, encoding: 'utf8'})
      .filter(file => file.endsWith('.sql'))
      .map(file => readFileSync(new URL(file, folder), 'utf8'))
  })
  const made = texts.flatMap(text => [
    ...text.matchAll(/^create (?:or replace )?(?:function|view|materialized view) (\S+?)[( ]/gm),
  ])
  const names = made.map(([, name]) => name!)
  expect(names.toSorted()).toEqual([...new Set(names)].sort())
  expect(
    defined
      .filter(({kind}) => kind !== 'trigger')
      .map(({name}) => name)
      .toSorted(),
  ).toEqual(names.toSorted())
})

test('no function or view names a chain or a family: they read app.chain', () => {
  const names = [...chainCodes, ...chains.map(({family}) => family), 'coinbase']
  const literal = new RegExp(`'(${names.join('|')})'`, 'i')
  const found = ['functions', 'views'].flatMap(kind => {
    const folder = new URL(`${kind}/`, import.meta.url)
    return readdirSync(folder, {recursive: true, encoding: 'utf8'})
      .filter(file => file.endsWith('.sql') && literal.test(readFileSync(new URL(file, folder), 'utf8')))
      .map(file => `db/${kind}/${file}`)
  })
  expect(found).toEqual([])
})

test('no table depends on a function that can be replaced', async () => {
  expect(
    await db.rows(`
      select p.oid::regprocedure::text as function, d.classid::regclass::text as of, d.objid from pg_depend d join pg_proc p on p.oid = d.refobjid
      where d.refclassid = 'pg_proc'::regclass and d.classid in ('pg_attrdef'::regclass, 'pg_constraint'::regclass, 'pg_class'::regclass)
        and p.pronamespace in ('chain'::regnamespace, 'app'::regnamespace, 'custody'::regnamespace, 'analytics'::regnamespace)`),
  ).toEqual([])
})

test('db/README.md and db/views/README.md name files that exist', () => {
  for (const name of ['README.md', 'views/README.md']) {
    const file = new URL(name, import.meta.url)
    const links = [...readFileSync(file, 'utf8').matchAll(/\]\(([^)#]+)/g)].map(([, link]) => link!)
    expect(links.filter(link => !existsSync(new URL(link, file)))).toEqual([])
  }
})

test('no function that runs with the rights of its owner uses the search path of its caller', async () => {
  expect(
    await db.rows(`
      select p.oid::regprocedure::text as unsafe from pg_proc p
      where p.pronamespace in ('chain'::regnamespace, 'app'::regnamespace, 'custody'::regnamespace, 'analytics'::regnamespace) and p.prosecdef
        and 'search_path=pg_catalog' <> all (coalesce(p.proconfig, '{}'))`),
  ).toEqual([])
})
