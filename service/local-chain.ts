// A local chain, for a chain that has no node. Promises: the chain's process outlives this one, unless it is stopped,
// and the next supervisor adopts it; when it dies it is restarted. It is reached only by its path and its devnet.json:
// production imports nothing of devnet/.
import {spawn} from 'node:child_process'
import {closeSync, mkdirSync, openSync, readFileSync} from 'node:fs'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import type {Logger} from '../base/log.ts'
import {commandLine, signal} from '../base/process.ts'
import type {Chain, ChainCode} from '../chains/registry.ts'
import {nodeOptions} from './child.ts'
import {fund, LocalNode, responses} from './local-node.ts'
import {compileCache} from './users.ts'

const module = fileURLToPath(new URL('../devnet/main.ts', import.meta.url))
/** Long, because bcoin reads every block of its chain again. */
const readyTimeoutMs = 300_000
const watchIntervalMs = 2000
const longestWaitMs = 30_000

export class LocalChain {
  readonly chain: ChainCode
  readonly #directory: string
  readonly #logFile: string
  readonly #compileCache: NodeJS.ProcessEnv
  readonly #log: Logger
  #now: LocalNode | undefined
  #watching: Promise<void> | undefined
  readonly #stopping = new AbortController()

  constructor({chain, home, log}: {chain: Chain; home: string; log: Logger}) {
    const name = chain.code.toLowerCase()
    this.chain = chain.code
    this.#directory = path.join(home, 'devnet', name)
    this.#logFile = path.join(home, 'logs', `devnet-${name}.log`)
    this.#compileCache = compileCache(home, 'devnet')
    this.#log = log
  }

  /** The URL of its node, once start() has resolved. */
  get url(): string {
    return this.#serving().url
  }

  #serving(): LocalNode {
    if (!this.#now) throw new Error(`the local ${this.chain} chain was not started`)
    return this.#now
  }

  /** Starts its process, or finds it running. Rejects, with the file that says why, if it does not serve in time. */
  async start(): Promise<void> {
    const running = await this.#find()
    const adopted = running && (await responses(running))
    if (running && !adopted) {
      killGroup(running.pid)
      while (await this.#isAlive(running)) await sleep(25)
    }
    this.#now = adopted ? running : await this.#launch()
  }

  /** Starts it again whenever it dies; `moved` is called when it came back on another port. */
  watch(moved: () => void): void {
    this.#watching = this.#watch(moved).catch(error => {
      if (!this.#stopping.signal.aborted) throw error
    })
  }

  async #watch(moved: () => void): Promise<void> {
    const {signal} = this.#stopping
    for (let waitMs = watchIntervalMs; ; ) {
      await sleep(waitMs, undefined, {signal})
      if (await this.#isAlive(this.#serving())) {
        waitMs = watchIntervalMs
        continue
      }
      const before = JSON.stringify(this.environment())
      this.#log.warn({chain: this.chain}, 'the local chain ended; it is started again')
      try {
        await this.start()
        if (JSON.stringify(this.environment()) !== before) moved()
      } catch (error) {
        waitMs = Math.min(waitMs * 2, longestWaitMs)
        this.#log.error({chain: this.chain, error: (error as Error).message}, 'the local chain could not be started')
      }
    }
  }

  /** The settings that identify this chain and its contracts; signatures are bound to them. */
  identity(): Record<string, string> {
    return this.#serving().identity
  }

  /** The settings with which this chain is followed, from its first block on, and sent to. */
  environment(): Record<string, string> {
    return {...this.identity(), ...this.#serving().source, [`${this.chain}_START_HEIGHT`]: '1'}
  }

  /**
   * Sends 100 coins to an address that has none. If the node does not respond, that is logged: the service also runs
   * without them.
   */
  async fund(address: string): Promise<void> {
    try {
      if (await fund(this.#serving(), address))
        this.#log.info({chain: this.chain, address}, 'the treasury got its first coins')
    } catch (error) {
      this.#log.warn(
        {chain: this.chain, error: (error as Error).message},
        'the treasury got no coins; payouts of the chain may wait for them',
      )
    }
  }

  /** Stops it: SIGTERM, and SIGKILL to all of its group after the grace. Its state is safe either way. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort()
    await this.#watching
    const running = await this.#find()
    if (!running) return
    signal(running.pid, 'SIGTERM')
    for (const deadline = Date.now() + graceMs; Date.now() < deadline; await sleep(25))
      if (!(await this.#isAlive(running))) return
    this.kill()
  }

  /** Ends it at once. */
  kill(): void {
    this.#stopping.abort()
    if (this.#now) killGroup(this.#now.pid)
  }

  async #find(): Promise<LocalNode | undefined> {
    try {
      const written = readFileSync(path.join(this.#directory, 'devnet.json'), 'utf8')
      const found = LocalNode.parse(JSON.parse(written))
      return (await this.#isAlive(found)) ? found : undefined
    } catch {
      return undefined // not there, or not whole
    }
  }

  async #isAlive({pid}: {pid: number}): Promise<boolean> {
    return `${await commandLine(pid)} `.includes(` --dir ${this.#directory} `)
  }

  async #launch(): Promise<LocalNode> {
    mkdirSync(path.dirname(this.#logFile), {recursive: true})
    const output = openSync(this.#logFile, 'a', 0o600)
    const child = spawn(process.execPath, [...nodeOptions, module, '--chain', this.chain, '--dir', this.#directory], {
      detached: true, // a group of its own: Ctrl-C in the terminal is for the supervisor alone
      stdio: ['ignore', output, output],
      cwd: '/',
      env: {...process.env, ...this.#compileCache},
    })
    closeSync(output)
    child.unref()
    let ended: string | undefined
    child.once('error', error => {
      ended = error.message
    })
    child.once('exit', (code, signal) => {
      ended = signal ?? `exit code ${code}`
    })
    for (const deadline = Date.now() + readyTimeoutMs; Date.now() < deadline; await sleep(25)) {
      const had = ended // read before the file: a process ends, too, if another one already serves the chain
      if (this.#stopping.signal.aborted) break
      const found = await this.#find()
      if (found) return found
      if (had) throw new Error(`the local ${this.chain} chain did not start (${had}); see ${this.#logFile}`)
    }
    if (child.pid) killGroup(child.pid)
    throw new Error(
      `the local ${this.chain} chain was not ready after ${readyTimeoutMs / 1000} s; see ${this.#logFile}`,
    )
  }
}

/** Ends a process that was started detached, and all that it started in its group: the node. */
function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {} // it is gone
}
