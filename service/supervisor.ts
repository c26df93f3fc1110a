// The whole service on one machine: Postgres, local chains for chains without a node, and one process each for custody, the API, the jobs, the
// dashboard's sign-in, its pages, and every chain. Promises: once startService resolves, each of them runs, and is restarted when it dies. The others start only after
// custody has checked the database, which may be an older copy. stop() ends them all within 10 seconds, even if one hangs. If this process
// is killed instead, its processes end by themselves; Postgres and the local chains keep running, and the next start adopts them.
import {randomBytes} from 'node:crypto'
import {once} from 'node:events'
import {mkdirSync} from 'node:fs'
import {createServer} from 'node:net'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import pg from 'pg'
import {measureDisk} from '../base/disk.ts'
import {PermanentError} from '../base/errors.ts'
import {
  dashboardSecretFile,
  lockHome,
  makeDirectory,
  type Process,
  readIfThere,
  readProcesses,
  removeService,
  writeProcesses,
  writeService,
  writeWhole,
} from '../base/home.ts'
import {listening} from '../base/listen.ts'
import {type Logger, logger} from '../base/log.ts'
import {observe} from '../base/observe.ts'
import {commandLine, hasVariable, signal} from '../base/process.ts'
import {type ChainSettings, familyOf, hasNode} from '../chains/families.ts'
import type {ChainCode} from '../chains/registry.ts'
import {dashboardUrlOf, factsOf, metricsPorts, readSettings, type Settings, settingsFrom} from '../chains/settings.ts'
import {writeAssets} from '../db/assets.ts'
import {type EmbeddedPostgres, startPostgres} from '../db/embedded.ts'
import {inWords, isAway} from '../db/failure.ts'
import {holdConnection} from '../db/held-connection.ts'
import {migrate, type Role, roleUrl} from '../db/migrate.ts'
import {Outage} from '../db/outage.ts'
import {withClient} from '../db/pool.ts'
import {warnOfUnknown} from '../db/run-process.ts'
import {connectionsLacking} from '../db/server.ts'
import {Child} from './child.ts'
import {LocalChain} from './local-chain.ts'
import {rotateLogs} from './rotate-logs.ts'
import {findUsers, giveDirectories, type ProcessRole, type Users, withFilesRead} from './users.ts'

// Together below the 10 seconds in which everything ends.
const childGraceMs = 3500
const keeperGraceMs = 5000
const stopTimeoutMs = 9500
const orphanGraceMs = 6000
const followedTimeoutMs = 15_000
const longestWaitMs = 30_000
const rotateIntervalMs = 60_000
const rotation = {maxBytes: 50 * 2 ** 20, kept: 5}

const againMs = 1000
const connectionName = 'sluice-supervisor'

const stopped = 'the service was stopped while it started'
const noop = () => {}

export interface ServiceOptions {
  /** Logs go to files in SLUICE_HOME/logs instead of stderr. */
  quiet?: boolean
  /** Called with a few words about what the start waits for. */
  onStep?(what: string): void
  /** Names of processes that are not started: custody, jobs, api, dashboard-auth, dashboard-pages, indexer-eth and so on. */
  without?: string[]
}

export interface RunningService {
  /** Absolute. */
  home: string
  apiUrl: string
  /** Undefined if the dashboard was left out. */
  dashboardUrl: string | undefined
  /** The owner's. */
  databaseUrl: string
  chains: {chain: ChainCode; rpcUrl: string; local: boolean}[]
  /** Ends everything within 10 seconds. */
  stop(): Promise<void>
}

/**
 * A service that can be stopped at any moment, while it still starts, too. Use startService, or this when a signal may come early:
 * start() rejects when stop() or kill() was called meanwhile.
 */
