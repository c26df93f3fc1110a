// The whole service under torture, as npm start runs it, and what a merchant and an operator do with it. Calls of the merchant are made
// again until they are answered: that is what a merchant does when the API dies under a request.
import {type ChildProcess, execFile, spawn} from 'node:child_process'
import {once} from 'node:events'
import {openSync, readFileSync} from 'node:fs'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {readDevnet} from '../../devnet/file.ts'
import {readProcesses, readService} from '../../service/home.ts'
import {kill} from '../support/processes.ts'
import {until} from '../support/until.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const START_TIMEOUT_MS = 90_000
const RETRY_MS = 250

export const chainCodes = ['ETH', 'POLYGON'] as const
export type ChainCode = (typeof chainCodes)[number]

export class Service {
  readonly home: string
  readonly #log: number
  #child: ChildProcess | undefined
  #key = ''
  /** Calls of the merchant that were not answered, or answered by an error of the server, and were made again. */
  retries = 0

  constructor(home: string) {
    this.home = home
    this.#log = openSync(this.logFile, 'a')
  }

  get logFile(): string {
    return path.join(this.home, 'service.log')
  }

  // --- the supervisor ---

  /** Starts the supervisor, and waits until it says that everything runs. Starts it again where it ends instead. */
  async start(): Promise<void> {
    const deadline = Date.now() + START_TIMEOUT_MS
    while (!(await this.#startOnce(deadline))) if (Date.now() > deadline) throw new Error('the service does not start')
  }

  async #startOnce(deadline: number): Promise<boolean> {
    const child = spawn(process.execPath, [path.join(root, 'service/main.ts')], {
      cwd: this.home,
      env: {...this.#environment(), PORT: '0', WEBHOOK_ALLOW_PRIVATE: '1', RATE_LIMIT_PER_MINUTE: '100000'},
      stdio: ['ignore', this.#log, this.#log],
    })
    this.#child = child
    while (Date.now() < deadline && child.exitCode === null && child.signalCode === null) {
      if (readService(this.home)?.pid === child.pid) return true
      await sleep(50)
    }
    return false
  }

  #environment(): NodeJS.ProcessEnv {
    return {PATH: process.env.PATH, SLUICE_HOME: this.home}
  }

  async killSupervisor(): Promise<void> {
    const exited = once(this.#child!, 'exit')
    this.#child!.kill('SIGKILL')
    await exited
  }

  /** Ends everything, as Ctrl-C does. Resolves to how long that took, in milliseconds. */
  async stop(): Promise<number> {
    const startedAt = Date.now()
    const exited = once(this.#child!, 'exit')
    this.#child!.kill('SIGTERM')
    await exited
    return Date.now() - startedAt
  }

  // --- the processes ---

  /** The pid of a process of the service, of one of its databases or chains; undefined while it does not run. */
  pidOf(name: string): number | undefined {
    const [kind, chain = ''] = name.split('-')
    if (kind === 'postgres') return firstNumber(path.join(this.home, 'postgres/data/postmaster.pid'))
    if (kind === 'devnet') return readDevnet(this.#devnetDirectory(chain))?.pid
    if (kind === 'anvil') return firstNumber(path.join(this.#devnetDirectory(chain), 'anvil.pid'))
    return readProcesses(this.home).find(candidate => candidate.name === name)?.pid
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

  get databaseUrl(): string {
    return this.#running().database_url
  }

  rpcUrl(chain: ChainCode): string {
    const devnet = readDevnet(this.#devnetDirectory(chain))
    if (!devnet) throw new Error(`the local ${chain} chain does not serve now`)
    return devnet.rpc_url.replace('ws', 'http')
  }

  #running() {
    const service = readService(this.home)
    if (!service) throw new Error('the service does not run')
    return service
  }

  // --- what people do with it ---

  /** A merchant with both chains, its key, and its endpoint for every type of event. */
  async openShop(webhookUrl: string): Promise<{id: string; secret: string}> {
    await this.#sluice('merchant', 'create', '--name', 'Torture', '--prefix', 'torture', '--chains', chainCodes.join())
    this.#key = (await this.#sluice('key', 'create', '--merchant', 'torture')).secret!
    const events = 'deposit.pending,deposit.confirmed,deposit.reorged'
    const {id, secret} = await this.#sluice(
      'webhook',
      'add',
      '--merchant',
      'torture',
      '--url',
      webhookUrl,
      '--events',
      events,
    )
    return {id: id!, secret: secret!}
  }

  async #sluice(...words: string[]): Promise<Record<string, string>> {
    const {stdout} = await promisify(execFile)(process.execPath, [path.join(root, 'cli/main.ts'), ...words, '--json'], {
      env: this.#environment(),
    })
    return JSON.parse(stdout)
  }

  /** A call of the merchant, made again until it is answered with success. Resolves to the text of the answer. */
  async call(method: string, path: string, body?: object): Promise<string> {
    return await until(
      async () => {
        try {
          return await this.#callOnce(method, path, body)
        } catch (error) {
          this.retries++
          throw error
        }
      },
      {timeoutMs: 120_000, intervalMs: RETRY_MS, what: `an answer to ${method} ${path}`},
    )
  }

  async #callOnce(method: string, path: string, body?: object): Promise<string> {
    const response = await fetch(this.#running().api_url + path, {
      method,
      headers: {authorization: `Bearer ${this.#key}`, ...(body && {'content-type': 'application/json'})},
      body: body && JSON.stringify(body),
      signal: AbortSignal.timeout(10_000),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path} was answered with ${response.status}: ${text.slice(0, 200)}`)
    return text
  }
}

function firstNumber(file: string): number | undefined {
  try {
    return Number.parseInt(readFileSync(file, 'utf8'), 10) || undefined
  } catch {
    return undefined // it does not run
  }
}
