// An installation of docker-compose.yml as its guide makes it, in a folder of its own.
import {cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {z} from 'zod'
import {freePort} from '../../devnet/listen.ts'
import {until} from '../support/until.ts'
import type {Ended, Engine} from './engine.ts'

export const root = fileURLToPath(new URL('../..', import.meta.url))

const Container = z.object({
  Name: z.string(),
  Service: z.string(),
  State: z.string(),
  Health: z.string(),
  ExitCode: z.int(),
})
export type Container = z.infer<typeof Container>

interface Options {
  /** The compose files. */
  files: string[]
  /** The tree that they are of; by default this one. */
  tree?: string
  /** What is in .env, beside ports. */
  settings?: Record<string, string>
}

export class Installation {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'sluice-containers-'))
  readonly #engine: Engine
  readonly apiUrl: string
  readonly dashboardUrl: string

  private constructor(
    engine: Engine,
    {files, tree = root, settings = {}}: Options,
    [api, dashboard]: [number, number],
  ) {
    this.#engine = engine
    this.take(tree)
    mkdirSync(path.join(this.folder, 'secrets'))
    const all = {COMPOSE_FILE: files.join(':'), PORT: api, DASHBOARD_PORT: dashboard, ...settings}
    const lines = Object.entries(all).map(([name, value]) => `${name}=${value}\n`)
    writeFileSync(path.join(this.folder, '.env'), lines.join(''))
    this.apiUrl = `http://127.0.0.1:${api}`
    this.dashboardUrl = `http://127.0.0.1:${dashboard}`
  }

  static async make(engine: Engine, options: Options): Promise<Installation> {
    return new Installation(engine, options, [await freePort(), await freePort()])
  }

  /** Takes the compose files of a tree, in place of those that are there. */
  take(tree: string): void {
    for (const folder of [tree, path.join(tree, 'test/containers')])
      for (const name of readdirSync(folder).filter(each => each.startsWith('docker-compose')))
        cpSync(path.join(folder, name), path.join(this.folder, name))
    cpSync(path.join(tree, 'docker'), path.join(this.folder, 'docker'), {recursive: true})
  }

  /** docker compose ..., which must succeed. Resolves to what it printed. */
  async compose(...given: string[]): Promise<string> {
    const {code, stdout, stderr} = await this.tried(...given)
    if (code !== 0)
      throw new Error(`docker compose ${given.join(' ')}: exit code ${code}\n${stdout}${stderr}`.slice(-4000))
    return stdout
  }

  /** Starts these services, or all. What goes wrong is in the logs of migrate. */
  async start(...services: string[]): Promise<void> {
    await this.compose('up', '--detach', ...services).catch(async error => {
      throw new Error(`${error.message}\n${await this.compose('logs', '--tail', '20', 'migrate')}`)
    })
  }

  /** Starts all, and resolves when they are healthy. */
  async up(): Promise<void> {
    await this.start()
    await this.healthy()
  }

  /** docker compose ..., which may fail. */
  async tried(...given: string[]): Promise<Ended> {
    return await this.#engine.compose(this.folder, ...given)
  }

  /** sluice ... --json in the container for operators. */
  async cli(...given: string[]): Promise<unknown> {
    return JSON.parse(await this.compose('run', '--rm', 'cli', ...given, '--json'))
  }

  /** Of the services that are not only commands. */
  async containers(): Promise<Container[]> {
    const lines = (await this.compose('ps', '--all', '--format', 'json')).trim().split('\n')
    return lines.map(line => Container.parse(JSON.parse(line)))
  }

  /** Resolves when each container is healthy, or has ended well if it was to end. */
  async healthy(timeoutMs = 180_000): Promise<void> {
    const unwell = async () =>
      (await this.containers()).filter(
        ({Health, State, ExitCode}) => Health !== 'healthy' && !(State === 'exited' && ExitCode === 0),
      )
    const what = 'all containers to be healthy'
    await until(async () => (await unwell()).length === 0, {timeoutMs, intervalMs: 500, what}).catch(async error => {
      const names = (await unwell()).map(({Service}) => Service)
      throw new Error(`${error.message}; not healthy:\n${await this.compose('logs', '--tail', '20', ...names)}`)
    })
  }

  /** A program of this machine, in the folder, with this engine: one of docker/. Resolves to what it printed. */
  async program(file: string, ...given: string[]): Promise<string> {
    const {code, stdout, stderr} = await this.#engine.program(this.folder, file, given)
    if (code !== 0) throw new Error(`${file} ${given.join(' ')}: exit code ${code}\n${stdout}${stderr}`)
    return stdout.trim()
  }

  /** Writes a file of ./secrets. */
  setSecret(name: string, secret: string): void {
    writeFileSync(path.join(this.folder, 'secrets', name), `${secret}\n`)
  }

  /** A file of ./secrets. */
  secret(name: string): string {
    return readFileSync(path.join(this.folder, 'secrets', name), 'utf8').trim()
  }

  get secrets(): string[] {
    return readdirSync(path.join(this.folder, 'secrets'))
  }

  /** The address of this machine for the containers of a network. */
  async gateway(network: string): Promise<string> {
    const format = '{{(index .IPAM.Config 0).Gateway}}'
    return (await this.#engine.docker('network', 'inspect', `sluice_${network}`, '--format', format)).stdout.trim()
  }

  /** Ends everything, and deletes its data. */
  async remove(): Promise<void> {
    await this.compose('down', '--volumes', '--remove-orphans', '--timeout', '1')
    rmSync(this.folder, {recursive: true})
  }
}
