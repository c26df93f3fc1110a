// A Docker engine of its own, for tests: nothing of this machine's containers is seen or touched. It needs root, and
// the folder that install-engine made.
import {type ChildProcess, execFile, spawn} from 'node:child_process'
import {once} from 'node:events'
import {createWriteStream, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {until} from '../support/until.ts'

const run = promisify(execFile)
const longMs = 600_000

export interface Ended {
  code: number
  stdout: string
  stderr: string
}

export class Engine {
  readonly #programs: string
  readonly #compose: string
  readonly #folder: string
  readonly #process: ChildProcess

  private constructor(programs: string, compose: string, folder: string, process_: ChildProcess) {
    this.#programs = programs
    this.#compose = compose
    this.#folder = folder
    this.#process = process_
  }

  /** Why there can be none here; undefined if there can be. */
  static whyNot(): string | undefined {
    if (process.getuid?.() !== 0) return 'it needs root'
    if (!existsSync(`${process.env.DOCKER_ENGINE}/dockerd`))
      return 'set DOCKER_ENGINE to a folder of test/containers/install-engine'
    if (!process.env.DOCKER_COMPOSE_BIN) return 'set DOCKER_COMPOSE_BIN to docker-compose'
    return undefined
  }

  static async start(): Promise<Engine> {
    const programs = process.env.DOCKER_ENGINE!
    const folder = mkdtempSync(path.join(tmpdir(), 'sluice-engine-'))
    const log = createWriteStream(path.join(folder, 'log'))
    await once(log, 'open')
    const given = ['--data-root', 'data', '--exec-root', 'exec', '--pidfile', 'pid', '--host', 'socket']
    const dockerd = spawn(
      path.join(programs, 'dockerd'),
      given.map(word =>
        word.startsWith('--') ? word : `${word === 'socket' ? 'unix://' : ''}${path.join(folder, word)}`,
      ),
      {stdio: ['ignore', log, log]},
    )
    const engine = new Engine(programs, process.env.DOCKER_COMPOSE_BIN!, folder, dockerd)
    const isUp = async () => (dockerd.exitCode !== null ? 'ended' : (await engine.docker('info')).code === 0)
    const up = await until(isUp, {timeoutMs: 60_000, what: 'the engine to start'}).catch(() => false)
    if (up !== true)
      throw new Error(`the engine did not start:\n${readFileSync(path.join(folder, 'log'), 'utf8').slice(-4000)}`)
    return engine
  }

  get #environment(): NodeJS.ProcessEnv {
    const plugins = path.join(this.#folder, 'client', 'cli-plugins') // docker compose is a program of the client there
    if (!existsSync(plugins)) {
      mkdirSync(plugins, {recursive: true})
      symlinkSync(this.#compose, path.join(plugins, 'docker-compose'))
    }
    return {
      ...process.env,
      PATH: `${this.#programs}:${process.env.PATH}`,
      DOCKER_HOST: `unix://${path.join(this.#folder, 'socket')}`,
      DOCKER_CONFIG: path.dirname(plugins),
    }
  }

  /** Makes what stands in for published images. */
  async standIns(...images: string[]): Promise<void> {
    const script = fileURLToPath(new URL('base-images', import.meta.url))
    await this.#succeeds(script, [this.#programs, ...images])
  }

  async docker(...given: string[]): Promise<Ended> {
    return await this.#run(path.join(this.#programs, 'docker'), given)
  }

  /** docker compose, in a folder. */
  async compose(folder: string, ...given: string[]): Promise<Ended> {
    return await this.#run(this.#compose, given, folder)
  }

  /** Runs a program that calls docker and docker compose, as an operator's script does. */
  async program(folder: string, file: string, given: string[]): Promise<Ended> {
    return await this.#run(file, given, folder)
  }

  /** The image of a Dockerfile's target. */
  async build(context: string, target: string, image: string): Promise<void> {
    await this.#succeeds(path.join(this.#programs, 'docker'), [
      'build',
      '--quiet',
      '--target',
      target,
      '--tag',
      image,
      context,
    ])
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode === null) {
      this.#process.kill('SIGTERM')
      await once(this.#process, 'exit')
    }
    rmSync(this.#folder, {recursive: true, force: true, maxRetries: 40, retryDelay: 250}) // what was mounted there is let go late
  }

  async #succeeds(program: string, given: string[]): Promise<void> {
    const {code, stdout, stderr} = await this.#run(program, given)
    if (code !== 0)
      throw new Error(`${path.basename(program)} ${given.join(' ')}:\n${`${stdout}${stderr}`.slice(-4000)}`)
  }

  async #run(program: string, given: string[], cwd?: string): Promise<Ended> {
    const options = {cwd, env: {...this.#environment, DOCKER_BUILDKIT: '1'}, timeout: longMs, maxBuffer: 2 ** 26}
    return await run(program, given, options).then(
      ({stdout, stderr}) => ({code: 0, stdout, stderr}),
      ({code, stdout, stderr, message}) => ({code: code ?? 1, stdout: stdout ?? '', stderr: stderr || message}),
    )
  }
}
