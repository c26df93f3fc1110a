// npm start on a real machine: real processes, killed in every way, in their own SLUICE_HOME.
import {execFile} from 'node:child_process'
import {chownSync, existsSync, mkdirSync, readFileSync, statSync, truncateSync, writeFileSync} from 'node:fs'
import {createServer} from 'node:net'
import path from 'node:path'
import {promisify} from 'node:util'
import pg from 'pg'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {custodySocket, dashboardSecretFile, dashboardSocket, isHeld, readProcesses, type Service} from '../base/home.ts'
import {portsInARow} from './support/ports.ts'
import {kill, newHome, processesOf, removeHome} from './support/processes.ts'
import {ended, type Started, sluice, sluiceWith, spawnService, start} from './support/service.ts'
import {until} from './support/until.ts'

/** A service that several tests use one after the other, since each start takes long. */
const shared = newHome()
const environment = {
  CUSTODY_PASSPHRASE_FILE: path.join(shared, 'passphrase'),
  HOME: undefined,
  NODE_COMPILE_CACHE: undefined,
  SLUICE_DEVNET: 'ETH, POLYGON',
}
let running: Started & {service: Service}
let homes: string[] = []

beforeAll(async () => {
  writeFileSync(environment.CUSTODY_PASSPHRASE_FILE, 'correct horse\n', {mode: 0o600})
  running = await start(shared, environment)
})

afterEach(async () => {
  for (const home of homes) await removeHome(home) // with its processes
  homes = []
})

afterAll(() => removeHome(shared))

function inHome(): string {
  homes.push(newHome())
  return homes.at(-1)!
}

function pidOf(home: string, name: string): number {
  const {pid} = readProcesses(home).find(process_ => process_.name === name) ?? {}
  if (!pid) throw new Error(`${name} does not run`)
  return pid
}

function devnetPid(home: string, chain: string): number {
  return JSON.parse(readFileSync(path.join(home, 'devnet', chain, 'devnet.json'), 'utf8')).pid
}

function postgresPid(home: string): number {
  return Number.parseInt(readFileSync(path.join(home, 'postgres', 'data', 'postmaster.pid'), 'utf8'), 10)
}

async function database({database_url}: Service, sql: string): Promise<object[]> {
  const client = new pg.Client({connectionString: database_url})
  await client.connect()
  const {rows} = await client.query(sql)
  await client.end()
  return rows
}

async function isReady({api_url}: Service): Promise<boolean> {
  return (await fetch(`${api_url}/readyz`)).ok
}

async function headOf(home: string, chain: string): Promise<number> {
  const {chains} = await sluice(home, 'status')
  return (chains as {chain: string; head: number}[]).find(row => row.chain === chain)!.head
}

