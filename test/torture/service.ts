// The whole service under torture, as npm start runs it, with a second worker beside it, and the operator's commands.
import {type ChildProcess, execFile, fork, spawn} from 'node:child_process'
import {once} from 'node:events'
import {openSync, readFileSync, writeFileSync} from 'node:fs'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import pg from 'pg'
import {readProcesses, readService} from '../../base/home.ts'
import {type ChainCode, chains} from '../../chains/registry.ts'
import {roleUrl} from '../../db/migrate/migrate.ts'
import {readDevnet} from '../../devnet/file.ts'
import {kill} from '../support/processes.ts'
import {programAndOptions} from '../support/service.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const startTimeoutMs = 180_000
const workerWaitMs = 500

/** Settings that make payouts fast enough for a run on any chain. */
const settings = {
  PORT: '0',
  DASHBOARD_PORT: '0',
  WEBHOOK_ALLOW_PRIVATE: '1',
  RATE_LIMIT_PER_MINUTE: '100000',
  PAYOUT_TIMEOUT_MS: '40000',
  PAYMENT_EXPIRY_MS: '12000',
  PUBLIC_URL: 'https://pay.example', // so that the same request gets the same bytes, wherever the API listens
  REPLACE_AFTER_MS: '2500',
}

/** All chains of Sluice. */
export const chainCodes = chains.map(({code}) => code)

export class Service {
  readonly home: string
  readonly #log: number
  readonly #seed: number
  #child: ChildProcess | undefined
  #worker: ChildProcess | undefined
  /** The node URLs of processes: TORTURE_<process>_<setting>; and settings of all of them. */
  readonly #nodes: Record<string, string> = {}
  readonly #urls = new Map<ChainCode, string>()

  constructor(home: string, seed: number) {
    this.home = home
    this.#seed = seed
    this.#log = openSync(this.logFile, 'a')
  }

  get logFile(): string {
    return path.join(this.home, 'service.log')
  }

  /** Points this setting to another URL, or to one more, for processes of one kind. Must be called before the start. */
  useNode(processes: 'jobs' | 'indexers', setting: string, url: string): void {
    const name = `TORTURE_${processes}_${setting}`
    this.#nodes[name] = this.#nodes[name] ? `${this.#nodes[name]},${url}` : url
  }

