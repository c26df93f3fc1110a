// A cluster of three PostgreSQL servers that fails over, on this machine: etcd, Patroni with the settings of
// docker/cluster, and HAProxy. Every machine of a real cluster is an address of the loopback here, with the usual
// ports. Whatever goes from or to a node passes through links that can be cut. CLUSTER_BIN names the folder that
// test/install-cluster has filled. Linux only.
import {spawn} from 'node:child_process'
import {randomBytes} from 'node:crypto'
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import {connect, createServer, type Server, type Socket} from 'node:net'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import pg from 'pg'
import {parse, stringify} from 'yaml'
import {z} from 'zod'
import {binaries} from '../../db/server/binaries.ts'
import {serverUser} from '../../db/server/machine.ts'
import {kill, treeOf} from './processes.ts'
import {until} from './until.ts'

const settings = fileURLToPath(new URL('../../docker/cluster', import.meta.url))
const ports = {postgres: 5432, rest: 8008, etcd: 2379, peers: 2380}
const healthyTimeoutMs = 90_000

/** The folder with the programs of a cluster; undefined if there is none. */
export const clusterPrograms = process.env.CLUSTER_BIN && path.join(process.env.CLUSTER_BIN, 'bin')

const Members = z.object({
  members: z.array(z.object({name: z.string(), role: z.string(), state: z.string()})),
})

const Running = z.object({state: z.string(), postmaster_start_time: z.string().optional()})

export interface ClusterOptions {
  /** PostgreSQL's own settings, such as fsync. */
  parameters?: Record<string, string>
  /** False: nothing waits for a standby. */
  quorum?: boolean
}

interface Node {
  name: string
  /** Where its servers listen, and where the others reach them. */
  own: string
  address: string
  links: Link[]
}

export class Cluster {
  readonly #dir: string
  readonly #pids = new Map<string, number>()
  readonly #user: {uid?: number; gid?: number}
  readonly #options: ClusterOptions
  readonly #subnet: string
  readonly #password = randomBytes(16).toString('hex')
  readonly #nodes: Node[]