export class Supervisor {
  readonly #settings: Settings
  readonly #options: ServiceOptions
  readonly #home: string
  readonly #log: Logger
  readonly #children: Child[] = []
  readonly #localChains: LocalChain[] = []
  #postgres: EmbeddedPostgres | undefined
  #watch: pg.Client | undefined
  readonly #startedAt = new Date()
  #ownerUrl = ''
  #apiUrl: string
  #dashboardUrl: string | undefined
  /** True once service.json may be written, from which the command line finds the service. */
  #isReachable = false
  #isRunning = false
  #port: number
  #dashboardPort: number
  #unlock: (() => void) | undefined
  #users: Users | undefined
  #rotating: NodeJS.Timeout | undefined
  #unobserve: () => Promise<void> = async () => {}
  #starting: Promise<void> = Promise.resolve()
  #stopping: Promise<void> | undefined
  /** Ends the waiting for the database. */
  readonly #ending = new AbortController()

  constructor(settings: Settings, options: ServiceOptions = {}) {
    this.#settings = settings
    this.#options = options
    this.#home = path.resolve(settings.home)
    makeDirectory(this.#home) // before the log, which may be a file in it
    this.#port = settings.port
    this.#dashboardPort = settings.dashboardPort
    this.#apiUrl = `http://${settings.host}:${settings.port}`
    this.#log = logger('supervisor', options.quiet ? this.#logFile('supervisor') : undefined)
  }

  async start(): Promise<RunningService> {
    const starting = this.#start()
    this.#starting = starting.then(noop, noop)
    return await starting
  }

  async #start(): Promise<RunningService> {
    warnOfUnknown(this.#log)
    const {host, port, dashboardPort, databaseUrl} = this.#settings
    this.#requireKnown(this.#options.without ?? [])
    const hasDashboard = this.#isWanted('dashboard-auth')
    if (hasDashboard) dashboardUrlOf(this.#settings) // throws before anything is started
    this.#requireNodes()
    this.#unlock = await lockHome(this.#home)
    await endOrphans(this.#home)
    await this.#findUsers()
    await requireFree(host, port, 'the API', 'PORT')
    if (hasDashboard) await requireFree(host, dashboardPort, 'the dashboard', 'DASHBOARD_PORT')
    await this.#requireFreeMetrics()
    await this.#observe()
    this.#rotateLogs()
    this.#step('the database')
    if (databaseUrl) this.#ownerUrl = databaseUrl
    else await this.#startPostgres()
    await this.#untilDone(() => migrate(this.#ownerUrl))
    await this.#untilDone(() => this.#warnOfServer())
    await this.#startLocalChains()
    await this.#untilDone(() => writeAssets(this.#ownerUrl, this.#settingsOfChains()))
    this.#step('the processes')
    await this.#startChildren()
    this.#step('the chains')
    await this.#untilDone(() => withClient(this.#ownerUrl, connectionName, client => this.#untilFollowed(client)))
    this.#goOn()
    await this.#fundTreasuries()
    this.#goOn()
    this.#isRunning = true
    this.#writeService()
    return {
      home: this.#home,
      apiUrl: this.#apiUrl,
      dashboardUrl: this.#dashboardUrl,
      databaseUrl: this.#ownerUrl,
      chains: this.#chains(),
      stop: () => this.stop(),
    }
  }

  /** Of every process that is started here. */
  async #requireFreeMetrics(): Promise<void> {
    for (const name of [...processes, ...this.#indexers()]) {
      const port = Number(this.#metricsPort(name))
      if (port && this.#isWanted(name))
        await requireFree(this.#settings.host, port, `the metrics of ${name}`, 'METRICS_PORT')
    }
  }

  async #observe(): Promise<void> {
    const {host, metricsPort: first} = this.#settings
    const metricsPort = first === undefined ? undefined : first + metricsPorts
    this.#unobserve = await observe({host, metricsPort, log: this.#log})
  }

  #rotateLogs(): void {
    const rotate = () => {
      try {
        rotateLogs([path.join(this.#home, 'logs'), path.join(this.#home, 'postgres')], rotation)
      } catch (error) {
        this.#log.warn({error: (error as Error).message}, 'the logs could not be rotated; is the disk full?')
      }
    }
    rotate()
    this.#rotating = setInterval(rotate, rotateIntervalMs).unref()
  }

  #step(what: string): void {
    this.#goOn()
    this.#options.onStep?.(what)
  }

  #goOn(): void {
    if (this.#stopping) throw new PermanentError(stopped)
  }

  // --- the database ---

  async #warnOfServer(): Promise<void> {
    const lacking = await connectionsLacking(this.#ownerUrl)
    if (lacking) this.#log.warn(lacking)
  }

  /** Does what needs the database and may be done twice; again if the database is away meanwhile, however long that lasts. */
  async #untilDone(work: () => Promise<unknown>): Promise<void> {
    const outage = new Outage(this.#log)
    const {signal} = this.#ending
    for (;;) {
      const {promise: lost, resolve, reject} = Promise.withResolvers<'lost'>()
      signal.addEventListener('abort', () => reject(signal.reason), {once: true})
      const onLost = (reason: string) => {
        outage.failed(reason)
        resolve('lost')
      }
      // Beside the work, because a database that is silent never ends a statement.
      const held = await holdConnection({url: this.#ownerUrl, name: connectionName, outage, signal, onLost})
      try {
        if ((await Promise.race([work(), lost])) !== 'lost') return outage.over()
      } catch (error) {
        if (!isAway(error)) throw error
        outage.failed(inWords(error))
      } finally {
        held.release().catch(noop)
      }
      await sleep(againMs, undefined, {signal})
    }
  }

  async #startPostgres(): Promise<void> {
    this.#postgres = await startPostgres({dir: path.join(this.#home, 'postgres')})
    measureDisk('database', this.#postgres.dataDirectory)
    this.#goOn()
    const moved = this.#ownerUrl !== '' && this.#ownerUrl !== this.#postgres.url
    this.#ownerUrl = this.#postgres.url
    if (moved) for (const child of this.#children) child.restart(childGraceMs)
    await this.#watchPostgres()
    if (moved) this.#writeService()
  }

  /** Holds a connection for as long as the server lives; when it breaks, the server is started again. */
  async #watchPostgres(): Promise<void> {
    const watch = new pg.Client({connectionString: this.#ownerUrl, application_name: connectionName})
    watch.on('error', () => {}) // 'end' follows
    await watch.connect()
    this.#watch = watch
    watch.once('end', () => void this.#restartPostgres())
  }

  async #restartPostgres(): Promise<void> {
    for (let waitMs = 100; !this.#stopping; waitMs = Math.min(waitMs * 2, longestWaitMs)) {
      this.#log.warn('the database ended; it is started again')
      try {
        const starting = this.#startPostgres()
        this.#starting = starting.catch(noop)
        return await starting
      } catch (error) {
        this.#log.error({error: (error as Error).message}, 'the database could not be started')
        await sleep(waitMs)
      }
    }
  }

  // --- local chains ---

  async #startLocalChains(): Promise<void> {
    if (!this.#settings.devnet) return
    for (const settings of this.#settings.chains.values())
      if (!hasNode(settings))
        this.#localChains.push(new LocalChain({chain: settings.chain, home: this.#home, log: this.#log}))
    if (!this.#localChains.length) return
    this.#step('the local chains')
    await Promise.all(this.#localChains.map(chain => chain.start()))
    for (const chain of this.#localChains) {
      chain.watch(() => {
        this.#writeService()
        for (const child of this.#children)
          if (child.name === 'jobs' || child.name === indexerName(chain.chain)) child.restart(childGraceMs)
      })
    }
  }

  #localChain(code: ChainCode): LocalChain | undefined {
    return this.#localChains.find(({chain}) => chain === code)
  }

  /** As the processes read them. */
  #settingsOfChains(): ChainSettings[] {
    return [...this.#settings.chains.values()].map(settings => {
      const local = this.#localChain(settings.chain.code)
      return local ? settingsFrom(settings.chain.code, local.identity()) : settings
    })
  }

  /** The chains that have a node, and where it is. */
  #chains(): RunningService['chains'] {
    return [...this.#settings.chains.values()].flatMap(settings => {
      const {code} = settings.chain
      const local = this.#localChain(code)
      const url = local?.url ?? familyOf(settings).endpoint(settings)
      return url ? [{chain: code, rpcUrl: url, local: local !== undefined}] : []
    })
  }

  // --- the processes ---

  async #findUsers(): Promise<void> {
    const users = await findUsers(this.#home)
    if (typeof users !== 'string') {
      const {port, dashboardPort} = this.#settings
      if (this.#isWanted('api')) requireUnprivileged('PORT', port, 'the API')
      if (this.#isWanted('dashboard-auth')) requireUnprivileged('DASHBOARD_PORT', dashboardPort, 'the dashboard')
      this.#users = users
    } else
      this.#log.warn(
        {why: users},
        'all processes run as one user: code that runs in one of them can read the seed (docs/operations.md)',
      )
  }

  async #startChildren(): Promise<void> {
    const chains = this.#localChains
    const identities = () => Object.assign({}, ...chains.map(chain => chain.identity()))
    // Custody signs for a chain, and never connects to it.
    const custody = this.#child('custody', 'custody/main.ts', 'sluice_custody', identities)
    const jobs = this.#child('jobs', 'jobs/main.ts', 'sluice_jobs', () =>
      Object.assign({}, ...chains.map(chain => chain.environment())),
    )
    const api = this.#child('api', 'api/main.ts', 'sluice_api', () => ({...identities(), PORT: String(this.#port)}))
    const auth = this.#child('dashboard-auth', 'dashboard/auth/main.ts', 'sluice_auth', () => ({
      DASHBOARD_PORT: String(this.#dashboardPort),
      DASHBOARD_SECRET: this.#settings.dashboardSecret ?? this.#dashboardSecret(),
      DASHBOARD_SECRET_FILE: '',
    }))
    const pages = this.#child('dashboard-pages', 'dashboard/pages/main.ts', 'sluice_dashboard', () => ({
      ...identities(),
      PUBLIC_URL: this.#settings.publicUrl ?? this.#apiUrl,
    }))
    const indexers = this.#chains().map(({chain}) => {
      const environment = () => this.#localChain(chain)?.environment() ?? {}
      return this.#child(indexerName(chain), 'indexers/main.ts', 'sluice_indexer', environment, ['--chain', chain])
    })
    this.#children.push(...[custody, jobs, api, auth, pages, ...indexers].filter(child => this.#isWanted(child.name)))
    const start = async (child: Child) => (this.#isWanted(child.name) ? await child.start() : undefined)
    await start(custody)
    this.#goOn()
    for (const indexer of indexers) {
      // A node that does not respond must not stop the rest: it is logged, and retried for ever.
      start(indexer).catch(error => {
        if (!this.#stopping) this.#log.warn({error: error.message}, 'a chain is not followed yet')
      })
    }
    const startApi = async () => {
      const listening = await start(api)
      if (listening) {
        if (!listening.url) throw new Error('the API did not say where it listens')
        this.#apiUrl = listening.url
        this.#port = Number(new URL(listening.url).port) // a restarted API keeps it
      }
      await start(pages) // they show the API's URL
    }
    const startDashboard = async () => {
      const listening = await start(auth)
      if (!listening) return
      if (!listening.url) throw new Error('the dashboard did not say where it listens')
      this.#dashboardPort = Number(new URL(listening.url).port)
      this.#dashboardUrl = dashboardUrlOf(this.#settings, this.#dashboardPort)
    }
    await Promise.all([startApi(), startDashboard(), start(jobs)])
    this.#isReachable = true
    this.#writeService() // before the chains are followed: the command line works as soon as the API does
  }

  #isWanted(name: string): boolean {
    return !this.#options.without?.includes(name)
  }

  #indexers(): string[] {
    return [...this.#settings.chains.keys()].map(indexerName)
  }

  #requireKnown(names: string[]): void {
    const known = [...processes, ...this.#indexers()]
    const unknown = names.find(name => !known.includes(name))
    if (unknown !== undefined)
      throw new PermanentError(`--without: there is no process "${unknown}"; there are ${known.join(', ')}`)
  }

  /** A chain that was meant to have a node, and has none, would silently not be followed. */
  #requireNodes(): void {
    if (this.#settings.devnet) return // it is a local chain then
    for (const settings of this.#settings.chains.values()) {
      const lacking = familyOf(settings).lacking?.(settings)
      if (lacking) throw new PermanentError(`these settings are wrong:\n  ${lacking}`)
    }
  }

  #child(
    name: string,
    module: string,
    role: ProcessRole,
    more: () => Record<string, string> = () => ({}),
    args?: string[],
  ) {
    const user = this.#users?.[role]
    return new Child({
      name,
      module: fileURLToPath(new URL(`../${module}`, import.meta.url)),
      args,
      user,
      prepare: () => {
        if (user) giveDirectories(this.#home, role, user)
      },
      environment: () => ({
        ...(user ? {...withFilesRead(environmentOf(role)), HOME: this.#home} : environmentOf(role)), // the user may have no home directory
        SLUICE_HOME: this.#home,
        DATABASE_URL: roleUrl(this.#ownerUrl, role),
        DATABASE_URL_FILE: '', // the owner's, if there is one
        METRICS_PORT: this.#metricsPort(name),
        ...more(),
      }),
      logFile: this.#options.quiet ? this.#logFile(name) : undefined,
      log: this.#log,
      onChange: () => this.#record(),
    })
  }

  /** Each process has a port of its own, always the same, however many chains there will be. */
  #metricsPort(name: string): string {
    const {metricsPort} = this.#settings
    if (metricsPort === undefined) return ''
    const fromBelow = [...processes.slice(0, 2), ...this.#indexers()]
    const fromAbove = processes.slice(2).indexOf(name)
    return String(metricsPort + (fromAbove >= 0 ? metricsPorts - 1 - fromAbove : fromBelow.indexOf(name)))
  }

  /** Made once, and kept: with another one, everybody would need a new authenticator. */
  #dashboardSecret(): string {
    const file = dashboardSecretFile(this.#home)
    const kept = readIfThere(file)?.trim()
    if (kept) return kept
    const made = randomBytes(32).toString('hex')
    writeWhole(file, `${made}\n`)
    return made
  }

  #logFile(name: string): string {
    const directory = path.join(this.#home, 'logs')
    mkdirSync(directory, {recursive: true})
    return path.join(directory, `${name}.log`)
  }

  /** Waits until every chain is followed, so that what is sent next is seen; not for ever, as a public node may be down. */
  async #untilFollowed(client: pg.Client): Promise<void> {
    let missing: string[] = this.#chains()
      .map(({chain}) => chain)
      .filter(chain => this.#isWanted(indexerName(chain)))
    for (const deadline = Date.now() + followedTimeoutMs; missing.length; await sleep(50)) {
      this.#goOn()
      if (Date.now() > deadline) {
        this.#log.warn({chains: missing}, 'some chains are not followed yet; the service runs without them')
        return
      }
      const {rows} = await client.query<{chain: string}>(
        'select chain from chain.cursor where head_moved_at > $1 or halted_at is not null',
        [this.#startedAt],
      )
      missing = missing.filter(code => !rows.some(({chain}) => chain === code))
    }
  }

  /** Gives the treasury of each local chain its first coins, once the indexer is there to see them arrive. */
  async #fundTreasuries(): Promise<void> {
    if (!this.#localChains.length) return
    const {rows} = await withClient(this.#ownerUrl, connectionName, client =>
      client.query<{chain: ChainCode; address: string}>(
        `select c.chain, a.address from custody.address a join app.chain c using (family) where a.purpose = 'treasury'`,
      ),
    )
    for (const {chain, address} of rows) await this.#localChain(chain)?.fund(address)
  }

  // --- service.json and processes.json ---

  #writeService(): void {
    if (!this.#isReachable) return // a chain or the database moved while the processes start
    writeService(this.#home, {
      pid: process.pid,
      started_at: this.#startedAt.toISOString(),
      running: this.#isRunning,
      api_url: this.#apiUrl,
      dashboard_url: this.#dashboardUrl,
      database_url: this.#ownerUrl,
      webhook_allow_private: this.#settings.webhookAllowPrivate,
      chains: Object.fromEntries(
        this.#chains().map(({chain, rpcUrl, local}) => [
          chain,
          {...factsOf(this.#settingsOf(chain)), rpc_url: rpcUrl, local},
        ]),
      ),
    })
  }

  /** As the processes of a chain have them. */
  #settingsOf(chain: ChainCode): ChainSettings {
    const local = this.#localChain(chain)
    const {chains} = local ? readSettings({...process.env, ...local.environment()}) : this.#settings
    return chains.get(chain)!
  }

  #record(): void {
    writeProcesses(
      this.#home,
      this.#children.map(({name, pid, state, startedAt, restarts, command}) => ({
        name,
        pid,
        state,
        started_at: startedAt.toISOString(),
        restarts,
        command,
      })),
    )
  }

