// Functions, triggers and views as files that are applied again when they change: what takes effect, what is dropped,
// and what is refused.
import {randomBytes} from 'node:crypto'
import {mkdirSync, rmSync, writeFileSync} from 'node:fs'
import pg from 'pg'
import {afterEach, beforeEach, expect, inject, test} from 'vitest'
import {PermanentError} from '../../base/errors.ts'
import {schemaSnapshot} from '../../test/snapshot.ts'
import {createDatabase, dropDatabase, templateName, urlOf} from '../../test/support/database.ts'
import {copySchema} from '../../test/support/schema-folder.ts'
import {migrate, roleUrl} from './migrate.ts'

let name: string
let url: string
let client: pg.Client
/** A copy of the tables, functions and views, for a test to change. */
let folder: URL

beforeEach(async () => {
  name = `test_definitions_${randomBytes(6).toString('hex')}`
  await createDatabase(inject('serverUrl'), name, templateName)
  url = urlOf(inject('serverUrl'), name)
  client = new pg.Client({connectionString: url})
  await client.connect()
  folder = copySchema()
  mkdirSync(new URL('functions/test/', folder))
})

afterEach(async () => {
  await client.end()
  await dropDatabase(inject('serverUrl'), name)
  rmSync(folder, {recursive: true})
})

async function rows(sql: string): Promise<pg.QueryResultRow[]> {
  return (await client.query(sql)).rows
}

const write = (file: string, sql: string) => writeFileSync(new URL(file, folder), sql)
const remove = (file: string) => rmSync(new URL(file, folder))
const apply = async () => (await migrate(url, folder)).applied

/** A version in which another file changed. */
let version = 0
const nextVersion = () => {
  write('functions/test/version.sql', `create or replace function app.version() returns int return ${++version};`)
}

const plan = 'functions/test/plan.sql'
const planned = (amount: string) =>
  `create or replace function app.planned() returns text return '${amount}';\ngrant execute on function app.planned to sluice_api;`

test('a changed function is replaced, and nothing else is touched', async () => {
  write(plan, planned('one'))
  expect(await apply()).toEqual([plan])
  write(plan, planned('two'))
  expect(await apply()).toEqual([plan])
  expect(await rows('select app.planned()')).toEqual([{planned: 'two'}])
  expect(await apply()).toEqual([])
})

test('a file of which only comments changed is not applied again, also after the version that counted them', async () => {
  write(plan, `-- Why.\n${planned('one')}`)
  expect(await apply()).toEqual([plan])
  write(plan, `-- Why,\n  -- in other words.\n${planned('one')}`)
  expect(await apply()).toEqual([])
  const text = `-- Counted.\n${planned('one')}`
  write(plan, text)
  await rows(
    `update public.sluice_migration set checksum = encode(sha256('${text.replaceAll("'", "''")}'), 'hex') where name = '${plan}'`,
  )
  expect(await apply()).toEqual([])
})

test('a right that a file no longer grants is revoked, for functions and for columns of views', async () => {
  write(plan, planned('one'))
  const view = 'views/api/plan.sql'
  write(
    view,
    'create or replace view app.plan as select 1 as cost, 2 as price; grant select (cost) on app.plan to sluice_api; grant select on app.plan to sluice_jobs;',
  )
  await apply()
  write(plan, planned('one').replace('sluice_api', 'sluice_jobs'))
  write(
    view,
    'create or replace view app.plan as select 1 as cost, 2 as price; grant select (price) on app.plan to sluice_api;',
  )
  await apply()
  expect(
    await rows(`select has_function_privilege('sluice_api', 'app.planned()', 'execute') as was,
      has_function_privilege('sluice_jobs', 'app.planned()', 'execute') as now,
      has_column_privilege('sluice_api', 'app.plan', 'cost', 'select') as cost, has_column_privilege('sluice_api', 'app.plan', 'price', 'select') as price,
      has_table_privilege('sluice_jobs', 'app.plan', 'select') as jobs`),
  ).toEqual([{was: false, now: true, cost: false, price: true, jobs: false}])
})

test('definitions are created after those they need, whatever the order of files', async () => {
  write(
    'functions/test/a.sql',
    'create or replace function app.a() returns int return app.b() + (select n from app.c);',
  )
  write('functions/test/b.sql', 'create or replace function app.b() returns int return 1;')
  write('views/api/c.sql', 'create or replace view app.c as select 1 + app.b() as n;')
  expect(await apply()).toEqual(['functions/test/b.sql', 'views/api/c.sql', 'functions/test/a.sql'])
  expect(await rows('select app.a()')).toEqual([{a: 3}])
})

