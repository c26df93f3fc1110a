// One supervised process of the service. Promises: it runs while it is wanted; when it dies it is restarted after a
// wait. The wait doubles from 0.25 s to 30 s, or to 1 s if the process was killed or lost the database, and starts from
// 0.25 s again once it has run for 10 s. A process that loses the database knows at its next start since when that is
// away. When it is not wanted, it ends within the given grace.
import {type ChildProcess, fork, type StdioOptions} from 'node:child_process'
import {closeSync, openSync} from 'node:fs'
import {Counter, Gauge} from 'prom-client'
import {z} from 'zod'
import {PermanentError} from '../base/errors.ts'
import {exitLost, withAwaySince} from '../base/lifecycle.ts'
import type {Logger} from '../base/log.ts'
import {registry} from '../base/observe.ts'
import type {User} from './users.ts'

/**
 * A process that loads its modules gets up to three times 16 MiB for young objects, and keeps them for ever. With a
 * quarter of that, each takes some 40 MB less while nothing happens.
 */
export const nodeOptions = ['--max-semi-space-size=4']

const slowStartMs = 120_000
/** How a process ends that has lost the database. */
const lost = `exit code ${exitLost}`
const firstWaitMs = 250
const longestWaitMs = 30_000
const longestBlamelessWaitMs = 1000
const healthyAfterMs = 10_000
/** A process that has worked for this long has said that the database is back (db/client/outage.ts). */
const saidBackAfterMs = 4000

/**
 * Ends for which a process is not to blame: signals from outside (a process that is asked to end exits with code 0),
 * and the loss of the database, for which the next process waits inside.
 */
const blameless = new Set(['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP', 'exit code 0', lost])

const up = new Gauge({
  name: 'sluice_process_up',
  help: '1 while the process works, 0 while it starts or waits to be restarted.',
  labelNames: ['name'],
  registers: [registry],
})
const restarts = new Counter({
  name: 'sluice_process_restarts_total',
  help: 'How often the process ended and was restarted.',
  labelNames: ['name'],
  registers: [registry],
})

/** The message of a process over IPC once it works; the API adds its URL. */
const Ready = z.object({ready: z.literal(true), url: z.string().optional()})
export type Ready = z.infer<typeof Ready>

/** The message of a process that cannot work until an operator helps. */
const Failed = z.object({failed: z.string()})

export interface ChildOptions {
  name: string
  /** The module that it runs, as an absolute path, and its arguments. */
  module: string
  args?: string[]
  /** The user that it runs as; by default the supervisor's. */
  user?: User
  /** Called before each start. */
  prepare?(): void
  /** Asked at each start, so that a restart sees a database or a node that moved. */
  environment(): NodeJS.ProcessEnv
  /** The file that its output goes to; absent: to stderr of this process. */
  logFile?: string
  log: Logger
  /** Called when it ended by its own fault. If it returns true, it is not started again. */
  onFault?(): boolean
  /** Called after each change of `state` and `pid`. */
  onChange(): void
}

/** How long to wait before a process is started again, after the last time and by how it ended now. */
export function waitAfter(lastWaitMs: number, how: string, ranMs: number): number {
  const waitMs = ranMs >= healthyAfterMs ? firstWaitMs : Math.max(lastWaitMs * 2, firstWaitMs)
  return Math.min(waitMs, blameless.has(how) ? longestBlamelessWaitMs : longestWaitMs)
}

export class Child {
  readonly name: string
  /** Its command line, as the operating system shows it. */
  readonly command: string
  /** stopped: not wanted. waiting: it died and is started again soon. */
  state: 'stopped' | 'starting' | 'running' | 'waiting' = 'stopped'
  pid: number | undefined
  startedAt = new Date(0)
  restarts = 0
  readonly #options: ChildOptions
  /** Settled once it is ready for the first time, or ends before. */
  readonly #first = Promise.withResolvers<Ready>()
  /** Since when the database is away, as far as this process knows. */
  #lostAt: Date | undefined
  #process: ChildProcess | undefined
  #timer: NodeJS.Timeout | undefined
  #waitMs = 0
  /** When it began to do its work, by performance.now(). */
  #runningSince: number | undefined
  #wanted = false

  constructor(options: ChildOptions) {
    this.name = options.name
    this.command = [process.execPath, ...nodeOptions, options.module, ...(options.args ?? [])].join(' ')
    this.#options = options
    restarts.inc({name: this.name}, 0)
    this.#first.promise.catch(() => {}) // start() reports it
  }

