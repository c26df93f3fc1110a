// Common parts of the engines of all local chains: a child process that executes blocks and has no data that is not in
// the journal. Promises: it never outlives the next start (its pid is on disk before it runs), nor the process that
// started it.
import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import {readFile, rm} from 'node:fs/promises'
import path from 'node:path'
import {commandLine, signal} from '../base/process.ts'

/** A JSON-RPC error. */
export class RpcError extends Error {
  override name = 'RpcError'
  readonly code: number
  readonly data: unknown

  constructor({code, message, data}: {code: number; message: string; data?: unknown}) {
    super(message)
    this.code = code
    this.data = data
  }
}

/** The engine died, hangs, or was killed. */
export class EngineGone extends Error {
  override name = 'EngineGone'
}

/** The process of an engine. */
export abstract class Engine {
  readonly #child: ChildProcess

  constructor(child: ChildProcess) {
    this.#child = child
  }

  get alive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Calls `listener` once when the process has ended. */
  onExit(listener: () => void): void {
    this.#child.once('exit', listener)
  }

  /** Kills the process at once; the journal has all its data. */
  async kill(): Promise<void> {
    await this.end('SIGKILL')
  }

  protected async end(signal: NodeJS.Signals): Promise<void> {
    if (!this.alive) return
    const exited = once(this.#child, 'exit')
    this.#child.kill(signal)
    await exited
  }
}

/** Runs changes of a chain one after the other. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve()

  /** Runs the work after all earlier work. */
  async take<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.catch(() => {}).then(work)
    this.#last = result
    return await result
  }

  /** Resolves when all earlier work is done, or failed. */
  async over(): Promise<void> {
    await this.#last.catch(() => {})
  }
}

export interface Program {
  /** Its pid is in `name`.pid of the chain's directory. */
  name: string
  /** A unique part of its command line: a path in the chain's directory. */
  mark: string
  command: string[]
  environment?: NodeJS.ProcessEnv
}

/** Starts an engine, after killing one that a dead process left behind. */
export async function startEngine(
  directory: string,
  {name, mark, command, environment}: Program,
): Promise<ChildProcess> {
  await killLeftover(directory, {name, mark})
  const child = spawn('/bin/sh', ['-c', 'echo $$ >"$0" && exec "$@"', pidFile(directory, name), ...command], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: environment ?? process.env,
  })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  child.once('close', () => process.removeListener('exit', kill))
  return child
}

/** Kills the engine of a process that was killed; another program that has its pid now is left alone. */
export async function killLeftover(directory: string, {name, mark}: {name: string; mark: string}): Promise<void> {
  const pid = Number(await readFile(pidFile(directory, name), 'utf8').catch(() => ''))
  if (pid > 0 && (await commandLine(pid))?.includes(mark)) signal(pid, 'SIGKILL')
  await rm(pidFile(directory, name), {force: true})
}

function pidFile(directory: string, name: string): string {
  return path.join(directory, `${name}.pid`)
}
