// Errors of a real Postgres that has no free connection, is away, or cannot write are recognised as the database's.
// Other errors are not.
import {execFileSync, spawnSync} from 'node:child_process'
import {mkdtempSync, readFileSync, rmSync} from 'node:fs'
import {writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import path from 'node:path'
import type pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {ChainDatabase} from '../../indexers/subsquid/store.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {until} from '../../test/support/until.ts'
import {type Failure, failureOf, fromDatabase, inWords, isAway} from './failure.ts'
import {lockConnection, openPool} from './pool.ts'

let db: TestDatabase
const role = `limited_${process.pid}`
const pools: pg.Pool[] = []
const hasOpenssl = spawnSync('openssl', ['version']).status === 0

beforeAll(async () => {
  db = await testDatabase()
  await db.rows(`select chain.anchor('ETH', 'test', 0, '0x0', now())`)
  await db.rows(`create role ${role} login password 'x' connection limit 1`)
})
afterAll(async () => {
  await Promise.all(pools.map(pool => pool.end()))
  await db.rows(`drop role ${role}`)
  await db.drop()
})

function open(url: string): pg.Pool {
  const pool = openPool(url, {name: 'test', max: 1})
  pools.push(pool)
  return pool
}

async function errorOf(work: Promise<unknown>): Promise<Error> {
  const error = await work.then(
    () => undefined,
    error => error,
  )
  expect(error).toBeInstanceOf(Error)
  return error
}

async function failure(work: Promise<unknown>): Promise<Failure | undefined> {
  return failureOf(await errorOf(work))
}

function limited(): string {
  const url = new URL(db.ownerUrl)
  url.username = role
  url.password = 'x'
  return url.href
}

/** Every way in which a process connects. */
const connections = (url: string): (() => Promise<unknown>)[] => [
  () => open(url).query('select'),
  () => open(url).connect(),
  () => lockConnection(url, 'test').connect(),
  () => new ChainDatabase(url, 'ETH').connect(),
]

test('a server that takes no writes is refused by every new connection, except for one that only reads', async () => {
  const url = `${db.ownerUrl}?options=-c%20default_transaction_read_only%3Don`
  const expected = {
    reason: 'database_unavailable',
    message: expect.stringMatching(/^the database accepts no writes: default_transaction_read_only is on \(25006\)/),
  }
  for (const connect of connections(url)) {
    const error = await errorOf(connect())
    expect(failureOf(error)).toEqual(expected)
    expect(isAway(error)).toBe(true) // it is waited for
  }
  const reader = openPool(url, {name: 'test', max: 1, isForReads: true})
  expect((await reader.query('select 1 as one')).rows).toEqual([{one: 1}])
  await reader.end()
})

test('a wrong password or name of the database is not waited for, by whatever connects', async () => {
  const wrong = new URL(db.ownerUrl)
  wrong.password = 'wrong'
  const nameless = new URL(db.ownerUrl)
  nameless.pathname = '/no_such_database'
  for (const url of [wrong, nameless])
    for (const connect of connections(url.href)) {
      const error = await errorOf(connect())
      expect(failureOf(error)?.message).toMatch(/^the database refuses the connection: /)
      expect(isAway(error)).toBe(false)
    }
})

test.skipIf(!hasOpenssl)(
  'a server without TLS, or with a certificate that nobody trusts, refuses us: nobody waits for that to mend itself',
  async () => {
    const made = mkdtempSync(path.join(tmpdir(), 'sluice-certificate-'))
    const [key, certificate] = [path.join(made, 'key'), path.join(made, 'certificate')]
    const ofTest = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-subj', '/CN=test']
    execFileSync('openssl', ['req', '-x509', ...ofTest, '-keyout', key, '-out', certificate], {stdio: 'ignore'})
    const {folder} = (await db.rows<{folder: string}>(`select current_setting('data_directory') as folder`))[0]!
    const files = {ssl_key_file: key, ssl_cert_file: certificate}
    const url = (mode: string) => `${db.ownerUrl}?sslmode=${mode}`
    const refusals = async (reason: RegExp) => {
      for (const connect of connections(url('verify-full'))) {
        const error = await errorOf(connect())
        expect(failureOf(error)?.message).toMatch(/^the database refuses the connection: /)
        expect(failureOf(error)?.message).toMatch(reason)
        expect(isAway(error)).toBe(false)
      }
    }
    await refusals(/does not support SSL/)
    try {
      for (const [name, file] of Object.entries(files)) {
        const lines = `select unnest(string_to_array('${readFileSync(file, 'utf8').trim()}', chr(10)))`
        await db.rows(`copy (${lines}) to program 'umask 077; cat >"${folder}/${name}"'`)
        await db.rows(`alter system set ${name} = '${name}'`)
      }
      await db.rows('alter system set ssl = on')
      await db.rows('select pg_reload_conf()')
      const isOn = async () => (await open(url('no-verify')).query('select')).rowCount === 1
      await until(isOn, {timeoutMs: 30_000, what: 'the server to have TLS'})
      await refusals(/certificate/)
    } finally {
      for (const name of ['ssl', ...Object.keys(files)]) await db.rows(`alter system reset ${name}`)
      await db.rows('select pg_reload_conf()')
      rmSync(made, {recursive: true})
    }
  },
)

test('a Postgres without free connections is named, by a pool and by the store of an indexer', async () => {
  const first = open(limited())
  await first.query('select')
  const expected = {
    reason: 'database_unavailable',
    message: expect.stringMatching(
      /^the database has no connection left: too many connections for role .*53300.*max_connections/,
    ),
  }
  expect(await failure(open(limited()).query('select'))).toEqual(expected)
  expect(await failure(open(limited()).connect())).toEqual(expected)
  expect(await failure(new ChainDatabase(limited(), 'ETH').connect())).toEqual(expected)
})

test.each([
  ['53100', 'disk_full', /^the disk of the database is full: /],
  ['53200', 'database_unavailable', /^the database has no memory left: /],
  ['53400', 'database_unavailable', /^the database has reached one of its limits: /],
  ['57P03', 'database_unavailable', /^the database cannot be reached: /],
  ['57014', 'database_unavailable', /^the database did not respond in time: /],
  ['08006', 'database_unavailable', /^the database cannot be reached: /],
  ['25006', 'database_unavailable', /^the database accepts no writes: /],
  ['28P01', 'database_unavailable', /^the database refuses the connection: /],
  ['58030', 'database_unavailable', /^the database cannot use its files: /],
  ['23505', 'database_error', /^the database refused a statement: /],
])('%s of Postgres is %s, also where the store of an indexer meets it', async (code, reason, message) => {
  const sql = `do $$ begin raise exception 'no space, or whatever' using errcode = '${code}'; end $$`
  const expected = {reason, message: expect.stringMatching(message)}
  expect(await failure(db.pool.query(sql))).toEqual(expected)
  const store = new ChainDatabase(db.url('sluice_indexer'), 'ETH')
  const {submit} = store as unknown as {
    submit(work: (manager: {query(sql: string): Promise<unknown>}) => Promise<unknown>): Promise<void>
  }
  await store.connect()
  expect(await failure(submit.call(store, manager => manager.query(sql)))).toEqual(expected)
  await store.disconnect()
})

test('a Postgres that is away, or goes away during a statement, is reported as the database and not the node', async () => {
  const away = new URL(db.ownerUrl)
  away.port = '1'
  expect(await failure(open(away.href).query('select'))).toMatchObject({
    reason: 'database_unavailable',
    message: expect.stringMatching(/^the database cannot be reached: .*ECONNREFUSED/),
  })
  const pool = open(db.ownerUrl)
  const {rows} = await pool.query<{pid: number}>('select pg_backend_pid() as pid')
  const sleeping = failure(pool.query('select pg_sleep(10)'))
  await db.rows('select pg_terminate_backend($1)', [rows[0]!.pid])
  expect(await sleeping).toMatchObject({reason: 'database_unavailable'})
})

test('a connection to a server that is no primary any more is closed after the error, and never used again', async () => {
  const pool = open(db.ownerUrl)
  const pid = async () => (await pool.query<{pid: number}>('select pg_backend_pid() as pid')).rows[0]!.pid
  const before = await pid()
  const client = await pool.connect()
  await client.query('begin transaction read only') // what a standby would say
  await expect(client.query('create table public.a ()')).rejects.toMatchObject({code: '25006'})
  client.release() // by somebody who does not know what the error means
  expect(await pid()).not.toBe(before)

  const store = new ChainDatabase(db.url('sluice_indexer'), 'ETH')
  const {submit} = store as unknown as {
    submit(work: (manager: {query(sql: string): Promise<unknown>}) => Promise<unknown>): Promise<void>
  }
  await store.connect()
  const backends = new Set<unknown>()
  const write = (sql: string) =>
    submit.call(store, async manager => {
      backends.add(JSON.stringify(await manager.query('select pg_backend_pid()')))
      await manager.query(sql)
    })
  await write('select')
  expect(await failure(write('set transaction read only; delete from chain.block'))).toMatchObject({
    reason: 'database_unavailable',
  })
  await write('select')
  expect(backends.size).toBe(2)
  await store.disconnect()
})

test('a full disk of this machine is named; an error of the node is not reported as the database', async () => {
  const error = await writeFile('/dev/full', 'x').catch(error => error)
  expect(failureOf(error)).toMatchObject({
    reason: 'disk_full',
    message: expect.stringMatching(/^a disk of this machine is full: ENOSPC/),
  })
  const node = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:8545'), {code: 'ECONNREFUSED'})
  expect(failureOf(node)).toBeUndefined()
  expect(inWords(node)).toBe('connect ECONNREFUSED 127.0.0.1:8545')
  await expect(fromDatabase(Promise.reject(node))).rejects.toBe(node)
  expect(failureOf(node)).toMatchObject({reason: 'database_unavailable'})
})
