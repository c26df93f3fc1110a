// Every process of the service while its database dies, freezes, or takes no writes: each notices, waits without
// crashing, and works again once the database is back (`npm run bench failover` measures how soon). Meanwhile the API
// answers 503 with Retry-After, the dashboard shows a page that says so, and an outage is logged once. Real processes,
// as the supervisor starts them, on a Postgres of their own.
import {randomBytes} from 'node:crypto'
import {mkdirSync, readFileSync} from 'node:fs'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import pg from 'pg'
import {afterAll, beforeAll, beforeEach, expect, test} from 'vitest'
import {logger} from '../../base/log.ts'
import {migrate, type Role, roleUrl} from '../../db/migrate/migrate.ts'
import {type EmbeddedPostgres, startPostgres} from '../../db/server/embedded.ts'
import {Child} from '../../service/child.ts'
import {makeKey} from '../support/api.ts'
import {makeMerchant} from '../support/people.ts'
import {portsInARow} from '../support/ports.ts'
import {kill, newHome, removeHome, treeOf} from '../support/processes.ts'
import {type Browser, join, setUpAuthenticator} from '../support/sign-in.ts'
import {until} from '../support/until.ts'

const poolSize = 20
const flags = ['-c fsync=off']
const modules = {
  custody: 'custody',
  jobs: 'jobs',
  api: 'api',
  indexer: 'indexers',
  'dashboard-auth': 'dashboard/auth',
  'dashboard-pages': 'dashboard/pages',
}
type Name = keyof typeof modules
const names = Object.keys(modules) as Name[]

let home: string
let postgres: EmbeddedPostgres
let children: Child[]
let apiUrl: string
let key: string
/** Somebody who is signed in. */
let person: Browser

const rows = async <T extends pg.QueryResultRow>(sql: string, values?: unknown[]): Promise<T[]> => {
  const client = new pg.Client({connectionString: postgres.url, connectionTimeoutMillis: 1000})
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query<T>(sql, values)).rows
  } finally {
    client.end().catch(() => {})
  }
}

const startServer = async () => {
  postgres = await startPostgres({dir: path.join(home, 'postgres'), flags})
}

beforeAll(async () => {
  home = newHome()
  mkdirSync(path.join(home, 'logs'))
  await startServer()
  await migrate(postgres.url)
  const port = await portsInARow(2)
  const dashboardPort = port + 1
  apiUrl = `http://127.0.0.1:${port}`
  const child = (name: Name, role: Role, more: NodeJS.ProcessEnv = {}, args: string[] = []) =>
    new Child({
      name,
      module: fileURLToPath(new URL(`../../${modules[name]}/main.ts`, import.meta.url)),
      args,
      environment: () => ({
        ...process.env,
        SLUICE_HOME: home,
        DATABASE_URL: roleUrl(postgres.url, role),
        ADDRESS_POOL_SIZE: String(poolSize),
        ...more,
      }),
      logFile: path.join(home, 'logs', `${name}.log`),
      log: Object.assign(logger('test'), {level: 'silent'}),
      onChange: () => {},
    })
  children = [
    child('custody', 'sluice_custody'),
    child('jobs', 'sluice_jobs'),
    child('api', 'sluice_api', {PORT: String(port), RATE_LIMIT_PER_MINUTE: '100000'}),
    child('indexer', 'sluice_indexer', {ETH_RPC_URL: 'ws://127.0.0.1:1', ETH_CHAIN_ID: '31337'}, ['--chain', 'ETH']),
    child('dashboard-pages', 'sluice_dashboard'),
    child('dashboard-auth', 'sluice_auth', {
      DASHBOARD_PORT: String(dashboardPort),
      DASHBOARD_SECRET: randomBytes(32).toString('hex'),
    }),
  ]
  for (const each of children) await each.start()
  const merchant = await makeMerchant({rows}, ['ETH'])
  key = (await makeKey({rows}, merchant)).secret
  person = await join({url: `http://localhost:${dashboardPort}`}, {rows}, merchant, 'ada@example.test')
  await setUpAuthenticator(person)
})

afterAll(async () => {
  for (const each of children ?? []) each.kill()
  for (const pid of await serverPids().catch(() => [])) kill(pid, 'SIGCONT')
  await postgres?.stop()
  await removeHome(home)
})

beforeEach(async () => {
  await allWork(60_000)
})

async function serverPids(): Promise<number[]> {
  return treeOf(Number.parseInt(readFileSync(path.join(postgres.dataDirectory, 'postmaster.pid'), 'utf8'), 10))
}

/** A user with an address, as a client makes it. */
const createUser = (ref = crypto.randomUUID()) =>
  fetch(`${apiUrl}/v1/users`, {
    method: 'POST',
    headers: {authorization: `Bearer ${key}`, 'content-type': 'application/json'},
    body: JSON.stringify({external_ref: ref}),
    signal: AbortSignal.timeout(30_000),
  })

/** The status of a page, for which both processes of the dashboard ask the database. */
const pageStatus = async () => (await person.get('/')).status

/**
 * The API hands out an address, custody makes the next one, the worker runs a job, and the indexer has its lock: all
 * within this time.
 */
