// Migrating a real database: what runs, what is refused, and that a failure half-way leaves nothing behind.
import {randomBytes} from 'node:crypto'
import {readFileSync, rmSync, writeFileSync} from 'node:fs'
import pg from 'pg'
import {afterEach, beforeEach, expect, inject, test} from 'vitest'
import {PermanentError, RetryableError} from '../../base/errors.ts'
import {familyOf} from '../../chains/families.ts'
import {chains} from '../../chains/registry.ts'
import {schemaSnapshot} from '../../test/snapshot.ts'
import {createDatabase, templateName, urlOf} from '../../test/support/database.ts'
import {copySchema} from '../../test/support/schema-folder.ts'
import {until} from '../../test/support/until.ts'
import {migrate, roleUrl} from './migrate.ts'

let name: string
let url: string
let client: pg.Client
/** A copy of the tables, functions and views, for a test to change. */
let folder: URL

beforeEach(async () => {
  name = `test_migrate_${randomBytes(6).toString('hex')}`
  await createDatabase(inject('serverUrl'), name)
  url = urlOf(inject('serverUrl'), name)
  client = await connect(url)
  folder = copySchema()
})

afterEach(async () => {
  await client.end()
  const server = await connect(inject('serverUrl'))
  await server.query(`drop database ${name} with (force)`)
  await server.end()
  rmSync(folder, {recursive: true})
})

/** The database as every migration leaves it: a copy of what global-setup.ts migrated. */
async function beMigrated(): Promise<void> {
  await client.end()
  await createDatabase(inject('serverUrl'), name, templateName)
  client = await connect(url)
}

async function connect(to: string): Promise<pg.Client> {
  const client = new pg.Client({connectionString: to})
  await client.connect()
  return client
}

async function rows<T extends pg.QueryResultRow>(sql: string, values?: unknown[]): Promise<T[]> {
  return (await client.query(sql, values)).rows
}

const recorded = () =>
  rows<{name: string}>('select name, checksum, applied_at from public.sluice_migration order by name')

test('every file is applied once, tables first and in order, and a second run changes nothing', async () => {
  const {applied} = await migrate(url)
  const tables = applied.filter(name => name.startsWith('tables/'))
  expect(applied.slice(0, tables.length)).toEqual(tables.toSorted())
  expect(applied.toSorted()).toEqual((await recorded()).map(({name}) => name).toSorted())
  expect(applied[0]).toBe('tables/001_roles.sql')
  const state = async () => [
    await schemaSnapshot(client),
    await recorded(),
    await rows('select * from app.chain join app.asset using (chain) order by chain, token'),
  ]
  const before = await state()
  expect(await migrate(url)).toEqual({applied: []})
  expect(await state()).toEqual(before)
})

test('a migration that was edited after it ran is refused, with its name and what to do instead, and nothing is changed', async () => {
  await beMigrated()
  const before = [await schemaSnapshot(client), await recorded()]
  const edited = new URL('tables/003_merchants.sql', folder)
  writeFileSync(edited, `${readFileSync(edited, 'utf8')}\n-- one more line\n`)
  writeFileSync(new URL('tables/999_later.sql', folder), 'create table app.later ()')
  const refused = migrate(url, folder)
  await expect(refused).rejects.toBeInstanceOf(PermanentError)
  await expect(refused).rejects.toThrow(
    'db/tables/003_merchants.sql was changed after it ran here; add a new file to db/tables instead',
  )
  expect([await schemaSnapshot(client), await recorded()]).toEqual(before)
})

test('a database of the previous layout is refused in one sentence, and nothing in it is changed', async () => {
  await client.query(`create table public.sluice_migration (name text primary key, checksum text not null, applied_at timestamptz);
    insert into public.sluice_migration values ('001_roles.sql', '', now())`)
  const before = await schemaSnapshot(client)
  const refused = migrate(url)
  await expect(refused).rejects.toBeInstanceOf(PermanentError)
  await expect(refused).rejects.toThrow('use a new, empty database')
  expect(await schemaSnapshot(client)).toBe(before)
})

