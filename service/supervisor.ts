// The whole service on one machine: the database, local chains for chains without a node, and the processes of
// processes.ts. Promises: once startService resolves, each of them runs, and is restarted when it dies. The others
// start only after custody has checked the database, which may be an older copy. stop() ends them all within 10
// seconds, even if one hangs. If this process is killed instead, its processes end by themselves; Postgres and the
// local chains keep running, and the next start adopts them.
import {once} from 'node:events'
import {mkdirSync} from 'node:fs'
import {createServer} from 'node:net'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import type pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import {
  lockHome,
  makeDirectory,
  type Process,
  readProcesses,
  removeService,
  writeProcesses,
  writeService,
} from '../base/home.ts'
import {listening, portIn, urlAt} from '../base/listen.ts'
import {type Logger, logger} from '../base/log.ts'
import {observe} from '../base/observe.ts'
import {commandLine, hasVariable, signal} from '../base/process.ts'
import {familyOf} from '../chains/families.ts'
import {dashboardUrlOf, factsOf, metricsPorts, type Settings} from '../chains/settings.ts'
import {withClient} from '../db/client/pool.ts'
import {warnOfUnknown} from '../db/client/run-process.ts'
import {writeAssets} from '../db/migrate/assets.ts'
import {migrate, roleUrl} from '../db/migrate/migrate.ts'
import {connectionsLacking} from '../db/server/requirements.ts'
import {Child} from './child.ts'
import {connectionName, ServiceDatabase} from './database.ts'
import {type Endpoint, LocalChains} from './local-chains.ts'
import {
  apart,
  api,
  dashboard,
  inheritedBy,
  type Listener,
  metricsPortOf,
  processesOf,
  type ServiceProcess,
  together,
} from './processes.ts'
import {rotateLogs} from './rotate-logs.ts'
import {compileCache, findUsers, giveDirectories, type Users, withFilesRead} from './users.ts'

// Together below the 10 seconds in which everything ends.
const childGraceMs = 3500
const keeperGraceMs = 5000
const stopTimeoutMs = 9500
const orphanGraceMs = 6000
const followedTimeoutMs = 15_000
const rotateIntervalMs = 60_000
const rotation = {maxBytes: 50 * 2 ** 20, kept: 5}

const noop = () => {}

export interface ServiceOptions {
  /** Logs go to files in SLUICE_HOME/logs instead of stderr. */
  quiet?: boolean
  /** Called with a few words about what the start waits for. */
  onStep?(what: string): void
  /**
   * Names of processes that are not started: custody, jobs, api, dashboard-auth, dashboard-pages, indexer-eth and so
   * on.
   */
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
  chains: Endpoint[]
  /** Ends everything within 10 seconds. */
  stop(): Promise<void>
}

/**
 * A service that can be stopped at any moment, while it still starts, too. Use startService, or this when a signal may
 * come early: start() rejects when stop() or kill() was called meanwhile.
 */
export class Supervisor {
  readonly #settings: Settings
  readonly #options: ServiceOptions
  readonly #home: string
  readonly #log: Logger
  readonly #database: ServiceDatabase
  readonly #localChains: LocalChains
  readonly #processes: ServiceProcess[]
  #children: {spec: ServiceProcess; child: Child}[] = []
  /** Where processes said that they listen. */
  readonly #urls = new Map<Listener, string>()
  readonly #startedAt = new Date()
  /** Reachable: service.json may be written, from which the command line finds the service. */
  #state: 'starting' | 'reachable' | 'running' = 'starting'
  #unlock: (() => void) | undefined
  #rotating: NodeJS.Timeout | undefined
  #unobserve: () => Promise<void> = async () => {}
  #starting: Promise<void> = Promise.resolve()
  #stopping: Promise<void> | undefined

