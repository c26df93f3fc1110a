// A whole service as npm start runs it, in its own SLUICE_HOME, and the command line that operates it. removeHome ends
// what still runs.
import {type ChildProcess, execFile, spawn} from 'node:child_process'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {readService, type Service} from '../../base/home.ts'
import packageJson from '../../package.json' with {type: 'json'}
import {until} from './until.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const startTimeoutMs = 180_000
/** The program and options of npm start, with absolute paths, so that any directory will do. */
export const [, , ...programAndOptions] = packageJson.scripts.start
  .split(' ')
  .map(part => (part.endsWith('.ts') ? path.join(root, part) : part))

export interface Started {
  child: ChildProcess
  output(): string
}

/** Two processes, of which one takes long to start. */
export const withoutDashboard = ['--without', 'dashboard-auth,dashboard-pages']

export function spawnService(home: string, port = 0, more: NodeJS.ProcessEnv = {}, given: string[] = []): Started {
  let said = ''
  const child = spawn(process.execPath, [...programAndOptions, ...given], {
    cwd: tmpdir(),
    env: {
      ...process.env,
      SLUICE_HOME: home,
      PORT: String(port),
      DASHBOARD_PORT: '0',
      ADDRESS_POOL_SIZE: '5',
      npm_lifecycle_event: undefined,
      ...more,
    },
  })
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', chunk => {
      said += chunk
    })
  return {child, output: () => said}
}

/**
 * Starts the service of a home and waits until it reports that it runs. On a machine that is too busy it tries again.
 */
export async function start(
  home: string,
  more?: NodeJS.ProcessEnv,
  given?: string[],
): Promise<Started & {service: Service}> {
  const starting = spawnService(home, 0, more, given)
  const service = await until(
    async () => {
      if (starting.child.exitCode !== null) return 'ended' as const
      const found = readService(home)
      return found?.running && found.pid === starting.child.pid && found
    },
    {timeoutMs: startTimeoutMs, what: 'service.json'},
  )
  if (service === 'ended') throw new Error(`the service ended:\n${starting.output()}`)
  return {...starting, service}
}

export async function ended(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode
  return await new Promise(resolve => child.once('exit', resolve))
}

/** The output of the command line with --json. Rejects if it fails. */
// biome-ignore lint/suspicious/noExplicitAny: the tests say what they expect of it
export async function sluice(home: string, ...given: string[]): Promise<any> {
  return await sluiceWith({}, home, ...given)
}

/** The same, with more settings. */
// biome-ignore lint/suspicious/noExplicitAny: as above
export async function sluiceWith(more: NodeJS.ProcessEnv, home: string, ...given: string[]): Promise<any> {
  const running = promisify(execFile)(process.execPath, [path.join(root, 'cli/main.ts'), ...given, '--json'], {
    cwd: tmpdir(),
    env: {...process.env, ...more, SLUICE_HOME: home},
  })
  const {stdout} = await running.catch(error => {
    throw new Error(`sluice ${given.join(' ')}: ${error.stdout}${error.stderr}`)
  })
  return JSON.parse(stdout)
}