test('files that need each other are refused, with their names', async () => {
  write('functions/test/a.sql', 'create or replace function app.a() returns int return app.b();')
  write('functions/test/b.sql', 'create or replace function app.b() returns int return app.a();')
  await expect(apply()).rejects.toThrow('these files need each other: db/functions/test/a.sql, db/functions/test/b.sql')
})

test('all changes take effect together or not at all, and a failing file is named', async () => {
  write('functions/test/a.sql', planned('one'))
  write(
    'functions/test/b.sql',
    'create or replace function app.b() returns int language sql as $$ select nothing from app.nowhere $$;',
  )
  const before = await schemaSnapshot(client)
  await expect(apply()).rejects.toThrow(
    'db/functions/test/b.sql: app.b does not fit the tables, and nothing was changed: relation "app.nowhere" does not exist',
  )
  write('functions/test/b.sql', 'create or replace function app.b() returns int return 1 +;')
  await expect(apply()).rejects.toThrow('db/functions/test/b.sql failed and changed nothing: syntax error')
  expect(await schemaSnapshot(client)).toBe(before)
})

test('a change of a table under a function that needs the old table is refused', async () => {
  write(
    'functions/test/a.sql',
    'create or replace function app.a() returns bigint language sql as $$ select count(label) from app.api_key $$;',
  )
  await apply()
  write('tables/999_label.sql', 'alter table app.api_key rename label to title')
  nextVersion()
  await expect(apply()).rejects.toThrow(/does not fit the tables.*label/s)
})

test('a function with other arguments or another result needs a new name, because the previous version still calls it', async () => {
  write(plan, planned('one'))
  await apply()
  for (const other of ['app.planned(more int) returns text', 'app.planned() returns int']) {
    write(plan, `create or replace function ${other} return 1; comment on function app.planned is 'Planned.';`)
    const refused = apply()
    await expect(refused).rejects.toBeInstanceOf(PermanentError)
    await expect(refused).rejects.toThrow(/give the function a new name, because the version before still calls it/)
  }
})

test('a definition without a file stays for the previous version, and is dropped one version later', async () => {
  const exists = `select to_regproc('app.planned') is not null as function, to_regclass('app.plan') is not null as view,
    to_regclass('app.plan_sum') is not null as sum`
  write(plan, planned('one'))
  write('views/api/plan.sql', 'create or replace view app.plan as select app.planned();')
  write(
    'views/api/plan_sum.sql',
    'create materialized view app.plan_sum as select count(*) from app.plan with no data;',
  )
  await apply()
  for (const file of [plan, 'views/api/plan.sql', 'views/api/plan_sum.sql']) remove(file)
  await apply()
  await apply()
  expect(await rows(exists)).toEqual([{function: true, view: true, sum: true}])
  nextVersion()
  await apply()
  expect(await rows(exists)).toEqual([{function: false, view: false, sum: false}])
})

test('a column is dropped one version after the view that stopped reading it', async () => {
  write('tables/998_plan.sql', 'create table app.plan (a int, b int)')
  write('views/api/plan_b.sql', 'create or replace view app.plan_b as select b from app.plan;')
  await apply()
  remove('views/api/plan_b.sql')
  await apply()
  write('tables/999_plan.sql', 'alter table app.plan drop column b')
  nextVersion()
  await apply()
  expect(await rows('select * from app.plan_b').catch(error => error.message)).toBe(
    'relation "app.plan_b" does not exist',
  )
})

test('a definition that returns before it is dropped stays, and its wait starts anew when it is removed again', async () => {
  write(plan, planned('one'))
  await apply()
  remove(plan)
  await apply()
  write(plan, planned('two'))
  await apply()
  nextVersion()
  await apply()
  remove(plan)
  await apply()
  expect(await rows('select app.planned()')).toEqual([{planned: 'two'}])
})

test('a trigger without a file is dropped at once; a changed one is created again', async () => {
  const trigger = (
    when: string,
  ) => `create or replace function app.refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
    create constraint trigger refuse after ${when} on app.payout_address for each row execute function app.refuse();`
  write(plan, trigger('update'))
  await apply()
  write(plan, trigger('insert'))
  await apply()
  expect(await rows(`select tgtype::int & 4 > 0 as on_insert from pg_trigger where tgname = 'refuse'`)).toEqual([
    {on_insert: true},
  ])
  remove(plan)
  await apply()
  expect(await rows(`select from pg_trigger where tgname = 'refuse'`)).toEqual([])
})

const view = 'views/analytics/plan.sql'
const columns = (text: string) =>
  `create or replace view analytics.plan as select ${text}; grant select on analytics.plan to sluice_analyst;`