  constructor(settings: Settings, options: ServiceOptions = {}) {
    this.#settings = settings
    this.#options = options
    this.#home = path.resolve(settings.home)
    makeDirectory(this.#home) // before the log, which may be a file in it
    const log = logger('supervisor', options.quiet ? this.#logFile('supervisor') : undefined)
    this.#log = log
    const directory = path.join(this.#home, 'postgres')
    this.#database = new ServiceDatabase({given: settings.databaseUrl, directory, log, onMoved: () => this.#moved()})
    this.#localChains = new LocalChains(settings, this.#home, log)
    this.#processes = processesOf(settings).filter(({name}) => !options.without?.includes(name))
  }

  async start(): Promise<RunningService> {
    const starting = this.#start()
    this.#starting = starting.then(noop, noop)
    return await starting
  }

  async #start(): Promise<RunningService> {
    const database = this.#database
    const settings = this.#settings
    warnOfUnknown(this.#log)
    this.#requireKnown()
    if (this.#listeners().includes(dashboard)) dashboardUrlOf(settings) // throws before anything is started
    this.#requireNodes()
    this.#unlock = await lockHome(this.#home)
    await endOrphans(this.#home)
    const users = await this.#findUsers()
    await this.#requireFreePorts()
    await this.#observe()
    this.#rotateLogs()
    this.#step('the database')
    await database.start()
    await database.untilDone(() => migrate(database.url))
    await database.untilDone(() => this.#warnOfServer())
    if (this.#localChains.areWanted) await this.#startLocalChains()
    await database.untilDone(() => writeAssets(database.url, this.#localChains.settingsOfAll()))
    this.#step('the processes')
    await this.#startProcesses(users)
    this.#step('the chains')
    await database.untilDone(() => withClient(database.url, connectionName, client => this.#untilFollowed(client)))
    this.#goOn()
    if (this.#localChains.areWanted)
      await withClient(database.url, connectionName, client => this.#localChains.fundTreasuries(client))
    this.#goOn()
    this.#state = 'running'
    this.#writeService()
    return {
      home: this.#home,
      apiUrl: this.#urlOf(api),
      dashboardUrl: this.#dashboardUrl(),
      databaseUrl: database.url,
      chains: this.#localChains.endpoints(),
      stop: () => this.stop(),
    }
  }

  #step(what: string): void {
    this.#goOn()
    this.#options.onStep?.(what)
  }

  #goOn(): void {
    if (this.#stopping) throw wasStopped()
  }

  // --- before anything is started ---

  #requireKnown(): void {
    const known = processesOf(this.#settings).map(({name}) => name)
    const unknown = this.#options.without?.find(name => !known.includes(name))
    if (unknown !== undefined)
      throw new PermanentError(`--without: there is no process "${unknown}"; there are ${known.join(', ')}`)
  }

  /** A chain that was meant to have a node, and has none, would silently not be followed. */
  #requireNodes(): void {
    for (const settings of this.#settings.chains.values()) {
      if (this.#settings.localChains.includes(settings.chain.code)) continue // it is a local chain then
      const lacking = familyOf(settings).lacking?.(settings)
      if (lacking) throw new PermanentError(`these settings are wrong:\n  ${lacking}`)
    }
  }

  #listeners(): Listener[] {
    return this.#processes.flatMap(({listener}) => listener ?? [])
  }

  async #findUsers(): Promise<Users | undefined> {
    const users = await findUsers(this.#home)
    if (typeof users !== 'string') {
      for (const listener of this.#listeners()) requireUnprivileged(listener, this.#settings)
      return users
    }
    this.#log.warn(
      {why: users},
      'all processes run as one user: code that runs in one of them can read the seed (docs/operations.md)',
    )
  }

  async #requireFreePorts(): Promise<void> {
    const settings = this.#settings
    for (const {what, variable, portOf} of this.#listeners())
      await requireFree(settings.host, portOf(settings), what, variable)
    for (const each of this.#processes) {
      const port = metricsPortOf(each, settings)
      if (port) await requireFree(settings.host, port, `the metrics of ${each.name}`, 'METRICS_PORT')
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

  // --- what the processes work with ---

  async #warnOfServer(): Promise<void> {
    const lacking = await connectionsLacking(this.#database.url)
    if (lacking) this.#log.warn(lacking)
  }

  /** The database is at another URL. */
  #moved(): void {
    for (const {child} of this.#children) child.restart(childGraceMs)
    this.#writeService()
  }

  async #startLocalChains(): Promise<void> {
    this.#step('the local chains')
    await this.#localChains.start()
    this.#localChains.watch(moved => {
      this.#writeService()
      for (const {
        spec: {name, chains},
        child,
      } of this.#children)
        if (name === 'jobs' || chains?.includes(moved)) child.restart(childGraceMs)
    })
  }

  // --- the processes ---

  /** Starts each process once custody, and what else it needs, is ready. */
  async #startProcesses(users: Users | undefined): Promise<void> {
    const followed = this.#localChains.endpoints().map(({chain}) => chain)
    const wanted = this.#processes.filter(({chains}) => !chains || chains.some(chain => followed.includes(chain)))
    const ready = new Map<string | undefined, Promise<void>>()
    const specs = this.#settings.indexers === 'together' ? together(wanted, this.#localChains.settingsOfAll()) : wanted
    this.#children = specs.map(spec => ({spec, child: this.#child(spec, users)}))
    for (const {spec, child} of this.#children) {
      const needed = [ready.get('custody'), ready.get(spec.after)]
      ready.set(
        spec.name,
        Promise.all(needed).then(() => this.#startOne(spec, child)),
      )
    }
    await Promise.all(ready.values())
    this.#state = 'reachable'
    this.#writeService() // before the chains are followed: the command line works as soon as the API does
  }

  async #startOne({mayLag, listener}: ServiceProcess, child: Child): Promise<void> {
    this.#goOn()
    const starting = child.start()
    if (mayLag) {
      // A node that does not respond must not stop the rest: it is logged, and retried for ever.
      starting.catch(error => {
        if (!this.#stopping) this.#log.warn({error: error.message}, 'a chain is not followed yet')
      })
      return
    }
    const {url} = await starting
    if (!listener) return
    if (!url) throw new Error(`${listener.what} did not say where it listens`)
    this.#urls.set(listener, url)
  }

  /** What one chain does must not keep others from being followed: from now on, each has its own process. */
  #part(shared: ServiceProcess, users: Users | undefined): void {
    this.#log.warn({chains: shared.chains}, 'the process that follows several chains failed; each gets its own now')
    const parted = apart(shared).map(spec => ({spec, child: this.#child(spec, users)}))
    this.#children = [...this.#children.filter(({spec}) => spec !== shared), ...parted]
    for (const {spec, child} of parted) this.#startOne(spec, child).catch(noop) // stopped meanwhile
  }

  #child(spec: ServiceProcess, users: Users | undefined): Child {
    const {name, module, args, role, chains = [], variables} = spec
    const user = users?.[role]
    const inherited = () => inheritedBy(role)
    return new Child({
      name,
      module: fileURLToPath(new URL(`../${module}`, import.meta.url)),
      args,
      user,
      prepare: () => {
        if (user) giveDirectories(this.#home, role, user)
      },
      environment: () => ({
        ...(user ? {...withFilesRead(inherited()), HOME: this.#home} : inherited()), // the user may have no home directory
        SLUICE_HOME: this.#home,
        ...compileCache(this.#home, role),
        DATABASE_URL: roleUrl(this.#database.url, role),
        DATABASE_URL_FILE: '', // the owner's, if there is one
        METRICS_PORT: String(metricsPortOf(spec, this.#settings) ?? ''),
        ...variables?.({
          home: this.#home,
          settings: this.#settings,
          localChains: this.#localChains,
          urlOf: listener => this.#urlOf(listener),
        }),
      }),
      logFile: this.#options.quiet ? this.#logFile(name) : undefined,
      log: this.#log,
      onFault: () => {
        if (chains.length < 2 || this.#stopping) return false
        this.#part(spec, users)
        return true
      },
      onChange: () => this.#record(),
    })
  }

  #urlOf(listener: Listener): string {
    return this.#urls.get(listener) ?? urlAt(this.#settings.host, listener.portOf(this.#settings))
  }

  #dashboardUrl(): string | undefined {
    const url = this.#urls.get(dashboard)
    return url && dashboardUrlOf(this.#settings, portIn(url))
  }

  #logFile(name: string): string {
    const directory = path.join(this.#home, 'logs')
    mkdirSync(directory, {recursive: true})
    return path.join(directory, `${name}.log`)
  }

  /**
   * Waits until every chain is followed, so that what is sent next is seen; not for ever, as a public node may be down.
   */
  async #untilFollowed(client: pg.Client): Promise<void> {
    let missing: string[] = this.#children.flatMap(({spec: {chains}}) => chains ?? [])
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

  // --- service.json and processes.json ---

  #writeService(): void {
    if (this.#state === 'starting') return // a chain or the database moved meanwhile
    const chains = this.#localChains.endpoints().map(({chain, rpcUrl, local}) => {
      return [chain, {...factsOf(this.#localChains.settingsOf(chain)), rpc_url: rpcUrl, local}]
    })
    writeService(this.#home, {
      pid: process.pid,
      started_at: this.#startedAt.toISOString(),
      running: this.#state === 'running',
      api_url: this.#urlOf(api),
      dashboard_url: this.#dashboardUrl(),
      database_url: this.#database.url,
      webhook_allow_private: this.#settings.webhookAllowPrivate,
      chains: Object.fromEntries(chains),
    })
  }

  #record(): void {
    writeProcesses(
      this.#home,
      this.#children.map(({child: {name, pid, state, startedAt, restarts, command}}) => ({
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
    this.#database.end(wasStopped())
    if (!this.#unlock) return // nothing was started
    const late = setTimeout(() => void this.kill(), stopTimeoutMs)
    await Promise.all(this.#children.map(({child}) => child.stop(childGraceMs)))
    await this.#unobserve()
    const chains = this.#localChains.stop(keeperGraceMs)
    await this.#starting
    await Promise.all([chains, this.#database.stop(keeperGraceMs)])
    clearTimeout(late)
    this.#leave()
  }

  /** Ends everything at once. No data is lost: Postgres and the local chains recover at the next start. */
  async kill(): Promise<void> {
    void this.#unobserve()
    for (const {child} of this.#children) child.kill()
    this.#localChains.kill()
    await this.#database.kill()
    this.#leave()
  }

  #leave(): void {
    clearInterval(this.#rotating)
    if (this.#unlock) removeService(this.#home)
    this.#unlock?.()
    this.#unlock = undefined
  }
}

/**
 * Starts everything, and resolves when all of it runs. If a part does not start, stops the rest and rejects with the
 * reason.
 */
export async function startService(settings: Settings, options: ServiceOptions = {}): Promise<RunningService> {
  const supervisor = new Supervisor(settings, options)
  try {
    return await supervisor.start()
  } catch (error) {
    await supervisor.stop()
    throw error
  }
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

const wasStopped = () => new PermanentError('the service was stopped while it started')

function requireUnprivileged({what, variable, portOf}: Listener, settings: Settings): void {
  const port = portOf(settings)
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