async function allWork(timeoutMs: number): Promise<void> {
  const began = performance.now()
  const within = (what: string, condition: () => Promise<unknown>) =>
    until(condition, {timeoutMs: timeoutMs - (performance.now() - began), what})
  await within('the API to work', async () => (await createUser()).status === 201)
  await within('the dashboard to work', async () => (await pageStatus()) === 200)
  await within('the worker to work', async () => {
    const [{queued} = {queued: 1}] = await rows<{queued: number}>(
      'select count(*)::int as queued from graphile_worker._private_jobs',
    )
    if (queued) return false
    await rows(`select app.enqueue('fail_undeliverable')`)
    return true
  })
  await within('the job to be done', async () => !(await rows('select from graphile_worker._private_jobs')).length)
  const free = `select from custody.address where family = 'evm' and purpose = 'deposit' and taken_at is null`
  await within('custody to fill the pool', async () => (await rows(free)).length >= poolSize)
  const lock = `select from pg_locks l join pg_stat_activity a using (pid) where l.locktype = 'advisory' and l.granted and a.application_name = 'indexer-ETH-lock'`
  await within('the indexer to have its lock', async () => (await rows(lock)).length)
}

interface Line {
  level: number
  msg: string
  reason?: string
  seconds?: number
  /** Whose line it is, if not our own. */
  library?: string
}

const linesOf = (name: Name): Line[] =>
  readFileSync(path.join(home, 'logs', `${name}.log`), 'utf8')
    .split('\n')
    .filter(line => line.startsWith('{')) // Node itself may warn
    .map(line => JSON.parse(line))

const counts = () => Object.fromEntries(names.map(name => [name, linesOf(name).length]))
const since = (before: Record<string, number>, name: Name) => linesOf(name).slice(before[name])
const isAway = 'the database is away; trying again until it is back'
const isBack = 'the database is back'

/** Every process has noticed, and waits for the database. */
async function allWait(before: Record<string, number>, timeoutMs: number): Promise<void> {
  for (const name of names)
    await until(async () => since(before, name).some(({msg}) => msg === isAway), {timeoutMs, what: `${name} to wait`})
}

/**
 * One line for the begin and one for the end, in every process, and no line for what failed meanwhile, but for one of
 * graphile-worker. That the chain has no node here, the indexer says now and then.
 */
async function expectLoggedOnce(before: Record<string, number>): Promise<void> {
  for (const name of names) {
    await until(async () => since(before, name).some(({msg}) => msg === isBack), {timeoutMs: 10_000, what: isBack})
    const said = since(before, name)
    expect([name, said.filter(({msg}) => msg === isAway).length]).toEqual([name, 1])
    expect([name, said.filter(({msg}) => msg === isBack)]).toEqual([
      name,
      [expect.objectContaining({seconds: expect.any(Number)})],
    ])
    const others = said.filter(({level, msg, library}) => level >= 40 && msg !== isAway && !library)
    const isOfNode = ({reason}: Line) => name === 'indexer' && reason === 'node_unavailable'
    expect([name, others.filter(each => !isOfNode(each))]).toEqual([name, []])
  }
}

test('a database that dies is awaited by every process; all work again soon after it is back, and nothing is logged twice', async () => {
  const before = counts()
  for (const pid of await serverPids()) kill(pid, 'SIGKILL')
  await allWait(before, 10_000)
  for (let i = 0; i < 20; i++) {
    const {status, headers} = await createUser()
    expect([status, headers.get('retry-after')]).toEqual([503, '1'])
  }
  expect(await pageStatus()).toBe(503)
  await startServer()
  await allWork(20_000)
  await expectLoggedOnce(before)
})

test('a database that freezes is noticed by every process; requests under way and later ones are 503', async () => {
  const before = counts()
  for (const pid of await serverPids()) kill(pid, 'SIGSTOP')
  const underWay = [createUser(), createUser()]
  const pagesUnderWay = [pageStatus(), pageStatus()]
  await allWait(before, 20_000)
  for (const reply of [...underWay, createUser()]) {
    const {status, headers} = await reply
    expect([status, headers.get('retry-after')]).toEqual([503, '1'])
  }
  expect(await Promise.all([...pagesUnderWay, pageStatus()])).toEqual([503, 503, 503])
  for (const pid of await serverPids()) kill(pid, 'SIGCONT')
  await allWork(20_000)
  await expectLoggedOnce(before)
})

test('a database that takes no writes is left by every process, and each works again soon after the first write', async () => {
  const before = counts()
  const backends = async () =>
    (await rows<{pid: number}>(`select pid from pg_stat_activity where application_name = 'sluice-api'`)).map(
      ({pid}) => pid,
    )
  const readOnly = async (setting: 'on' | 'off') => {
    await rows(`alter system set default_transaction_read_only = ${setting}`)
    await rows('select pg_reload_conf()')
  }
  const used = await backends()
  await readOnly('on')
  await until(
    async () => {
      const {status, headers} = await createUser()
      expect([201, 503]).toContain(status)
      return status === 503 && headers.get('retry-after') === '1'
    },
    {timeoutMs: 5000, what: 'the API to refuse'},
  )
  await allWait(before, 10_000)
  expect((await backends()).filter(pid => used.includes(pid))).toEqual([])
  await readOnly('off')
  await allWork(20_000)
  await expectLoggedOnce(before)
})