  private constructor(dir: string, user: {uid?: number; gid?: number}, options: ClusterOptions) {
    this.#dir = dir
    this.#options = options
    this.#user = user
    const [a, b] = randomBytes(2)
    this.#subnet = `127.${(a! % 250) + 2}.${b}`
    this.#nodes = [1, 2, 3].map(n => ({
      name: `n${n}`,
      own: `${this.#subnet}.1${n}`,
      address: `${this.#subnet}.2${n}`,
      links: [],
    }))
  }

  /** Resolves once a primary and two standbys run. */
  static async start(options: ClusterOptions = {}): Promise<Cluster> {
    const dir = mkdtempSync(path.join(tmpdir(), 'sluice-cluster-'))
    chmodSync(dir, 0o755)
    const cluster = new Cluster(dir, await serverUser(), options)
    try {
      await cluster.#prepare(options)
      for (const node of cluster.#nodes) cluster.#startEtcd(node)
      for (const node of cluster.#nodes) await cluster.#etcdReady(node)
      for (const node of cluster.#nodes) cluster.startNode(node.name)
      cluster.startProxy()
      await cluster.healthy()
      return cluster
    } catch (error) {
      console.log(cluster.logs())
      await cluster.close()
      throw error
    }
  }

  /** The owner's, through HAProxy. */
  get url(): string {
    return `postgres://sluice:${this.#password}@${this.#subnet}.10:5432/sluice`
  }

  /** Of the superuser, who sees the connections of every role. */
  get superuserUrl(): string {
    return this.url.replace('//sluice:', '//postgres:')
  }

  /** Straight to the server of a node, past its links: what a client sees that is on its side of a cut. */
  urlOf(name: string): string {
    return `postgres://sluice:${this.#password}@${this.#node(name).own}:5432/sluice`
  }

  /** The URL of Patroni's REST interface on a node. */
  rest(name: string): string {
    return `http://${this.#node(name).own}:${ports.rest}`
  }

  get names(): string[] {
    return this.#nodes.map(({name}) => name)
  }

  #node(name: string): Node {
    return this.#nodes.find(node => node.name === name)!
  }

  // --- what Patroni says ---

  async members(): Promise<z.infer<typeof Members>['members']> {
    for (const name of this.names) {
      const reply = await get(`${this.rest(name)}/cluster`).catch(() => undefined)
      if (reply?.ok) return Members.parse(await reply.json()).members
    }
    return []
  }

  /** The node that HAProxy leads to; undefined while there is none. */
  async primary(): Promise<string | undefined> {
    for (const {name, address} of this.#nodes)
      if ((await get(`http://${address}:${ports.rest}/primary`).catch(() => undefined))?.ok) return name
    return undefined
  }

  /**
   * Waits until writes work, and each standby may take the primary's place: Patroni promotes none that it has not
   * confirmed before.
   */
  async healthy(): Promise<void> {
    const role = this.#options.quorum === false ? 'replica' : 'quorum_standby'
    const isHealthy = async () => {
      const members = await this.members()
      const ready = members.filter(member => member.state === 'streaming' && member.role === role).length
      return ready === 2 && (await query(this.url, 'create temporary table t ()').then(() => true))
    }
    await until(isHealthy, {
      timeoutMs: healthyTimeoutMs,
      what: 'a whole cluster',
      intervalMs: 100,
    })
  }

  // --- faults ---

  /** SIGKILL to PostgreSQL and Patroni of a node at once, as if its machine were gone. */
  killNode(name: string): void {
    this.#signal([...this.#patroni(name), ...this.#postgres(name)], 'SIGKILL')
  }

  freezeNode(name: string): void {
    this.#signal([...this.#patroni(name), ...this.#postgres(name)], 'SIGSTOP')
  }

  resumeNode(name: string): void {
    this.#signal([...this.#postgres(name), ...this.#patroni(name)], 'SIGCONT')
  }

  /** PostgreSQL goes on as if nothing were. */
  killPatroni(name: string): void {
    this.#signal(this.#patroni(name), 'SIGKILL')
  }

  /** Patroni goes on. */
  killPostgres(name: string): void {
    this.#signal(this.#postgres(name), 'SIGKILL')
  }

  /** What goes from or to this node is lost, in silence, until it is joined. */
  cutNode(name: string): void {
    for (const link of this.#node(name).links) link.isCut = true
  }

  joinNode(name: string): void {
    for (const link of this.#node(name).links) link.isCut = false
  }

  /** Asks the primary to hand over to a standby, as an operator does before maintenance. */
  async switchOver(): Promise<void> {
    const leader = await this.primary()
    const reply = await fetch(`${this.rest(leader!)}/switchover`, {method: 'POST', body: JSON.stringify({leader})})
    if (!reply.ok) throw new Error(`switchover: ${reply.status} ${await reply.text()}`)
  }

  /** Stops the etcd that leads the three; returns a function that lets it go on. */
  async freezeEtcdLeader(): Promise<() => void> {
    const leaders = await Promise.all(
      this.#nodes.map(async ({name, own}) => {
        const reply = await fetch(`http://${own}:${ports.etcd}/v3/maintenance/status`, {method: 'POST', body: '{}'})
        const {header, leader} = z
          .object({header: z.object({member_id: z.string()}), leader: z.string()})
          .parse(await reply.json())
        return header.member_id === leader ? name : undefined
      }),
    )
    const pid = this.#pids.get(`etcd-${leaders.find(Boolean)}`)!
    kill(pid, 'SIGSTOP')
    return () => kill(pid, 'SIGCONT')
  }

  /** Starts Patroni of a node, and with it PostgreSQL. */
  startNode(name: string): void {
    const {own, address, links} = this.#node(name)
    const etcds = links.filter(({kind}) => kind === 'etcd').map(({from}) => from)
    this.#launch(`patroni-${name}`, [path.join(this.#dir, 'patroni.yml')], {
      PATRONI_NAME: name,
      PATRONI_RESTAPI_LISTEN: `${own}:${ports.rest}`,
      PATRONI_RESTAPI_CONNECT_ADDRESS: `${address}:${ports.rest}`,
      PATRONI_ETCD3_HOSTS: etcds.join(','),
      PATRONI_ETCD3_USE_PROXIES: 'true', // else it would ask etcd for addresses past the links
      PATRONI_POSTGRESQL_LISTEN: `${own}:${ports.postgres}`,
      PATRONI_POSTGRESQL_CONNECT_ADDRESS: `${address}:${ports.postgres}`,
      PATRONI_POSTGRESQL_DATA_DIR: path.join(this.#dir, name, 'data'),
      PATRONI_POSTGRESQL_BIN_DIR: path.join(this.#dir, 'bin'),
      PATRONI_POSTGRESQL_PGPASS: path.join(this.#dir, name, 'pgpass'),
      ...Object.fromEntries(
        ['SUPERUSER', 'REPLICATION', 'REWIND'].flatMap((role, n) => [
          [`PATRONI_${role}_USERNAME`, ['postgres', 'replicator', 'rewinder'][n]!],
          [`PATRONI_${role}_PASSWORD`, this.#password],
        ]),
      ),
      SLUICE_PASSWORD_FILE: path.join(this.#dir, 'password'),
    })
  }

  /**
   * Starts a node, and once it runs, has Patroni copy the primary's data to it, as patronictl reinit does. Resolves
   * when it runs on the copy.
   */
  async remakeNode(name: string): Promise<void> {
    const runningSince = async () => {
      const {state, postmaster_start_time: since} = Running.parse(
        await (await get(`${this.rest(name)}/patroni`)).json(),
      )
      return state === 'running' && since
    }
    this.startNode(name)
    let before: Awaited<ReturnType<typeof runningSince>> = false
    // Patroni refuses while it is still about something else, such as a restart: asked again once the node runs.
    const accepted = async () => {
      before = await runningSince()
      if (!before) return false
      const reply = await fetch(`${this.rest(name)}/reinitialize`, {method: 'POST', body: '{}'})
      if (!reply.ok) throw new Error(`reinitialize: ${reply.status} ${await reply.text()}`)
      return true
    }
    await until(accepted, {timeoutMs: healthyTimeoutMs, what: `${name} to be made anew`, intervalMs: 100})
    const remade = async () => {
      const since = await runningSince()
      return since && since !== before
    }
    await until(remade, {timeoutMs: healthyTimeoutMs, what: `${name} to run on a copy`, intervalMs: 100})
  }

  /** Starts HAProxy, which takes every server for the right one until it has asked it. */
  startProxy(): void {
    this.#launch('haproxy', ['-db', '-f', path.join(settings, 'haproxy.cfg')], {
      LISTEN: `${this.#subnet}.10`,
      ...Object.fromEntries(this.#nodes.map(({address}, n) => [`NODE_${n + 1}`, address])),
    })
  }

  killProxy(): void {
    this.#signal([this.#pids.get('haproxy')!], 'SIGKILL')
  }

  /** Ends everything, and removes it. */
  async close(): Promise<void> {
    for (const {name, links} of this.#nodes) {
      this.killNode(name)
      for (const link of links) link.close()
    }
    for (const pid of this.#pids.values()) kill(pid, 'SIGKILL')
    await until(async () => [...this.#pids.values()].every(isGone), {timeoutMs: 10_000, what: 'the cluster to be gone'})
    rmSync(this.#dir, {recursive: true, force: true, maxRetries: 5})
  }

  // --- processes and files ---

  async #prepare({parameters = {}, quorum = true}: ClusterOptions): Promise<void> {
    const bin = path.join(this.#dir, 'bin')
    mkdirSync(bin)
    for (const program of ['psql', 'pg_rewind', 'pg_controldata', 'pg_basebackup', 'pg_isready'])
      symlinkSync(path.resolve(clusterPrograms!, program), path.join(bin, program))
    // Patroni's own libraries must not reach PostgreSQL: a standby would load the wrong libpq.
    const embedded = await binaries(this.#user)
    for (const program of ['initdb', 'pg_ctl', 'postgres'])
      writeFileSync(
        path.join(bin, program),
        `#!/bin/sh\nunset LD_LIBRARY_PATH PYTHONHOME PYTHONPATH\nexec "${embedded}/${program}" "$@"\n`,
        {mode: 0o755},
      )
    const config = parse(readFileSync(path.join(settings, 'patroni.yml'), 'utf8'))
    const {dcs} = config.bootstrap
    Object.assign(dcs.postgresql.parameters, {dynamic_shared_memory_type: 'posix', ...parameters})
    if (!quorum) Object.assign(dcs, {synchronous_mode: false, synchronous_mode_strict: false})
    config.bootstrap.initdb.push('no-sync')
    config.bootstrap.post_bootstrap = path.join(settings, 'post-bootstrap')
    config.postgresql.parameters = {unix_socket_directories: '..'} // of the data directory
    writeFileSync(path.join(this.#dir, 'patroni.yml'), stringify(config))
    writeFileSync(path.join(this.#dir, 'password'), this.#password)
    chmodSync(this.#dir, 0o755)
    for (const {name} of this.#nodes) mkdirSync(path.join(this.#dir, name))
    const {uid, gid} = this.#user
    if (uid !== undefined) for (const file of ['.', ...this.names]) chownSync(path.join(this.#dir, file), uid, gid!)
    for (const {own, address, links, name} of this.#nodes) {
      const n = Number(name.slice(1))
      for (const port of [ports.postgres, ports.rest])
        links.push(await Link.open('server', {host: address, port}, {host: own, port}))
      for (const [i, to] of this.#nodes.entries())
        links.push(
          await Link.open(
            'etcd',
            {host: `${this.#subnet}.${30 + 3 * n + i}`, port: ports.etcd},
            {host: to.own, port: ports.etcd},
          ),
        )
    }
  }

  #startEtcd({name, own}: Node): void {
    const peer = ({own}: Node) => `http://${own}:${ports.peers}`
    this.#launch(`etcd-${name}`, [
      ...['--name', name, '--data-dir', path.join(this.#dir, name, 'etcd'), '--unsafe-no-fsync'],
      ...[
        '--listen-client-urls',
        `http://${own}:${ports.etcd}`,
        '--advertise-client-urls',
        `http://${own}:${ports.etcd}`,
      ],
      ...['--listen-peer-urls', peer(this.#node(name)), '--initial-advertise-peer-urls', peer(this.#node(name))],
      ...['--initial-cluster', this.#nodes.map(node => `${node.name}=${peer(node)}`).join(',')],
    ])
  }

  /** Waits until the three have agreed on a version: Patroni ends with an error if it asks before. */
  async #etcdReady({name, own}: Node): Promise<void> {
    const isReady = async () => {
      const reply = await get(`http://${own}:${ports.etcd}/version`).catch(() => undefined)
      return reply?.ok && /"etcdcluster":"\d/.test(await reply.text())
    }
    await until(isReady, {timeoutMs: 30_000, what: `etcd of ${name}`, intervalMs: 50})
  }

  /** The end of each program's log. */
  logs(): string {
    const logs = readdirSync(this.#dir).filter(file => file.endsWith('.log'))
    return logs.map(file => `${file}: ${readFileSync(path.join(this.#dir, file), 'utf8').slice(-1500)}`).join('\n')
  }

  #launch(name: string, args: string[], more: Record<string, string> = {}): void {
    const log = openSync(path.join(this.#dir, `${name}.log`), 'a')
    const env = {PATH: `${this.#dir}/bin:/usr/bin:/bin`, HOME: this.#dir, LC_ALL: 'C.UTF-8', TZ: 'UTC', ...more}
    const program = path.resolve(clusterPrograms!, name.split('-')[0]!)
    const child = spawn(program, args, {
      ...this.#user,
      cwd: this.#dir,
      env,
      detached: true,
      stdio: ['ignore', log, log],
    })
    child.unref()
    this.#pids.set(name, child.pid!)
  }

  #patroni(name: string): number[] {
    return [this.#pids.get(`patroni-${name}`)!]
  }

  /** The postmaster, which Patroni started, and its children. */
  #postgres(name: string): number[] {
    try {
      const data = path.join(this.#dir, name, 'data')
      const pid = Number.parseInt(readFileSync(path.join(data, 'postmaster.pid'), 'utf8'), 10)
      const isOurs = readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(data) // the file outlives its server, and pids come again
      return isOurs ? treeOf(pid) : []
    } catch {
      return [] // it does not run
    }
  }

  #signal(pids: number[], signal: NodeJS.Signals): void {
    for (const pid of pids) kill(pid, signal)
  }
}

/** A TCP relay. While it is cut, nothing passes, and nobody is told. */
class Link {
  readonly kind: 'server' | 'etcd'
  readonly from: string
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #isCut = false

  constructor(kind: 'server' | 'etcd', from: {host: string; port: number}, to: {host: string; port: number}) {
    this.kind = kind
    this.from = `${from.host}:${from.port}`
    this.#server = createServer({allowHalfOpen: false}, socket => this.#relay(socket, to))
    this.#server.listen(from)
  }

  static async open(...given: ConstructorParameters<typeof Link>): Promise<Link> {
    const link = new Link(...given)
    await new Promise((resolve, reject) => link.#server.once('listening', resolve).once('error', reject))
    return link
  }

  set isCut(isCut: boolean) {
    this.#isCut = isCut
    // Packets that were lost are sent again later; but after a long cut every connection has ended on one side.
    for (const socket of this.#sockets)
      if (isCut) socket.pause().unpipe()
      else socket.destroy()
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
  }

  #relay(socket: Socket, to: {host: string; port: number}): void {
    const upstream = this.#isCut ? undefined : connect(to)
    for (const each of [socket, upstream]) {
      if (!each) continue
      this.#sockets.add(each)
      each.setNoDelay() // otherwise each commit that waits for a standby takes 40 ms more
      each.on('error', () => {})
      each.once('close', () => {
        this.#sockets.delete(each)
        if (!this.#isCut) for (const other of [socket, upstream]) other?.destroy()
      })
    }
    if (upstream) socket.pipe(upstream).pipe(socket)
    else socket.pause()
  }
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
  } catch {
    return true
  }
}

const get = (url: string) => fetch(url, {signal: AbortSignal.timeout(2000)})

/** One statement on a connection of its own; rejects within five seconds if nothing responds. */
export async function query<T extends pg.QueryResultRow>(url: string, sql: string, values?: unknown[]): Promise<T[]> {
  const client = new pg.Client({connectionString: url, connectionTimeoutMillis: 2000, query_timeout: 3000})
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query<T>(sql, values)).rows
  } finally {
    client.end().catch(() => {})
  }
}
