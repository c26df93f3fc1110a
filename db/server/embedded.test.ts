// The embedded PostgreSQL after each kind of death that embedded.ts names, on the real server.
import {type ChildProcess, spawn} from 'node:child_process'
import {chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile} from 'node:fs/promises'
import {createServer} from 'node:net'
import {tmpdir} from 'node:os'
import path from 'node:path'
import pg from 'pg'
import {afterEach, beforeEach, expect, test} from 'vitest'
import {commandLine} from '../../base/process.ts'
import {until} from '../../test/support/until.ts'
import {type EmbeddedPostgres, startPostgres} from './embedded.ts'

const flags = ['-c fsync=off']
const asRoot = process.getuid?.() === 0
let dir: string
let started: EmbeddedPostgres[]
let children: ChildProcess[]

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'sluice-postgres-'))
  await chmod(dir, 0o755)
  started = []
  children = []
})

afterEach(async () => {
  for (const child of children) child.kill('SIGKILL')
  for (const postgres of started) await postgres.stop()
  await rm(dir, {recursive: true, force: true})
})

async function start(directory = dir): Promise<EmbeddedPostgres> {
  const postgres = await startPostgres({dir: directory, flags})
  started.push(postgres)
  return postgres
}

async function query(url: string, sql: string): Promise<unknown[][]> {
  const client = new pg.Client({connectionString: url})
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query({text: sql, rowMode: 'array'})).rows
  } finally {
    await client.end()
  }
}

async function postmasterPid({dataDirectory}: EmbeddedPostgres): Promise<number> {
  return Number.parseInt(await readFile(path.join(dataDirectory, 'postmaster.pid'), 'utf8'), 10)
}

async function killPostmaster(postgres: EmbeddedPostgres): Promise<void> {
  const pid = await postmasterPid(postgres)
  process.kill(pid, 'SIGKILL')
  await until(async () => !(await commandLine(pid)), {timeoutMs: 5_000, what: 'the postmaster to be gone'})
}

test('a first start makes a UTF8 cluster in UTC with a password, and a stop and start keep its data', async () => {
  const first = await start()
  expect(first).toMatchObject({dataDirectory: path.join(dir, 'data'), reused: false})
  expect(
    await query(
      first.url,
      `select current_database(), current_user, current_setting('server_version_num')::int / 10000,
         current_setting('server_encoding'), (select datcollate from pg_database where datname = 'sluice'), current_setting('timezone'),
         current_setting('max_connections'), current_setting('fsync')`,
    ),
  ).toEqual([['sluice', 'sluice', 18, 'UTF8', 'C', 'UTC', '200', 'off']])
  expect((await stat(path.join(dir, 'postgres.json'))).mode & 0o777).toBe(0o600)
  await expect(query(first.url.replace(/:[0-9a-f]{48}@/, ':guess@'), 'select 1')).rejects.toThrow(/password/)
  await query(first.url, 'create table kept as select 1 as n')
  await first.stop()
  await expect(query(first.url, 'select 1')).rejects.toThrow(/ECONNREFUSED/)

  const second = await start()
  expect(second.url).toBe(first.url)
  expect(second.reused).toBe(false)
  expect(await query(second.url, 'select n from kept')).toEqual([[1]])
  expect(await readFile(path.join(dir, 'server.log'), 'utf8')).toContain('ready to accept connections')
})

test('a server whose parent was killed is found and used again', async () => {
  const parent = spawn(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      `const {startPostgres} = await import(${JSON.stringify(new URL('embedded.ts', import.meta.url).href)})
       const {url} = await startPostgres(${JSON.stringify({dir, flags})})
       console.log(url)
       setInterval(() => {}, 1000)`,
    ],
    {stdio: ['ignore', 'pipe', 'inherit']},
  )
  children.push(parent)
  const url = await new Promise(resolve => parent.stdout.once('data', data => resolve(String(data).trim())))
  parent.kill('SIGKILL')
  await new Promise(resolve => parent.once('exit', resolve))
  expect(await start()).toMatchObject({reused: true, url})
})

test('a killed postmaster recovers what was committed, even if another program has its pid', async () => {
  const first = await start()
  await query(first.url, 'create table kept as select 1 as n')
  await killPostmaster(first)
  const other = spawn('sleep', ['60'], asRoot ? await ownerOf(first.dataDirectory) : {})
  children.push(other)
  const file = path.join(first.dataDirectory, 'postmaster.pid')
  await writeFile(file, (await readFile(file, 'utf8')).replace(/^\d+/, String(other.pid)))
  const second = await start()
  expect(second).toMatchObject({reused: false, url: first.url})
  expect(await query(second.url, 'select n from kept')).toEqual([[1]])
  expect(await commandLine(other.pid as number)).toBe('sleep 60')
})

test('a port in use is replaced by a free one, which is used from then on', async () => {
  const first = await start()
  await first.stop()
  const port = Number(new URL(first.url).port)
  const squatter = createServer()
  await new Promise<void>(resolve => squatter.listen(port, '127.0.0.1', resolve))
  try {
    const second = await start()
    expect(second.url).not.toBe(first.url)
    await second.stop()
    expect((await start()).url).toBe(second.url)
  } finally {
    squatter.close()
  }
})

test('a start that was killed inside initdb starts again from the beginning', async () => {
  await mkdir(path.join(dir, 'initdb-0badcafe'), {recursive: true})
  await writeFile(path.join(dir, 'initdb-0badcafe', 'PG_VERSION'), '18\n')
  const postgres = await start()
  expect(await query(postgres.url, 'select 1')).toEqual([[1]])
  await expect(stat(path.join(dir, 'initdb-0badcafe'))).rejects.toThrow(/ENOENT/)
})

test('a server that cannot start is reported with its output', async () => {
  await expect(startPostgres({dir, flags: ['-c shared_buffers=nonsense']})).rejects.toThrow(
    /did not start \(exit code 1\).*server\.log ends with:[\s\S]*invalid value for parameter "shared_buffers"/,
  )
})

test('a cluster without its password file is refused, with what to do', async () => {
  await mkdir(path.join(dir, 'data'))
  await expect(start()).rejects.toThrow(/postgres\.json, which holds its password; restore that file/)
})

test.runIf(asRoot)(
  'below a directory that only root may enter, the data moves to where the server can reach it',
  async () => {
    await chmod(dir, 0o700)
    const home = path.join(dir, 'postgres')
    const first = await start(home)
    try {
      expect(first.dataDirectory).toMatch(/^\/var\/lib\/sluice\/[0-9a-f]{16}-[0-9a-f]{8}\/data$/)
      expect(await query(first.url, 'select 1')).toEqual([[1]])
      await first.stop()
      expect(await start(home)).toMatchObject({url: first.url, dataDirectory: first.dataDirectory})
    } finally {
      for (const postgres of started.splice(0)) await postgres.stop()
      await rm(path.dirname(first.dataDirectory), {recursive: true})
    }
  },
)

async function ownerOf(file: string): Promise<{uid: number; gid: number}> {
  const {uid, gid} = await stat(file)
  return {uid, gid}
}
