// The running server of a data directory. Promises: it is found if it runs, whoever started it, and started otherwise,
// also over the remains of one that was killed. Another program may have its port, or its recorded pid.
import {spawn} from 'node:child_process'
import {open, readFile} from 'node:fs/promises'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import pg from 'pg'
import {commandLine, signal} from '../../base/process.ts'
import {type Cluster, urlOf, writeCluster} from './cluster-file.ts'
import {environment, freePort, ignore, isFree, run, type User} from './machine.ts'

const startTimeoutMs = 60_000
/** The same for every cluster; only this machine can connect. */
const settings = [
  'listen_addresses=127.0.0.1',
  'unix_socket_directories=',
  'max_connections=200',
  'timezone=UTC',
  'log_timezone=UTC',
].flatMap(setting => ['-c', setting])

/** A server's binaries and the user that runs them, bound to one data directory. */
export type Server = {bin: string; user: User; dataDirectory: string; log: string; flags: string[]}

/** Brings the server up, or finds it up (then true). Records the port in `cluster` when a new one had to be taken. */
export async function bringUp(server: Server, cluster: Cluster, home: string): Promise<boolean> {
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

export async function stop(server: Server, timeoutMs = 13_000): Promise<void> {
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

export async function kill(server: Server): Promise<void> {
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
