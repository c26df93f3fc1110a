// The users that the processes of npm start run as. Promises: if the supervisor is root, custody, the jobs, the API,
// the indexers, the dashboard's sign-in and its pages have one user each, none of them root: none can read another's
// memory, environment or files, and only custody can read the seed's files; only the jobs share a group with custody,
// for its socket and its token, and only the sign-in one with the pages, for their socket. If the supervisor is not
// root, or such users could not reach the program or SLUICE_HOME, all processes run as the supervisor's user, and the
// reason is logged: code that runs in one of them can then read the seed.
import {execFile} from 'node:child_process'
import {chmodSync, chownSync, lchownSync, lstatSync, mkdirSync, readdirSync, readFileSync, realpathSync} from 'node:fs'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {custodySocket, dashboardSocket} from '../base/home.ts'
import {settingNames} from '../chains/settings.ts'
import type {Role} from '../db/migrate/migrate.ts'

export interface User {
  uid: number
  gid: number
}

const root = fileURLToPath(new URL('..', import.meta.url))
const run = promisify(execFile)

/** Numbers that Debian's policy assigns to no user. If there is a user of this name, its number is used instead. */
const users = {
  sluice_custody: 59021,
  sluice_jobs: 59022,
  sluice_api: 59023,
  sluice_indexer: 59024,
  sluice_auth: 59025,
  sluice_dashboard: 59026,
} as const
export type ProcessRole = keyof typeof users & Role

export type Users = Record<ProcessRole, User>

/** The user of each process; or a text that says why all have the same user. */
export async function findUsers(home: string): Promise<Users | string> {
  if (process.getuid?.() !== 0) return 'the service was not started by root'
  const roles = Object.keys(users) as ProcessRole[]
  const uids = await Promise.all(roles.map(uidOf))
  const taken = roles.find((_, i) => uids[i] === undefined)
  if (taken) return `user number ${users[taken]} belongs to another user; make a user ${nameOf(taken)}`
  const uid = (role: ProcessRole) => uids[roles.indexOf(role)]!
  const found = Object.fromEntries(roles.map(role => [role, {uid: uid(role), gid: uid(role)}])) as Users
  found.sluice_jobs.gid = found.sluice_custody.gid
  found.sluice_auth.gid = found.sluice_dashboard.gid
  const reached = await Promise.all(
    roles.map(role =>
      run(
        '/bin/sh',
        ['-c', 'cd "$1" && test -x "$2" && cd "$3" && test -r package.json', 'sh', home, process.execPath, root],
        {
          ...found[role],
          cwd: '/',
        },
      ).then(
        () => true,
        () => false,
      ),
    ),
  )
  if (reached.includes(false)) return `other users than root cannot read ${root} or enter ${home}`
  return found
}

const nameOf = (role: ProcessRole) => role.replace('_', '-')

/** Undefined if the number belongs to another user. */
async function uidOf(role: ProcessRole): Promise<number | undefined> {
  const named = await run('id', ['-u', nameOf(role)]).catch(() => undefined)
  if (named) return Number(named.stdout)
  const isTaken = await run('id', [String(users[role])]).catch(() => undefined)
  return isTaken ? undefined : users[role]
}

/**
 * What Node made of the modules of a process: from its second start on, it starts faster, and takes some 15 MB less.
 * Each role has its own, because whoever writes here decides what the process does; so NODE_COMPILE_CACHE, if it is
 * set, must name a directory in which others cannot write. May be deleted at any time.
 */
const compiledDirectory = (home: string, role: ProcessRole | 'devnet'): string => path.join(home, 'compiled', role)

/** The variable by which Node finds it. */
export const compileCache = (...of: Parameters<typeof compiledDirectory>): {NODE_COMPILE_CACHE: string} => ({
  NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? compiledDirectory(...of),
})

/** Directories that processes write to. A group that reaches a socket may enter, and no more. */
const directories = (home: string): Partial<Record<ProcessRole, [directory: string, mode: number][]>> => ({
  sluice_custody: [
    [path.join(home, 'custody'), 0o700],
    [path.dirname(custodySocket(home).socket), 0o750],
  ],
  sluice_dashboard: [[path.dirname(dashboardSocket(home)), 0o750]],
})

/** Gives a process its directories, with all files that root wrote there. No link in them is followed. */
export function giveDirectories(home: string, role: ProcessRole, {uid, gid}: User): void {
  for (const [directory, mode] of directories(home)[role] ?? []) {
    mkdirSync(directory, {recursive: true})
    const real = realpathSync(directory) // it may be on another disk
    chownSync(real, uid, gid)
    giveAll(real, {uid, gid})
    chmodSync(directory, mode)
  }
  const compiled = compiledDirectory(home, role) // what is in it was never root's
  mkdirSync(compiled, {recursive: true})
  chmodSync(path.dirname(compiled), 0o755)
  chownSync(compiled, uid, gid)
  chmodSync(compiled, 0o700)
}

function giveAll(directory: string, {uid, gid}: User): void {
  for (const name of readdirSync(directory)) {
    const entry = path.join(directory, name)
    lchownSync(entry, uid, gid)
    if (lstatSync(entry).isDirectory()) giveAll(entry, {uid, gid})
  }
}

/** The environment for a user who cannot read the files that its variables name: has the files' contents instead. */
export function withFilesRead(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const read = {...environment}
  for (const name of settingNames()) {
    const file = name.endsWith('_FILE') && environment[name]
    const variable = name.slice(0, -'_FILE'.length)
    if (!file || environment[variable]) continue // if both are set, the variable counts, or the process refuses them
    try {
      read[variable] = readFileSync(file, 'utf8').trim()
      read[name] = ''
    } catch {} // the process reports the file and the reason itself
  }
  return read
}
