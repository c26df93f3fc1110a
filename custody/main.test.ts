// Custody as a process, on a real database: what it fills, and what it refuses.
import {type ChildProcess, fork} from 'node:child_process'
import {once} from 'node:events'
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {afterEach, beforeEach, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {until} from '../test/support/until.ts'
import {evmAddresses} from './seed.ts'

const junk = 'test test test test test test test test test test test junk'
const size = 30

let db: TestDatabase
let home: string
const processes: ChildProcess[] = []

beforeEach(async () => {
  db = await testDatabase()
  home = mkdtempSync(path.join(tmpdir(), 'sluice-custody-'))
})
afterEach(async () => {
  for (const custody of processes.splice(0)) if (custody.exitCode === null) custody.kill('SIGKILL')
  await db.drop()
  rmSync(home, {recursive: true})
})

interface Custody {
  process: ChildProcess
  /** What it logged so far. */
  log(): string
}

function spawn(directory = home): Custody {
  const child = fork(new URL('main.ts', import.meta.url), {
    env: {
      ...process.env,
      DATABASE_URL: db.url('sluice_custody'),
      SLUICE_HOME: directory,
      ADDRESS_POOL_SIZE: String(size),
      LOG_LEVEL: 'trace',
    },
    execArgv: [],
    silent: true,
  })
  processes.push(child)
  let text = ''
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.on('data', data => {
      text += data
    })
  }
  return {process: child, log: () => text}
}

async function start(directory = home): Promise<Custody> {
  const custody = spawn(directory)
  const [message] = await once(custody.process, 'message', {signal: AbortSignal.timeout(15_000)})
  expect(message).toEqual({ready: true})
  return custody
}

const exitOf = async ({process}: Custody) =>
  (await once(process, 'exit', {signal: AbortSignal.timeout(10_000)}))[0] as number
const useSeed = (phrase: string) => writeFileSync(path.join(home, 'seed'), phrase)
const pool = async () =>
  (
    await db.rows<{address: string; derivation_index: string; family: string; taken_at: Date | null}>(
      'select * from custody.address order by derivation_index',
    )
  ).map(row => ({...row, derivation_index: Number(row.derivation_index)}))
const take = (count: number) =>
  db.pool.query(
    `update custody.address set taken_at = now() where address in (
       select address from custody.address where taken_at is null order by derivation_index limit $1)`,
    [count],
  )
const filledTo = (count: number) =>
  until(async () => (await pool()).length === count, {timeoutMs: 5000, what: `${count} addresses`})

test('a first start makes a seed and fills the pool from it, in order, and the seed is in no log', async () => {
  const custody = await start()
  const phrase = readFileSync(path.join(home, 'seed'), 'utf8').trim()
  const derive = await evmAddresses(phrase)
  expect((await pool()).map(row => [row.family, row.derivation_index, row.address, row.taken_at])).toEqual(
    Array.from({length: size}, (_, index) => ['evm', index, derive(index), null]),
  )
  expect(custody.log()).toContain('unencrypted')
  for (const [i, word] of phrase.split(' ').entries())
    expect(custody.log()).not.toContain(`${word} ${phrase.split(' ')[i + 1] ?? word}`)
})

test('what is taken is replaced, by itself and at once when the pool is called low, also after a restart', async () => {
  useSeed(junk)
  const derive = await evmAddresses(junk)
  const first = await start()
  await take(10)
  await filledTo(size + 10)
  await take(size)
  await db.pool.query('notify address_pool_low')
  await filledTo(2 * size + 10)
  first.process.kill('SIGKILL')
  await exitOf(first)
  await take(5)
  await start()
  await filledTo(2 * size + 15)
  expect((await pool()).map(row => row.address)).toEqual(Array.from({length: 2 * size + 15}, (_, i) => derive(i)))
  expect((await pool()).filter(row => row.taken_at).map(row => row.derivation_index)).toHaveLength(size + 15)
})

test('a seed that did not make the addresses is refused, and nothing is added', async () => {
  useSeed(junk)
  const first = await start()
  first.process.kill('SIGTERM')
  expect(await exitOf(first)).toBe(0)
  useSeed('abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about')
  await take(5)
  const custody = spawn()
  expect(await exitOf(custody)).toBe(1)
  expect(custody.log()).toMatch(/the seed does not derive address 0 of the database's pool/)
  expect(custody.log()).not.toContain('abandon')
  expect(await pool()).toHaveLength(size)
})

test('where the seed is missing though addresses were made from it, no new one is made', async () => {
  useSeed(junk)
  const first = await start()
  first.process.kill('SIGTERM')
  await exitOf(first)
  rmSync(path.join(home, 'seed'))
  const custody = spawn()
  expect(await exitOf(custody)).toBe(1)
  expect(custody.log()).toMatch(/seed is missing, and the database holds addresses of it; restore it from a backup/)
  expect(() => readFileSync(path.join(home, 'seed'))).toThrow(/ENOENT/)
})

test('a second process stands by, so that two seeds never share a pool', async () => {
  const first = await start()
  const other = mkdtempSync(path.join(tmpdir(), 'sluice-custody-'))
  const second = spawn(other)
  await until(async () => second.log().includes('standing by'), {timeoutMs: 10_000, what: 'the second to stand by'})
  first.process.kill('SIGKILL')
  expect(await exitOf(second)).toBe(1)
  expect(second.log()).toMatch(/seed is missing/)
  expect(await pool()).toHaveLength(size)
  rmSync(other, {recursive: true})
})

test('it ends with its parent, and with exit code 1 when it loses the database', async () => {
  const first = await start()
  first.process.disconnect()
  expect(await exitOf(first)).toBe(0)
  const second = await start()
  await db.pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sluice-custody' and datname = current_database()`,
  )
  expect(await exitOf(second)).toBe(1)
})