  /**
   * Starts it for the first time. Resolves when it is ready, however long that takes. Rejects if it ends before, for
   * another reason than that it lost the database.
   */
  async start(): Promise<Ready> {
    const {log, logFile} = this.#options
    this.#wanted = true
    const slow = setTimeout(
      () => log.warn({name: this.name, log_file: logFile, seconds: slowStartMs / 1000}, 'a process is not ready yet'),
      slowStartMs,
    )
    try {
      this.#launch()
      return await this.#first.promise
    } finally {
      clearTimeout(slow)
    }
  }

  #launch(): void {
    const {module, args = [], user, environment, logFile} = this.#options
    this.#options.prepare?.()
    const output = logFile === undefined ? 2 : openSync(logFile, 'a', 0o600)
    const stdio: StdioOptions = ['ignore', output, output, 'ipc']
    const env = {...environment(), ...withAwaySince(this.#lostAt)}
    const child = fork(module, args, {...user, env, execArgv: nodeOptions, stdio})
    if (output !== 2) closeSync(output)
    this.#process = child
    this.startedAt = new Date()
    this.#runningSince = undefined
    this.#change('starting', child.pid)
    child.on('message', message => {
      if (this.#process !== child) return
      const failed = Failed.safeParse(message)
      if (failed.success)
        return this.#first.reject(new PermanentError(`${this.name} cannot start: ${failed.data.failed}`))
      const {data} = Ready.safeParse(message)
      if (!data) return
      this.#runningSince = performance.now()
      this.#change('running', child.pid)
      this.#first.resolve(data)
    })
    const ended = (how: string) => {
      if (this.#process !== child) return
      this.#process = undefined
      this.#after(how)
    }
    child.once('exit', (code, signal) => ended(signal ?? `exit code ${code}`))
    child.on('error', error => {
      if (child.pid === undefined) ended(error.message) // it could not be started, and no 'exit' follows
    })
  }

  /** It ended: restart it, unless it is not wanted any more. */
  #after(how: string): void {
    if (!this.#wanted) {
      this.#stopped(how)
      return
    }
    const now = performance.now()
    const ranMs = now - (this.#runningSince ?? now)
    if (ranMs >= saidBackAfterMs) this.#lostAt = undefined
    if (how === lost) this.#lostAt ??= new Date()
    else this.#failToStart(how)
    if (!blameless.has(how) && this.#options.onFault?.()) {
      this.#wanted = false
      this.#change('stopped', undefined)
      return
    }
    const waitMs = waitAfter(this.#waitMs, how, ranMs)
    this.#waitMs = waitMs
    const level = how === lost ? 'debug' : 'warn' // it has said itself that the database is away
    this.#options.log[level]({name: this.name, how, restart_in_ms: waitMs}, 'a process ended; it is started again')
    this.#change('waiting', undefined)
    this.#timer = setTimeout(() => {
      this.restarts++
      restarts.inc({name: this.name})
      this.#launch()
    }, waitMs)
  }

  #stopped(how: string): void {
    this.#failToStart(how)
    this.#change('stopped', undefined)
  }

  #failToStart(how: string): void {
    const {logFile} = this.#options
    const where = logFile ? `; ${logFile} says why` : ''
    this.#first.reject(new Error(`${this.name} ended before it was ready (${how})${where}`))
  }

  #change(state: Child['state'], pid: number | undefined): void {
    this.state = state
    this.pid = pid
    up.set({name: this.name}, state === 'running' ? 1 : 0)
    this.#options.onChange()
  }

  /** Ends the running process, so that the next one starts with a new environment. */
  restart(graceMs: number): void {
    if (this.#process) void end(this.#process, graceMs)
  }

  /** Ends it for good: SIGTERM, and SIGKILL after the grace. */
  async stop(graceMs: number): Promise<void> {
    this.#wanted = false
    clearTimeout(this.#timer)
    if (this.#process) await end(this.#process, graceMs)
    else this.#stopped('it was stopped')
  }

  /** Ends it at once. */
  kill(): void {
    this.#wanted = false
    clearTimeout(this.#timer)
    if (this.#process) this.#process.kill('SIGKILL')
    else this.#stopped('it was stopped')
  }
}

async function end(child: ChildProcess, graceMs: number): Promise<void> {
  const timer = setTimeout(() => child.kill('SIGKILL'), graceMs)
  const exited = new Promise(resolve => child.once('exit', resolve))
  child.kill('SIGTERM')
  await exited
  clearTimeout(timer)
}
