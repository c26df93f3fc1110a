// The services of docker-compose.yml without containers: each of ours runs as a process with the command, environment, secrets and
// volumes of the file, in a folder with the files that .dockerignore lets into the image. Differences: host names and ports
// (all processes share this machine), the user, and a writable root file system.
import {type ChildProcess, execFile, execFileSync, spawn} from 'node:child_process'
import {once} from 'node:events'
import {cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {freePort} from '../../devnet/listen.ts'
import {type ComposeService, readCompose} from '../support/compose.ts'
import {until} from '../support/until.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const threshold = {timeoutMs: 90_000, intervalMs: 500}
const homeInContainer = '/var/lib/sluice'

export interface Ended {
  code: number | null
  output: string
}

/** A process that replaces a container. */
class Container {
  readonly #process: ChildProcess
  #output = ''

  constructor(process_: ChildProcess) {
    this.#process = process_
    for (const stream of [process_.stdout, process_.stderr])
      stream?.on('data', chunk => {
        this.#output += chunk
      })
  }

  get output(): string {
    return this.#output
  }

  get hasEnded(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null
  }

  /** Resolves when it has ended. */
  async ended(): Promise<Ended> {
    if (!this.hasEnded) await once(this.#process, 'close')
    return {code: this.#process.exitCode, output: this.#output}
  }

  /** Like `docker stop`, without a time limit. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<Ended> {
    if (!this.hasEnded) this.#process.kill(signal)
    return await this.ended()
  }
}

export class Containers {
  readonly #folder = mkdtempSync(path.join(tmpdir(), 'sluice-c-')) // short: the paths of sockets must be
  readonly #services: Record<string, ComposeService>
  readonly #dotEnv: Record<string, string>
  readonly #containers = new Map<string, Container>()
  /** Including those of `run`. */
  readonly #all: Container[] = []
  readonly #ports = new Map<string, {api: number; metrics: number}>()

  /**
   * Makes the secrets like setup, except those in `given`, and points the processes to the real address of the database `postgres`.
   * `dotEnv` is the content of the file .env.
   */
  constructor({
    dotEnv,
    given,
    postgres,
  }: {dotEnv: Record<string, string>; given: Record<string, string>; postgres: URL}) {
    this.#dotEnv = dotEnv
    this.#services = readCompose(dotEnv).services
    const passing = readFileSync(path.join(root, '.dockerignore'), 'utf8').matchAll(/^!(.+)$/gm)
    for (const [, name] of passing) cpSync(path.join(root, name!), path.join(this.#image, name!), {recursive: true})
    symlinkSync(path.join(root, 'node_modules'), path.join(this.#image, 'node_modules'))
    mkdirSync(this.#secrets)
    for (const [name, secret] of Object.entries(given)) writeFileSync(path.join(this.#secrets, name), `${secret}\n`)
    const [program, script, folder] = this.#services.setup!.command
    if (program !== 'node' || folder !== '/secrets') throw new Error('setup is called in another way than this knows')
    execFileSync(process.execPath, [script!, this.#secrets], {cwd: this.#image})
    for (const name of readdirSync(this.#secrets)) {
      const file = path.join(this.#secrets, name)
      writeFileSync(
        file,
        readFileSync(file, 'utf8').replace('@postgres:5432/sluice', `@${postgres.host}${postgres.pathname}`),
      )
    }
  }

  get #image(): string {
    return path.join(this.#folder, 'image')
  }

  get #secrets(): string {
    return path.join(this.#folder, 'secrets')
  }

  /** The SLUICE_HOME of a service. */
  home(name: string): string {
    return path.join(this.#folder, name)
  }

  async apiUrl(): Promise<string> {
    return `http://127.0.0.1:${(await this.#portsOf('api')).api}`
  }

  /** docker compose up NAME. */
  async up(name: string): Promise<Container> {
    const container = await this.#spawn(name, [])
    this.#containers.set(name, container)
    return container
  }

  /** docker compose run --rm NAME ... */
  async run(name: string, ...given: string[]): Promise<Ended> {
    return await (await this.#spawn(name, given)).ended()
  }

  /** Waits until the healthcheck of a service passes. If it never does, rejects with the output of its process. */
  async healthy(name: string): Promise<void> {
    const container = this.#containers.get(name)!
    const [how, program, ...given] = await this.#translate(name, this.#services[name]!.healthcheck!.test)
    if (how !== 'CMD' || program !== 'node')
      throw new Error(`the healthcheck of ${name} is of a kind that is not known here`)
    const check = () =>
      new Promise<boolean>(resolve => {
        execFile(process.execPath, given, {cwd: this.#image}, error => resolve(!error))
      })
    const what = `${name} to be healthy`
    const well = await until(async () => (container.hasEnded ? 'ended' : await check()), {...threshold, what}).catch(
      () => false,
    )
    if (well !== true) throw new Error(`${name} did not become healthy:\n${container.output}`)
  }

  /** Stops all of them, each within its stop period, and removes their files. Resolves to the exit codes. */
  async down(): Promise<Record<string, number | null>> {
    const codes = [...this.#containers].map(async ([name, container]) => {
      const grace = Number.parseInt(this.#services[name]!.stop_grace_period, 10) * 1000
      const timer = setTimeout(() => void container.stop('SIGKILL'), grace)
      const {code} = await container.stop()
      clearTimeout(timer)
      return [name, code] as const
    })
    const all = Object.fromEntries(await Promise.all(codes))
    await Promise.all(this.#all.map(container => container.stop('SIGKILL')))
    rmSync(this.#folder, {recursive: true, force: true})
    return all
  }

  async #spawn(name: string, given: string[]): Promise<Container> {
    const {entrypoint, command, environment, volumes} = this.#services[name]!
    this.#mount(name, volumes)
    const words = [...entrypoint, ...(given.length ? given : command)]
    const [program, ...more] = await this.#translate(name, words)
    const values = await this.#translate(name, Object.values(environment))
    const own = Object.fromEntries(Object.keys(environment).map((key, index) => [key, values[index]!]))
    const ours = program === 'sluice' ? ['cli/main.ts', ...more] : more
    if (program !== 'sluice' && program !== 'node') throw new Error(`the image has no program ${program}`)
    const env = {PATH: process.env.PATH, LOG_LEVEL: 'info', ...this.#dotEnv, ...own}
    const container = new Container(
      spawn(process.execPath, ours, {cwd: this.#image, env, stdio: ['ignore', 'pipe', 'pipe']}),
    )
    this.#all.push(container)
    return container
  }

  /** A volume is a folder; its mount point below SLUICE_HOME is a link to it. */
  #mount(name: string, volumes: string[]): void {
    const home = this.home(name)
    for (const [volume, target] of volumes.map(each => each.split(':') as [string, string])) {
      const folder = path.join(this.#folder, `${volume}.volume`)
      mkdirSync(folder, {recursive: true})
      link(folder, home + target.slice(homeInContainer.length))
    }
    mkdirSync(home, {recursive: true})
  }

  /** Maps paths and ports of a container to those on this machine. */
  async #translate(name: string, words: string[]): Promise<string[]> {
    const {api, metrics} = await this.#portsOf(name)
    return words.map(word =>
      word
        .replace('/run/secrets', this.#secrets)
        .replace(homeInContainer, this.home(name))
        .replace('0.0.0.0', '127.0.0.1')
        .replace(/(?<=^|:)9464\b/, String(metrics))
        .replace(/(?<=^|:)8080\b/, String(api)),
    )
  }

  async #portsOf(name: string): Promise<{api: number; metrics: number}> {
    const known = this.#ports.get(name)
    if (known) return known
    const ports = {api: await freePort(), metrics: await freePort()}
    this.#ports.set(name, ports)
    return ports
  }
}

function link(folder: string, name: string): void {
  mkdirSync(path.dirname(name), {recursive: true})
  try {
    symlinkSync(folder, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
