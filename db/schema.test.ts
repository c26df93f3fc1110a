// The schema as the migrations leave it: it is the one that is written down, it explains itself, and its functions are safe to call.
import {readFileSync} from 'node:fs'
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {schemaSnapshot, snapshotFile} from './snapshot.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.drop())

test('db/schema.snapshot.sql is the schema of a freshly migrated database', async () => {
  const client = new pg.Client({connectionString: db.ownerUrl})
  await client.connect()
  const schema = await schemaSnapshot(client)
  await client.end()
  expect(
    schema,
    'the migrations make another schema than the one written down: look at the difference, then run npm run snapshot',
  ).toBe(readFileSync(snapshotFile, 'utf8'))
})

test('every table, view and column of the schemas chain, app, custody and analytics says what it is', async () => {
  expect(
    await db.rows(`
      select n.nspname || '.' || c.relname || coalesce('.' || a.attname, '') as without_comment
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      left join lateral (
        select attname, attnum from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped
        union all select null, 0
      ) a on true
      where n.nspname in ('chain', 'app', 'custody', 'analytics') and c.relkind in ('r', 'p', 'v', 'm') and not c.relispartition
        and coalesce(col_description(c.oid, a.attnum), case a.attnum when 0 then obj_description(c.oid, 'pg_class') end, '') = ''
      order by 1`),
  ).toEqual([])
})

test('every function that a role other than its owner may call says what it does', async () => {
  expect(
    await db.rows(`
      select p.oid::regprocedure::text as without_comment from pg_proc p
      where p.pronamespace in ('chain'::regnamespace, 'app'::regnamespace, 'custody'::regnamespace, 'analytics'::regnamespace)
        and exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) where grantee <> p.proowner)
        and coalesce(obj_description(p.oid, 'pg_proc'), '') = ''
      order by 1`),
  ).toEqual([])
})

test('no function that runs with the rights of its owner takes a name from the search path of its caller', async () => {
  expect(
    await db.rows(`
      select p.oid::regprocedure::text as unsafe from pg_proc p
      where p.pronamespace in ('chain'::regnamespace, 'app'::regnamespace, 'custody'::regnamespace, 'analytics'::regnamespace) and p.prosecdef
        and 'search_path=pg_catalog' <> all (coalesce(p.proconfig, '{}'))`),
  ).toEqual([])
})