test('a missing file of tables that ran is an error; files of a newer version, after going back to an older one, are not', async () => {
  await beMigrated()
  writeFileSync(new URL('tables/999_later.sql', folder), 'create table app.later ()')
  await migrate(url, folder)
  expect(await migrate(url)).toEqual({applied: []})
  rmSync(new URL('tables/004_events.sql', folder))
  await expect(migrate(url, folder)).rejects.toThrow('db/tables/004_events.sql ran here, and is gone; restore the file')
})

test('of two migrations of the same empty database at once, one does the work, and the other waits and finds it done', async () => {
  const results = await Promise.all([migrate(url), migrate(url)])
  expect(results.map(({applied}) => applied.length).sort((a, b) => a - b)).toEqual([0, (await recorded()).length])
})

test('a migration that fails leaves nothing behind, keeps those before it, and runs once it is fixed', async () => {
  await beMigrated()
  writeFileSync(new URL('tables/998_fine.sql', folder), 'create table app.fine ()')
  const broken = new URL('tables/999_broken.sql', folder)
  const made = `select relname from pg_class where relname in ('fine', 'half_done', 'never_reached') order by relname`
  for (const [sql, reason] of [
    ['create table app.half_done (); select 1 / 0; create table app.never_reached ()', 'division by zero'],
    [
      `create table app.half_done (); insert into public.sluice_migration values ('tables/999_broken.sql', '')`,
      'duplicate key',
    ],
  ] as const) {
    writeFileSync(broken, sql)
    await expect(migrate(url, folder)).rejects.toThrow(`db/tables/999_broken.sql failed and changed nothing: ${reason}`)
    expect(await rows(made)).toEqual([{relname: 'fine'}])
    expect((await recorded()).findLast(({name}) => name.startsWith('tables/'))).toMatchObject({
      name: 'tables/998_fine.sql',
    })
  }

  writeFileSync(broken, 'create table app.half_done ()')
  expect(await migrate(url, folder)).toEqual({applied: ['tables/999_broken.sql']})
  expect(await rows(made)).toEqual([{relname: 'fine'}, {relname: 'half_done'}])
})

const shortWait = {lockTimeoutMs: 50, pauseMs: 10, attempts: 5}

test('a migration that waits for a lock gives way to all others, and runs when the lock is free', async () => {
  await beMigrated()
  writeFileSync(new URL('tables/999_column.sql', folder), 'alter table app.merchant add column later int')
  const holder = await connect(url)
  await holder.query('begin; select from app.merchant')
  const migrated = migrate(url, folder, {lockTimeoutMs: 50, pauseMs: 10, attempts: 1000})
  const waits = `select count(*)::int as n from pg_locks where relation = 'app.merchant'::regclass and not granted`
  await until(async () => (await rows<{n: number}>(waits))[0]!.n > 0, {timeoutMs: 5000, what: 'the migration to wait'})
  for (let n = 0; n < 20; n++) await client.query(`set statement_timeout = 2000; select from app.merchant`)
  await holder.query('rollback')
  await holder.end()
  expect(await migrated).toEqual({applied: ['tables/999_column.sql']})
})

test('a migration that never gets its lock names the transaction in the way, and changes nothing', async () => {
  await beMigrated()
  writeFileSync(
    new URL('tables/999_column.sql', folder),
    'create table app.half_done (); alter table app.merchant add column later int',
  )
  const holder = await connect(url)
  await holder.query(`set application_name = 'a long report'; begin; select from app.merchant`)
  const refused = migrate(url, folder, shortWait)
  await expect(refused).rejects.toBeInstanceOf(RetryableError)
  await expect(refused).rejects.toThrow(
    /^db\/tables\/999_column.sql failed and changed nothing: other transactions hold the locks that it needs; the oldest transaction is a long report \(pid \d+\)/,
  )
  await holder.end()
  expect(await rows(`select relname from pg_class where relname = 'half_done'`)).toEqual([])
  expect(await migrate(url, folder, shortWait)).toEqual({applied: ['tables/999_column.sql']})
})