test('two services run side by side, from any directory, and SIGTERM ends every process of one within 10 seconds', async () => {
  const home = inHome()
  const metricsPort = await portsInARow(21)
  const one = await start(home, {METRICS_PORT: `${metricsPort}`, BTC_MIN_PAYOUT: 'BTC:0.0007'})
  expect(await isReady(one.service)).toBe(true)
  expect(await isReady(running.service)).toBe(true)
  expect(await sluice(home, 'status')).toMatchObject({
    service: {pid: one.child.pid, home},
    chains: [
      {chain: 'BTC', local: true, halted: false},
      {chain: 'ETH', local: true, halted: false},
      {chain: 'POLYGON', local: true, halted: false},
      {chain: 'SOL', local: true, halted: false},
      {chain: 'TRON', local: true, halted: false},
    ],
    processes: ['custody', 'jobs', 'api', 'dashboard-auth', 'dashboard-pages', 'indexers'].map(name => ({
      name,
      state: 'running',
      restarts: 0,
    })),
  })
  // Where npm start did not start the processes, the database knows them.
  const {processes} = await sluiceWith({DATABASE_URL: one.service.database_url}, inHome(), 'status')
  expect(processes).toHaveLength(10)
  expect(processes.filter(({state}: {state: string}) => state !== 'running')).toEqual([])

  for (const step of ['the database', 'the local chains', 'the processes', 'the chains'])
    expect(one.output()).toContain(`Starting ${step} ...\n`)
  expect(one.output()).toMatch(/Sluice is running \(ready in \d+\.\d s\)/)

  // Local chains report their own tokens.
  const smallest = `select chain, token, min_payout from app.asset where chain in ('BTC', 'POLYGON') order by chain, token`
  expect(await database(one.service, smallest)).toEqual([
    {chain: 'BTC', token: 'BTC', min_payout: '70000'},
    {chain: 'POLYGON', token: 'JPYC', min_payout: `100${'0'.repeat(18)}`},
    {chain: 'POLYGON', token: 'POL', min_payout: '10000000000000000'},
    {chain: 'POLYGON', token: 'USDC', min_payout: '100000'},
    {chain: 'POLYGON', token: 'USDT', min_payout: '1000000'},
  ])

  // As in docs/operations/monitoring.md. (Treasury holdings are not on a port that payers can reach.)
  for (const [offset, count] of [
    [0, 'custody_active'],
    [1, 'job_duration'],
    [2, 'indexer_active{chain="ETH"} 1'],
    [2, 'indexer_active{chain="SOL"} 1'],
    [19, 'treasury_balance{chain="ETH",token="ETH"}'],
    [20, 'process_up{name="api"} 1'],
    [0, 'disk_free_bytes{disk="custody"}'],
    [20, 'disk_free_bytes{disk="database"}'],
  ] as const)
    expect(await (await fetch(`http://127.0.0.1:${metricsPort + offset}/metrics`)).text()).toContain(
      `\nsluice_${count}`,
    )
  expect((await fetch(`${one.service.api_url}/metrics`)).status).toBe(404)
  for (const offset of [17, 18])
    expect((await fetch(`http://127.0.0.1:${metricsPort + offset}/livez`)).status).toBe(200)
  expect(await (await fetch(`${one.service.dashboard_url}/sign-in`)).text()).toContain('<title>Sign in')

  // Each treasury gets its first coins, once, and the indexers see them arrive.
  const coins = async () =>
    await database(one.service, `select chain, amount from app.deposit where user_id is null order by chain`)
  await until(async () => (await coins()).length === 5, {timeoutMs: 20_000, what: 'all treasuries to have coins'})
  expect(await coins()).toEqual(
    [8, 18, 18, 9, 6].map((decimals, n) => ({
      chain: ['BTC', 'ETH', 'POLYGON', 'SOL', 'TRON'][n],
      amount: `100${'0'.repeat(decimals)}`,
    })),
  )

  const second = spawnService(home)
  expect(await ended(second.child)).toBe(1)
  expect(second.output()).toContain(`a service runs in ${home} already (pid ${one.child.pid}`)

  const before = Date.now()
  one.child.kill('SIGTERM')
  expect(await ended(one.child)).toBe(0)
  expect(Date.now() - before).toBeLessThan(10_000)
  expect(processesOf(home)).toEqual([])
  expect(await isReady(running.service)).toBe(true)
})

