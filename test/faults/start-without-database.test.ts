// npm start while the database of DATABASE_URL is away, or dies meanwhile: it waits, says so once, and then works. One
// that refuses us ends it with the reason. A real Postgres, and a real service on it without custody, which would need
// a seed.
import {readFileSync} from 'node:fs'
import path from 'node:path'
import pg from 'pg'
import {afterAll, afterEach, beforeAll, beforeEach, expect, test} from 'vitest'
import {readProcesses, readService} from '../../base/home.ts'
import {withPassword} from '../../db/migrate/migrate.ts'
import {type EmbeddedPostgres, startPostgres} from '../../db/server/embedded.ts'
import {kill, newHome, processesOf, removeHome, treeOf} from '../support/processes.ts'
import {ended, type Started, spawnService} from '../support/service.ts'
import {until} from '../support/until.ts'

const timeoutMs = 60_000
const isAway = 'the database is away; trying again until it is back'

let databaseHome: string
let home: string
let postgres: EmbeddedPostgres

const startServer = async () => {
  postgres = await startPostgres({dir: databaseHome, flags: ['-c fsync=off']})
}

const startService = (url = postgres.url): Started =>
  spawnService(home, 0, {DATABASE_URL: url, SLUICE_DEVNET: 'off'}, ['--without', 'custody'])

/** The lines of the logs of all processes, which the service prints. */
const lines = ({output}: Started): {process: string; msg: string}[] =>
  output()
    .split('\n')
    .filter(line => line.startsWith('{'))
    .map(line => JSON.parse(line))

const said = (service: Started, msg: string) => lines(service).filter(line => line.msg === msg)

async function killServer(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
  const pid = Number.parseInt(readFileSync(path.join(postgres.dataDirectory, 'postmaster.pid'), 'utf8'), 10)
  for (const each of treeOf(pid)) kill(each, signal)
}

async function query(sql: string): Promise<object[]> {
  const client = new pg.Client({connectionString: postgres.url})
  await client.connect()
  const {rows} = await client.query(sql)
  await client.end()
  return rows
}

async function works(service: Started): Promise<void> {
  const isRunning = async () => {
    if (service.child.exitCode !== null) throw new Error(`the service ended:\n${service.output()}`)
    return readService(home)?.running
  }
  await until(isRunning, {timeoutMs, what: 'the service to run'})
  const ready = await (await fetch(`${readService(home)!.api_url}/readyz`)).json()
  expect(ready).toMatchObject({database: true})
}

beforeAll(async () => {
  databaseHome = newHome()
  await startServer()
})
afterAll(async () => {
  await postgres.stop()
  await removeHome(databaseHome)
})
beforeEach(() => {
  home = newHome()
})
afterEach(async () => {
  await removeHome(home) // with its processes
})

test('a service that is started while its database is away waits for it, and says so once', async () => {
  await killServer()
  const service = startService()
  await until(async () => said(service, isAway).length, {timeoutMs, what: 'it to wait'})
  await startServer()
  await works(service)
  expect(said(service, isAway)).toEqual([expect.objectContaining({process: 'supervisor'})])
  expect(said(service, 'the database is back')).toEqual([
    expect.objectContaining({process: 'supervisor', seconds: expect.any(Number)}),
  ])
})

test('a service whose database dies while its processes start goes on once it is back; each says so once', async () => {
  const service = startService()
  await until(async () => readProcesses(home).some(({pid}) => pid), {timeoutMs, what: 'a process to start'})
  await killServer()
  const waiting = () => new Set(said(service, isAway).map(line => line.process))
  await until(async () => waiting().size === 3, {timeoutMs, what: 'the API, the jobs and the sign-in to wait'})
  await startServer()
  await works(service)
  expect(said(service, isAway)).toHaveLength(waiting().size)
})

test.each(['SIGKILL', 'SIGSTOP'] as const)(
  'a database that is lost while it is migrated is migrated once it is back (%s)',
  async signal => {
    const name = `fresh_${signal.toLowerCase()}`
    await query(`create database ${name}`)
    const service = startService(postgres.url.replace(/\/sluice$/, `/${name}`))
    const migrates = `select from pg_stat_activity where application_name = 'sluice-migrate' and datname = '${name}'`
    await until(async () => (await query(migrates)).length, {timeoutMs, intervalMs: 5, what: 'the migration to begin'})
    await killServer(signal)
    await until(async () => said(service, isAway).length, {timeoutMs, what: 'it to notice'})
    await killServer()
    await startServer()
    await works(service)
  },
)

test('a service that is stopped while it waits for its database ends at once, and leaves nothing behind', async () => {
  await killServer()
  const service = startService()
  await until(async () => said(service, isAway).length, {timeoutMs, what: 'it to wait'})
  service.child.kill('SIGTERM')
  expect(await ended(service.child)).toBe(0)
  expect(service.output()).toContain('Everything is stopped.')
  expect(processesOf(home)).toEqual([])
  await startServer()
})

test('a database that refuses the password, or does not exist, ends the start with the reason', async () => {
  for (const [url, reason] of [
    [withPassword(postgres.url, 'wrong'), 'password authentication failed'],
    [postgres.url.replace(/\/sluice$/, '/nothing'), 'database "nothing" does not exist'],
    [withPassword(postgres.url, ''), 'SASL: .*password must be a'],
  ] as const) {
    const {child, output} = startService(url)
    expect(await ended(child)).toBe(1)
    expect(output()).toMatch(new RegExp(`^sluice: the database refuses the connection: ${reason}.*DATABASE_URL`, 'm'))
    expect(processesOf(home)).toEqual([])
  }
})