  // --- the end ---

  /** Ends everything, within 10 seconds. */
  async stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    await this.#stopping
  }

  async #stop(): Promise<void> {
    this.#ending.abort(new PermanentError(stopped))
    if (!this.#unlock) return // nothing was started
    const late = setTimeout(() => void this.kill(), stopTimeoutMs)
    await Promise.all(this.#children.map(child => child.stop(childGraceMs)))
    await this.#watch?.end()
    await this.#unobserve()
    const chains = this.#localChains.map(chain => chain.stop(keeperGraceMs))
    await this.#starting
    await Promise.all([...chains, this.#postgres?.stop(keeperGraceMs)])
    clearTimeout(late)
    this.#leave()
  }

  /** Ends everything at once. No data is lost: Postgres and the local chains recover at the next start. */
  async kill(): Promise<void> {
    void this.#unobserve()
    for (const child of this.#children) child.kill()
    for (const chain of this.#localChains) chain.kill()
    await this.#postgres?.kill()
    this.#leave()
  }

  #leave(): void {
    clearInterval(this.#rotating)
    if (this.#unlock) removeService(this.#home)
    this.#unlock?.()
    this.#unlock = undefined
  }
}

/** Starts everything, and resolves when all of it runs. If a part does not start, stops the rest and rejects with the reason. */
export async function startService(settings: Settings, options: ServiceOptions = {}): Promise<RunningService> {
  const supervisor = new Supervisor(settings, options)
  try {
    return await supervisor.start()
  } catch (error) {
    await supervisor.stop()
    throw error
  }
}

/** What runs besides the indexers. The first two have the lowest metrics ports, the others the highest. */
const processes = ['custody', 'jobs', 'api', 'dashboard-auth', 'dashboard-pages']

/** Settings for one role only: the seed's passphrase is for custody, the replica for the API, the dashboard's secret for its sign-in. */
const belongings: [prefix: string, role: Role][] = [
  ['CUSTODY_PASSPHRASE', 'sluice_custody'],
  ['DATABASE_REPLICA_URL', 'sluice_api'],
  ['DASHBOARD_SECRET', 'sluice_auth'],
]

function environmentOf(role: Role): NodeJS.ProcessEnv {
  const isAnothers = (name: string) => belongings.some(([prefix, owner]) => owner !== role && name.startsWith(prefix))
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !isAnothers(name)))
}

function indexerName(chain: ChainCode): string {
  return `indexer-${chain.toLowerCase()}`
}

/** Waits for processes of a supervisor that was killed: they end by themselves; one that hangs is ended. */
async function endOrphans(home: string): Promise<void> {
  const lives = async ({pid, command}: Process) =>
    pid !== undefined && (await commandLine(pid)) === command && (await hasVariable(pid, 'SLUICE_HOME', home))
  const wait = async (orphan: Process, timeoutMs: number) => {
    for (const deadline = Date.now() + timeoutMs; Date.now() < deadline; await sleep(25))
      if (!(await lives(orphan))) return
    signal(orphan.pid!, 'SIGKILL')
  }
  await Promise.all(readProcesses(home).map(orphan => wait(orphan, orphanGraceMs)))
}

function requireUnprivileged(variable: string, port: number, what: string): void {
  if (port > 0 && port < 1024)
    throw new PermanentError(
      `${variable} must be above 1023, such as 8080 (it is ${port}): ${what} does not run as root, and only root may listen on lower ports; put a web server in front of it`,
    )
}

async function requireFree(host: string, port: number, what: string, setting: string): Promise<void> {
  const server = createServer()
  await listening(once(server.listen(port, host), 'listening'), host, port, what, setting)
  await new Promise(resolve => server.close(resolve))
}