test.runIf(process.getuid?.() === 0)(
  'started by root, no process is root: only custody can read the seed, and only the jobs can request signatures',
  async () => {
    const home = shared
    const names = ['custody', 'jobs', 'api', 'dashboard-auth', 'dashboard-pages', 'indexers']
    const userOf = (name: string) => {
      const {uid, gid} = statSync(`/proc/${pidOf(home, name)}`)
      return {uid, gid}
    }
    const uids = names.map(name => userOf(name).uid)
    expect(new Set([0, ...uids]).size).toBe(1 + names.length)
    const {socket, tokenFile} = custodySocket(home)
    const files = {
      seed: path.join(home, 'custody', 'seed.json'),
      journal: path.join(home, 'custody', 'journal.jsonl'),
      token: tokenFile,
      database: path.join(home, 'service.json'),
      secret: dashboardSecretFile(home),
      memory: `/proc/${pidOf(home, 'custody')}/environ`,
    }
    const readable = async (name: string) => {
      const tried = Object.entries(files).map(async ([what, file]) => {
        const isRead = await promisify(execFile)('/bin/cat', [file], {...userOf(name), cwd: '/'}).then(
          () => true,
          () => false,
        )
        return isRead ? [what] : []
      })
      return (await Promise.all(tried)).flat()
    }
    expect(await readable('custody')).toEqual(['seed', 'journal', 'token', 'memory'])
    expect(await readable('jobs')).toEqual(['token'])
    expect(await readable('api')).toEqual([])
    expect(await readable('dashboard-auth')).toEqual([])
    expect(await readable('dashboard-pages')).toEqual([])
    const pages = statSync(path.dirname(dashboardSocket(home)))
    expect({...userOf('dashboard-pages'), mode: pages.mode & 0o777}).toEqual({
      uid: pages.uid,
      gid: pages.gid,
      mode: 0o750,
    })
    expect(userOf('dashboard-auth').gid).toBe(pages.gid)
    expect(await readable('indexers')).toEqual([])
    const {uid, gid} = userOf('custody')
    const compiled = statSync(path.join(home, 'compiled', 'sluice_custody')) // whoever writes there decides what custody does
    expect({uid: compiled.uid, gid: compiled.gid, mode: compiled.mode & 0o777}).toEqual({uid, gid, mode: 0o700})
    expect(statSync(path.join(home, 'compiled'))).toMatchObject({uid: 0, mode: 0o40755})
    expect(statSync(socket).mode & 0o777).toBe(0o660)

    const lowHome = inHome()
    const low = spawnService(lowHome, 81)
    expect(await ended(low.child)).toBe(1)
    expect(low.output()).toContain('PORT must be above 1023, such as 8080 (it is 81)')
    expect(existsSync(path.join(lowHome, 'postgres'))).toBe(false)

    chownSync(files.seed, 0, 0) // as a command run by root leaves it
    const before = pidOf(home, 'custody')
    kill(before, 'SIGKILL')
    await until(
      async () => pidOf(home, 'custody') !== before && (await sluice(home, 'status')).processes[0].state === 'running',
      {
        timeoutMs: 30_000,
        what: 'custody to run again',
      },
    )
    expect(statSync(files.seed).uid).toBe(uids[0])
  },
  120_000,
)

test('every killed process restarts, and a killed service leaves nothing that blocks the next start', async () => {
  const [home, first] = [shared, running]
  const merchant = await sluice(
    home,
    ...['merchant', 'create', '--name', 'Acme', '--prefix', 'acme', '--chains', 'ETH,POLYGON'],
  )

  const killed = {api: pidOf(home, 'api'), indexers: pidOf(home, 'indexers'), eth: devnetPid(home, 'eth')}
  kill(postgresPid(home), 'SIGKILL')
  for (const pid of Object.values(killed)) kill(pid, 'SIGKILL')
  const head = await until(async () => headOf(home, 'ETH'), {timeoutMs: 20_000, what: 'the database'})
  await until(async () => (await isReady(first.service)) && pidOf(home, 'api') !== killed.api, {
    timeoutMs: 20_000,
    what: 'the API, on the same port',
  })
  await until(async () => (await headOf(home, 'ETH')) > head + 1, {timeoutMs: 20_000, what: 'new blocks of ETH'})
  expect(devnetPid(home, 'eth')).not.toBe(killed.eth)

  const [eth, polygon, postgres] = [devnetPid(home, 'eth'), devnetPid(home, 'polygon'), postgresPid(home)]
  const jobs = pidOf(home, 'jobs')
  kill(jobs, 'SIGSTOP') // it cannot notice that its parent is gone
  kill(eth, 'SIGSTOP') // it cannot be adopted
  first.child.kill('SIGKILL')
  const again = await start(home, environment)
  expect(processesOf(home).filter(pid => pid === jobs || pid === eth)).toEqual([])
  expect([devnetPid(home, 'polygon'), postgresPid(home)]).toEqual([polygon, postgres])
  expect(await sluice(home, 'merchant', 'list')).toMatchObject({merchants: [merchant]})
  expect(await headOf(home, 'ETH')).toBeGreaterThan(head)

  for (const name of ['api', 'custody', 'indexers']) kill(pidOf(home, name), 'SIGSTOP')
  kill(devnetPid(home, 'eth'), 'SIGSTOP')
  kill(postgresPid(home), 'SIGSTOP')
  const before = Date.now()
  again.child.kill('SIGINT')
  expect(await ended(again.child)).toBe(0)
  expect(Date.now() - before).toBeLessThan(10_000)
  expect(processesOf(home)).toEqual([])
})