test('the steps above the transaction run one by one, outside of it, and again if the file starts again', async () => {
  await beMigrated()
  const file = new URL('tables/999_steps.sql', folder)
  const steps = [
    '-- Why.\ncreate table if not exists app.step (n int);\n\ninsert into app.step values (1);\n',
    'drop index concurrently if exists app.step_n;\n\ncreate index concurrently step_n on app.step (n);\n',
  ].join('\n')
  writeFileSync(file, `${steps}\n-- Transaction\ninsert into app.step values (2);\n\nselect 1 / 0;`)
  await expect(migrate(url, folder)).rejects.toThrow(
    '999_steps.sql failed and will start from its top again: division by zero',
  )
  expect(await rows('select n from app.step')).toEqual([{n: 1}])

  writeFileSync(file, `${steps}\n-- Transaction\ninsert into app.step values (2);\n\nselect 1;`)
  expect((await migrate(url, folder)).applied).toEqual(['tables/999_steps.sql'])
  expect(await rows('select n from app.step')).toEqual([{n: 1}, {n: 1}, {n: 2}])
  expect((await recorded()).findLast(({name}) => name.startsWith('tables/'))).toMatchObject({
    name: 'tables/999_steps.sql',
  })
})

test('chains and assets equal the registry after every run, whatever the tables held', async () => {
  await beMigrated()
  await client.query(`update app.asset set name = 'was-' || name, display_name = 'an older name'`)
  await client.query(`delete from app.asset where token = 'USDC'`)
  await client.query(
    'update app.chain set shows_unconfirmed = not shows_unconfirmed, treasury_pays_native_sweeps = not treasury_pays_native_sweeps, coinbase_sender = $1, coinbase_maturity = 7',
    ['was'],
  )
  await client.query('drop schema squid_eth cascade')
  await migrate(url)
  const byCode = chains.toSorted((a, b) => (a.code < b.code ? -1 : 1))
  expect(await rows('select * from app.chain order by chain')).toEqual(
    byCode.map(({code, family, assets}) => {
      const {attemptsExcludeBy, expiry, showsUnconfirmed, coinbase, foldsAddresses, nativeSweepsPaidBy} = familyOf({
        family,
      })
      return {
        chain: code,
        family,
        native_token: assets[0].token,
        attempts_exclude_by: attemptsExcludeBy,
        shows_unconfirmed: showsUnconfirmed,
        coinbase_sender: coinbase?.sender ?? null,
        coinbase_maturity: coinbase?.maturity ?? null,
        folds_addresses: foldsAddresses,
        ends_by: expiry?.endsBy ?? null,
        longest_lifetime: expiry ? String(expiry.longest) : null,
        longest_lifetime_ms: expiry ? String(expiry.longestMs) : null,
        treasury_pays_native_sweeps: nativeSweepsPaidBy === 'treasury',
        assets: null, // until a process writes down those of its settings
      }
    }),
  )
  expect(await rows('select chain, token, name, display_name, decimals from app.asset order by chain, token')).toEqual(
    byCode.flatMap(({code, assets}) =>
      assets.map(asset => ({
        chain: code,
        token: asset.token,
        name: asset.name,
        display_name: asset.displayName,
        decimals: asset.decimals,
      })),
    ),
  )
  expect(await rows(`select to_regclass('squid_eth.status') is not null as made`)).toEqual([{made: true}])
})

test('only the owner may create schemas or temporary tables in a migrated database', async () => {
  await migrate(url)
  expect(
    await rows(`select rolname from pg_roles where rolname ~ '^sluice_'
      and (has_database_privilege(oid, current_database(), 'create') or has_database_privilege(oid, current_database(), 'temporary'))`),
  ).toEqual([])
  const analyst = await connect(roleUrl(url, 'sluice_analyst'))
  await analyst.query('set default_transaction_read_only = off')
  await expect(analyst.query('create temporary table mine ()')).rejects.toThrow('permission denied')
  await analyst.end()
})
