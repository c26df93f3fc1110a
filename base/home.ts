// The files of one running service in SLUICE_HOME. Promises: service.json says how to reach the service; it is written
// whole or not at all, and only its owner can read it (it has the database password); one service at a time has the
// directory, and however it was killed, the next one can take it.
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {z} from 'zod'
import {PermanentError} from './errors.ts'
import {commandLine} from './process.ts'

const ChainFacts = z.object({
  /** Where its first source is, for people. */
  rpc_url: z.string(),
  local: z.boolean(),
  /** The variables with which another process reads it in the same way. */
  settings: z.record(z.string(), z.string()).default({}),
})
export type ChainFacts = z.infer<typeof ChainFacts>

const Service = z.object({
  pid: z.int(),
  started_at: z.iso.datetime(),
  /** False while its chains are not followed yet. */
  running: z.boolean().default(true),
  api_url: z.url(),
  /** Absent if the dashboard does not run here. */
  dashboard_url: z.url().optional(),
  database_url: z.string(),
  /** Whether webhooks may go to private addresses. */
  webhook_allow_private: z.boolean().default(false),
  /** Each chain that is followed, by its code. */
  chains: z.record(z.string(), ChainFacts),
})
export type Service = z.infer<typeof Service>

const Process = z.object({
  name: z.string(),
  pid: z.int().optional(),
  state: z.enum(['stopped', 'starting', 'running', 'waiting']),
  started_at: z.iso.datetime(),
  restarts: z.int(),
  /** Its command line, so that the pid can be trusted later. */
  command: z.string(),
})
export type Process = z.infer<typeof Process>

/**
 * How to reach the service of this directory, even if it was killed; undefined if none was started, or it was stopped.
 */
export function readService(home: string): Service | undefined {
  const text = readIfThere(path.join(home, 'service.json'))
  return text === undefined ? undefined : Service.parse(JSON.parse(text))
}

const startingTimeoutMs = 60_000

/**
 * The service that runs in this directory, once it can be reached: waits while one starts there. Undefined if none
 * runs.
 */
export async function awaitService(home: string): Promise<Service | undefined> {
  for (const deadline = Date.now() + startingTimeoutMs; ; await sleep(50)) {
    const service = readService(home)
    if (service && (await commandLine(service.pid)) !== undefined) return service
    if (!(await isHeld(home))) return undefined
    if (Date.now() > deadline) throw new PermanentError(`the service of ${home} is still starting; try again soon`)
  }
}

export function writeService(home: string, service: Service): void {
  writeWhole(path.join(home, 'service.json'), JSON.stringify(service, null, 2))
}

export function removeService(home: string): void {
  rmSync(path.join(home, 'service.json'), {force: true})
}

/** The processes of the service as its supervisor last saw them. */
export function readProcesses(home: string): Process[] {
  const text = readIfThere(path.join(home, 'processes.json'))
  return text === undefined ? [] : z.array(Process).parse(JSON.parse(text))
}

export function writeProcesses(home: string, processes: Process[]): void {
  writeWhole(path.join(home, 'processes.json'), JSON.stringify(processes, null, 2))
}

const Holder = z.object({pid: z.int(), command: z.string(), since: z.iso.datetime()})
type Holder = z.infer<typeof Holder>

/** Whether a service uses this directory: it runs, or is starting and cannot be reached yet. */
export async function isHeld(home: string): Promise<boolean> {
  return (await holderOf(path.join(home, 'lock.json'))) !== undefined
}

async function holderOf(lock: string): Promise<Holder | undefined> {
  const {data: holder} = Holder.safeParse(JSON.parse(readIfThere(lock) ?? 'null'))
  return holder && (await commandLine(holder.pid)) === holder.command ? holder : undefined
}

/**
 * Throws PermanentError for a directory with a seed in plain text, as versions before the first release made it.
 * Changes nothing.
 */