test('a chain whose indexer fails keeps no other from being followed: each has its own process from then on', async () => {
  const home = inHome()
  const {child} = await start(home, {SLUICE_DEVNET: 'ETH,BTC'}, ['--without', 'jobs,dashboard-auth,dashboard-pages'])
  const states = () => readProcesses(home).map(({name, state}) => `${name} ${state}`)
  const others = ['custody running', 'api running']
  expect(states()).toEqual([...others, 'indexers running'])
  kill(pidOf(home, 'indexers'), 'SIGABRT') // as if it had crashed
  const apart = [...others, 'indexer-eth running', 'indexer-btc running']
  await until(async () => states().join() === apart.join(), {timeoutMs: 30_000, what: 'a process for each chain'})
  for (const chain of ['ETH', 'BTC']) {
    const head = await headOf(home, chain)
    await until(async () => (await headOf(home, chain)) > head, {timeoutMs: 20_000, what: `new blocks of ${chain}`})
  }
  child.kill('SIGTERM')
  expect(await ended(child)).toBe(0)
})

test('without the jobs and some chains, everything else runs with rotated logs; the command line waits while the service starts', async () => {
  const home = inHome()
  mkdirSync(path.join(home, 'logs'))
  writeFileSync(path.join(home, 'logs', 'api.log'), '')
  truncateSync(path.join(home, 'logs', 'api.log'), 51 * 2 ** 20)
  const started = spawnService(home, 0, {SLUICE_DEVNET: 'ETH,SOL'}, [
    '--without',
    'jobs,indexer-sol',
    '--without',
    'dashboard-auth,dashboard-pages',
  ])
  await until(async () => isHeld(home), {timeoutMs: 10_000, what: 'the service to begin'})
  const {service, processes} = await sluice(home, 'status').catch(error => {
    throw new Error(`${error.message}\n${started.output()}`)
  })
  expect(service.pid).toBe(started.child.pid)
  expect(processes.map(({name}: {name: string}) => name)).toEqual(['custody', 'api', 'indexer-eth'])
  expect(service).not.toHaveProperty('dashboard_url')
  await until(async () => started.output().includes('Sluice is running'), {
    timeoutMs: 60_000,
    what: 'the service to run',
  })
  expect(started.output()).toMatch(/^ {2}without +jobs, indexer-sol, dashboard-auth, dashboard-pages$/m)
  expect(started.output().match(/^ {2}\w+(?= +local chain at)/gm)).toEqual(['  ETH', '  SOL'])
  expect(await headOf(home, 'ETH')).toBeGreaterThan(0)
  expect(statSync(path.join(home, 'logs', 'api.log.1')).size).toBe(51 * 2 ** 20)

  const wrong = spawnService(inHome(), 0, {}, ['--without', 'job'])
  expect(await ended(wrong.child)).toBe(1)
  expect(wrong.output()).toBe(
    'sluice: --without: there is no process "job"; there are custody, jobs, api, dashboard-auth, dashboard-pages, indexer-eth, indexer-polygon, indexer-btc, indexer-tron, indexer-sol\n',
  )
})

test('with its own node and no seed, the service says how to make a seed, and leaves nothing behind', async () => {
  const home = inHome()
  const {child, output} = spawnService(home, 0, {SLUICE_DEVNET: 'off', ETH_RPC_URL: 'http://127.0.0.1:1'})
  expect(await ended(child)).toBe(1)
  expect(output()).toMatch(/^sluice: custody cannot start: there is no seed in .*; make it with: sluice custody init/m)
  expect(processesOf(home)).toEqual([])
})

test('a port in use is named, and nothing is left behind', async () => {
  const home = inHome()
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  const {port} = server.address() as {port: number}
  const {child, output} = spawnService(home, port)
  expect(await ended(child)).toBe(1)
  expect(output()).toMatch(new RegExp(`cannot listen on 127.0.0.1:${port} \\(PORT\\): another program listens there`))
  expect(processesOf(home)).toEqual([])
  server.close()
})