  /** Gives all processes these settings. Must be called before the start. */
  use(settings: Record<string, string>): void {
    Object.assign(this.#nodes, settings)
  }

  // --- the supervisor ---

  /** Starts the supervisor, and waits until it reports that everything runs. Starts it again if it ends instead. */
  async start(): Promise<void> {
    const deadline = Date.now() + startTimeoutMs
    while (!(await this.#startOnce(deadline))) if (Date.now() > deadline) throw new Error('the service does not start')
  }

  async #startOnce(deadline: number): Promise<boolean> {
    const child = spawn(process.execPath, programAndOptions, {
      cwd: this.home,
      env: {...this.#environment(), INDEXERS: 'apart', ...this.#torment()}, // each is killed by itself
      stdio: ['ignore', this.#log, this.#log],
    })
    this.#child = child
    while (Date.now() < deadline && child.exitCode === null && child.signalCode === null) {
      const service = readService(this.home)
      if (service?.running && service.pid === child.pid) return true
      await sleep(50)
    }
    return false
  }

  #environment(): NodeJS.ProcessEnv {
    return {PATH: process.env.PATH, SLUICE_HOME: this.home}
  }

  #torment(): NodeJS.ProcessEnv {
    return {
      ...settings,
      ...this.#nodes,
      NODE_OPTIONS: `--import=${fileURLToPath(new URL('./preload.ts', import.meta.url))}`,
      TORTURE_SEED: String(this.#seed),
      TORTURE_CALM_FILE: this.#calmFile,
    }
  }

  get #calmFile(): string {
    return path.join(this.home, 'torture-is-over')
  }

  /** No more processes are killed at a step. */
  calm(): void {
    writeFileSync(this.#calmFile, '')
  }

  /** How often a process was killed at each step. */
  killedAtSteps(): Record<string, number> {
    const counts: Record<string, number> = {}
    for (const [, label] of readFileSync(this.logFile, 'utf8').matchAll(/^torture: killed at (.*)$/gm))
      counts[label!] = (counts[label!] ?? 0) + 1
    return counts
  }

  // --- the second worker ---

  /** Keeps a worker running beside the supervisor's until `stopped`. */
  async runSecondWorker(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      try {
        const worker = this.#startWorker()
        const exited = once(worker, 'exit')
        const end = () => worker.kill('SIGKILL')
        stopped.addEventListener('abort', end)
        await exited
        stopped.removeEventListener('abort', end)
      } catch {} // the service is just starting
      await sleep(workerWaitMs)
    }
  }

  #startWorker(): ChildProcess {
    const worker = fork(path.join(root, 'jobs/main.ts'), {
      cwd: this.home,
      env: {
        ...this.#environment(),
        ...this.#torment(),
        ...Object.assign({}, ...chainCodes.map(chain => this.#chainEnvironment(chain))),
        DATABASE_URL: roleUrl(this.databaseUrl, 'sluice_jobs'),
      },
      execArgv: [],
      stdio: ['ignore', this.#log, this.#log, 'ipc'],
    })
    this.#worker = worker
    return worker
  }

  #chainEnvironment(chain: ChainCode): NodeJS.ProcessEnv {
    const {identity, source} = readDevnet(this.#devnetDirectory(chain))!
    return {...identity, ...source}
  }

  // --- ending ---

  async killSupervisor(): Promise<void> {
    const exited = once(this.#child!, 'exit')
    this.#child!.kill('SIGKILL')
    await exited
  }

  /** Ends everything, like Ctrl-C. Resolves to how long that took, in milliseconds. */
  async stop(): Promise<number> {
    const startedAt = Date.now()
    const exited = once(this.#child!, 'exit')
    this.#child!.kill('SIGTERM')
    await exited
    return Date.now() - startedAt
  }

  // --- the processes ---

  /** The pid of a process of the service, or of its database or chains; undefined while it does not run. */
  pidOf(name: string): number | undefined {
    const [kind, chain = ''] = name.split('-')
    if (kind === 'the second worker') return this.#worker?.exitCode === null ? this.#worker.pid : undefined
    if (kind === 'postgres') return firstNumber(path.join(this.home, 'postgres/data/postmaster.pid'))
    if (kind === 'devnet') return readDevnet(this.#devnetDirectory(chain))?.pid
    if (kind === 'node') return this.#nodePid(this.#devnetDirectory(chain))
    return readProcesses(this.home).find(candidate => candidate.name === name)?.pid
  }

  /** The pid of the program that runs a local chain. */
  #nodePid(directory: string): number | undefined {
    const devnet = readDevnet(directory)
    return devnet && firstNumber(path.join(directory, `${devnet.node}.pid`))
  }

  #devnetDirectory(chain: string): string {
    return path.join(this.home, 'devnet', chain.toLowerCase())
  }

  /** Sends SIGKILL. True if there was something to kill. */
  kill(name: string): boolean {
    const pid = this.pidOf(name)
    if (pid) kill(pid, 'SIGKILL')
    return pid !== undefined
  }

  get apiUrl(): string {
    return this.#running().api_url
  }

  get databaseUrl(): string {
    return this.#running().database_url
  }

  /** The node URL of a local chain for payers and proxies. */
  controlUrl(chain: ChainCode): string {
    const devnet = readDevnet(this.#devnetDirectory(chain))
    if (!devnet) throw new Error(`the local ${chain} chain does not serve now`)
    return devnet.control_url
  }

  /** The current or last URL of a local chain for its followers; before the first, one without a server. */
  url(chain: ChainCode): string {
    const devnet = readDevnet(this.#devnetDirectory(chain))
    if (devnet) this.#urls.set(chain, devnet.url)
    return this.#urls.get(chain) ?? 'tcp://127.0.0.1:1'
  }

  /** The settings with which it reads a chain, as the command line shows them. */
  settingsOf(chain: ChainCode): Record<string, string> {
    return this.#running().chains[chain]!.settings
  }

  #running() {
    const service = readService(this.home)
    if (!service) throw new Error('the service does not run')
    return service
  }

  // --- the operator ---

  /** Runs the command line with --json. */
  async sluice(...words: string[]): Promise<Record<string, string>> {
    return JSON.parse(await this.call([...words, '--json']))
  }

  /** The output of a command; the signal kills it. */
  async call(words: string[], killed?: AbortSignal): Promise<string> {
    const options = {env: this.#environment(), signal: killed, killSignal: 'SIGKILL'} as const
    const {stdout} = await promisify(execFile)(process.execPath, [path.join(root, 'cli/main.ts'), ...words], options)
    return stdout
  }

  /** Rejects where the database is down. */
  async query(sql: string, values?: unknown[]): Promise<Record<string, unknown>[]> {
    return await this.inDatabase(async db => (await db.query(sql, values)).rows)
  }

  /** With the owner's rights. Rejects where the database is down. */
  async inDatabase<T>(work: (db: pg.Client) => Promise<T>): Promise<T> {
    const db = new pg.Client({connectionString: this.databaseUrl, connectionTimeoutMillis: 2000})
    db.on('error', () => {}) // the failing query reports it
    await db.connect()
    try {
      return await work(db)
    } finally {
      await db.end().catch(() => {})
    }
  }
}

function firstNumber(file: string): number | undefined {
  try {
    return Number.parseInt(readFileSync(file, 'utf8'), 10) || undefined
  } catch {
    return undefined // it does not run
  }
}