export function refuseOldHome(home: string): void {
  if (existsSync(path.join(home, 'seed')))
    throw new PermanentError(
      `${path.join(home, 'seed')} is the seed of a version of Sluice before its first release; this version cannot use it; set SLUICE_HOME to a new directory`,
    )
}

/**
 * Takes the directory for this process, until the returned function is called or the process ends in any way. If
 * another process has it, throws a PermanentError that names that process. (Two processes that find a dead holder in
 * the same instant may both take it; the port and the database then stop one of them.)
 */
export async function lockHome(home: string): Promise<() => void> {
  refuseOldHome(home)
  const lock = path.join(home, 'lock.json')
  const mine = path.join(home, `lock.${process.pid}.tmp`)
  const holder: Holder = {
    pid: process.pid,
    command: (await commandLine(process.pid)) ?? '',
    since: new Date().toISOString(),
  }
  makeDirectory(home)
  writeFileSync(mine, JSON.stringify(holder))
  try {
    while (!linked(mine, lock)) {
      const other = await holderOf(lock)
      // The file may have our own pid: a container's first process gets the same pid each time.
      if (other && other.pid !== process.pid)
        throw new PermanentError(
          `a service runs in ${home} already (pid ${other.pid}, since ${other.since}); stop it, or set SLUICE_HOME to another directory`,
        )
      rmSync(lock, {force: true})
    }
  } finally {
    rmSync(mine, {force: true})
  }
  return () => rmSync(lock, {force: true})
}

/**
 * Makes a directory of SLUICE_HOME, with those above it. Throws PermanentError if it cannot. (Node's recursive mkdir
 * never returns where the system says that a parent is missing although it is there, as below /proc.)
 */
export function makeDirectory(directory: string): void {
  const whole = path.resolve(directory)
  if (existsSync(whole) && !statSync(whole).isDirectory()) throw cannotMake(whole, 'a file has this name')
  if (existsSync(whole)) return
  makeDirectory(path.dirname(whole))
  try {
    mkdirSync(whole)
  } catch (error) {
    const {code} = error as NodeJS.ErrnoException
    if (code !== 'EEXIST') throw cannotMake(whole, `${path.dirname(whole)} takes no directory (${code})`)
  }
}

function cannotMake(directory: string, why: string): PermanentError {
  return new PermanentError(
    `the directory ${directory} cannot be made: ${why}; set SLUICE_HOME to a directory that this user may write to, such as SLUICE_HOME=.sluice`,
  )
}

/** Makes `name` another name of the file, unless there is a file of that name. */
function linked(file: string, name: string): boolean {
  try {
    linkSync(file, name)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** What a file holds; undefined if there is none. */
export function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Replaces a file by a rename, so that no reader ever sees a part of it. */
export function writeWhole(file: string, text: string, mode = 0o600): void {
  makeDirectory(path.dirname(file))
  const temporary = `${file}.${process.pid}.tmp`
  writeFileSync(temporary, text, {mode: 0o600})
  chmodSync(temporary, mode) // whatever the umask is
  renameSync(temporary, file)
}

/**
 * Where custody listens (a unix socket), and the token that it requires. Processes that may ask custody share this
 * directory with it.
 */
export function custodySocket(home: string): {socket: string; tokenFile: string} {
  const directory = path.join(path.resolve(home), 'run')
  return {socket: path.join(directory, 'custody.sock'), tokenFile: path.join(directory, 'custody.token')}
}

/**
 * Where the dashboard's pages listen: a unix socket. Only the process that signs people in may use it: both share this
 * directory.
 */
export function dashboardSocket(home: string): string {
  return path.join(path.resolve(home), 'dashboard', 'pages.sock')
}

/** The dashboard's secret, if npm start made it. Not in the directory of the socket, whose owner could replace it. */
export function dashboardSecretFile(home: string): string {
  return path.join(path.resolve(home), 'dashboard-secret')
}