test('a view with changed columns is created again with our views that read it; their rights stay', async () => {
  write(view, columns('1 as a, 2 as b'))
  write(
    'views/analytics/reader.sql',
    'create or replace view analytics.reader as select a from analytics.plan; grant select on analytics.reader to sluice_analyst;',
  )
  write(
    'views/analytics/sum.sql',
    'create materialized view analytics.sum as select count(a) from analytics.reader; grant select on analytics.sum to sluice_analyst;',
  )
  await apply()
  write(view, columns('2 as b, 1 as a'))
  expect(await apply()).toEqual([view, 'views/analytics/reader.sql', 'views/analytics/sum.sql'])
  const analyst = new pg.Client({connectionString: roleUrl(url, 'sluice_analyst')})
  await analyst.connect()
  expect(
    (
      await analyst.query(
        'select b, a, (select a from analytics.reader) as r, (select count from analytics.sum) as n from analytics.plan',
      )
    ).rows,
  ).toEqual([{b: 2, a: 1, r: 1, n: '1'}])
  await analyst.end()
})

test("a view that gets a column at its end is replaced, and an analyst's own view on it stays", async () => {
  write(view, columns('1 as a'))
  await apply()
  await client.query('create view public.mine as select a from analytics.plan')
  write(view, columns('1 as a, 2 as b'))
  await apply()
  expect(await rows('select * from analytics.plan cross join public.mine as mine (m)')).toEqual([{a: 1, b: 2, m: 1}])
})

test("an analyst's own view in the way fails the migration with its name, and nothing is changed", async () => {
  write(view, columns('1 as a'))
  await apply()
  await client.query('create view public.mine as select a from analytics.plan')
  const before = await schemaSnapshot(client)
  write(view, columns('2 as b'))
  const refused = apply()
  await expect(refused).rejects.toBeInstanceOf(PermanentError)
  await expect(refused).rejects.toThrow(
    'db/views/analytics/plan.sql: analytics.plan has to be made again, and mine, which Sluice did not make, reads it: drop mine first',
  )
  expect(await schemaSnapshot(client)).toBe(before)
  await client.query('drop view public.mine')
  await apply()
})

test("an analyst's own view is not mistaken for one of ours that has the name of a trigger", async () => {
  write(view, columns('1 as a'))
  await apply()
  expect(
    await rows(`select from public.sluice_object where kind = 'trigger' and name like 'derive on %'`),
  ).toHaveLength(1)
  await client.query('create view public.derive as select a from analytics.plan')
  write(view, columns('2 as b'))
  await expect(apply()).rejects.toThrow('analytics.plan has to be made again, and derive, which Sluice did not make')
  expect(await rows('select * from public.derive')).toEqual([{a: 1}])
})

test("a removed view that an analyst's view reads is not dropped, and is named", async () => {
  write(view, columns('1 as a'))
  await apply()
  await client.query('create view public.mine as select a from analytics.plan')
  remove(view)
  await apply()
  nextVersion()
  const refused = apply()
  await expect(refused).rejects.toBeInstanceOf(PermanentError)
  await expect(refused).rejects.toThrow(/view mine depends on view analytics.plan/)
})

test('a materialised view that is created again is reported as not populated until it is refreshed', async () => {
  await client.query('select app.refresh_analytics() from generate_series(1, 10)')
  const file = 'views/analytics/customer_cohorts.sql'
  const state = `select refreshed_at is not null as populated from analytics.freshness where view_name = 'customer_cohorts'`
  expect(await rows(state)).toEqual([{populated: true}])
  writeFileSync(new URL(file, folder), 'select;\n', {flag: 'a'})
  expect(await apply()).toEqual([file])
  expect(await rows(state)).toEqual([{populated: false}])
  await client.query('select app.refresh_analytics() from generate_series(1, 10)')
  expect(await rows(state)).toEqual([{populated: true}])
})

test('a materialised view becomes a view, with our views that read it; the version after does not drop it', async () => {
  const [sum, reader] = ['views/analytics/sum.sql', 'views/analytics/sum_reader.sql']
  write(sum, 'create materialized view analytics.sum as select 1 as n with no data;')
  write(reader, 'create or replace view analytics.sum_reader as select n from analytics.sum;')
  await apply()
  write(sum, 'create or replace view analytics.sum as select 2 as n;')
  expect(new Set(await apply())).toEqual(new Set([sum, reader]))
  expect(await rows('select n from analytics.sum_reader')).toEqual([{n: 2}])
  nextVersion()
  await apply()
  expect(await rows('select n from analytics.sum_reader')).toEqual([{n: 2}])
})
