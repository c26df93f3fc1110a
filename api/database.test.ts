// Reads that are shared, and connections that survive refusals, on the real database.
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {until} from '../test/support/until.ts'
import {Database, statement} from './database.ts'

let db: TestDatabase
let database: Database
/** Each execution gives another number. */
const next = statement('next', `select nextval('public.executions'), $1::text`)

beforeAll(async () => {
  db = await testDatabase()
  await db.rows('create sequence public.executions')
  database = new Database(db.ownerUrl, {max: 1})
})
afterAll(async () => {
  await database.close()
  await db.drop()
})

/** Keeps the only connection busy until it is let go. */
async function busy(): Promise<() => Promise<void>> {
  const client = new pg.Client({connectionString: db.ownerUrl})
  await client.connect()
  await client.query('select pg_advisory_lock(1)')
  const waiting = database.change(statement('wait', 'select pg_advisory_lock(1), pg_advisory_unlock(1)'), [])
  const isWaiting = async () =>
    (await db.rows(`select from pg_locks where locktype = 'advisory' and not granted`)).length === 1
  await until(isWaiting, {timeoutMs: 5000, what: 'the connection to be busy'})
  return async () => {
    await client.query('select pg_advisory_unlock(1)')
    await waiting
    await client.end()
  }
}

test('identical reads that wait for a connection share one execution, and other reads have their own', async () => {
  const letGo = await busy()
  const same = Array.from({length: 5}, () => database.read(next, ['a']))
  const other = database.read(next, ['b'])
  const changes = Array.from({length: 2}, () => database.change(next, ['a']))
  await letGo()
  const responses = await Promise.all(same)
  expect(new Set(responses.map(response => response![0])).size).toBe(1)
  const all = [responses[0], await other, ...(await Promise.all(changes))]
  expect(new Set(all.map(response => response![0])).size).toBe(4)
})

test('a read that has begun is not shared with later requests', async () => {
  const slow = statement('slow', 'select pg_advisory_lock_shared(2), pg_advisory_unlock_shared(2), nextval($1)')
  const client = new pg.Client({connectionString: db.ownerUrl})
  await client.connect()
  await client.query('select pg_advisory_lock(2)')
  const first = database.read(slow, ['public.executions'])
  const hasBegun = async () =>
    (await db.rows(`select from pg_locks where locktype = 'advisory' and not granted`)).length === 1
  await until(hasBegun, {timeoutMs: 5000, what: 'the read to begin'})
  const second = database.read(slow, ['public.executions'])
  await client.query('select pg_advisory_unlock(2)')
  await client.end()
  expect((await first)![2]).not.toBe((await second)![2])
})

test('a read that fails, fails for everyone who waits for it, and the next request runs it again', async () => {
  const letGo = await busy()
  const failing = statement('failing', 'select 1 / $1::int')
  const reads = [database.read(failing, [0]), database.read(failing, [0])]
  const settled = Promise.allSettled(reads)
  await letGo()
  expect((await settled).map(({status}) => status)).toEqual(['rejected', 'rejected'])
  await expect(database.read(failing, [0])).rejects.toThrow('division by zero')
})

test('a refusal by the database does not close the connection', async () => {
  const pid = statement('pid', 'select pg_backend_pid()')
  const before = await database.read(pid, [])
  await expect(database.change(statement('refuse', `select 1 / 0`), [])).rejects.toThrow()
  expect(await database.read(pid, [])).toEqual(before)
})

test('a statement without a response fails in time, and its connection is replaced', async () => {
  const hasty = new Database(db.ownerUrl, {max: 1, timeoutMs: 200})
  const pid = statement('pid', 'select pg_backend_pid()')
  const before = await hasty.read(pid, [])
  await expect(hasty.change(statement('hang', 'select pg_sleep(60)'), [])).rejects.toThrow('Connection terminated')
  expect(await hasty.read(pid, [])).not.toEqual(before)
  await hasty.close()
})

test('a connection that breaks is replaced', async () => {
  const pid = statement('pid', 'select pg_backend_pid()')
  const before = (await database.read<[number]>(pid, []))![0]
  await expect(database.change(statement('die', 'select pg_terminate_backend(pg_backend_pid())'), [])).rejects.toThrow()
  expect((await database.read<[number]>(pid, []))![0]).not.toBe(before)
})
