// What a PostgreSQL server of our own needs of the machine: a user, files that are its own, and a free port.
import {execFile} from 'node:child_process'
import {access, chown, open, readdir} from 'node:fs/promises'
import {type AddressInfo, createServer} from 'node:net'
import path from 'node:path'
import {promisify} from 'node:util'

export const run = promisify(execFile)

/** Where root stores what the server's unprivileged user could not reach below `dir`. */
export const systemDirectory = '/var/lib/sluice'

/** The user that the server's processes run as; empty if it is our own. */
export type User = {uid?: number; gid?: number}

export function environment(): NodeJS.ProcessEnv {
  return {PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC'}
}

export async function canEnter(directory: string, user: User): Promise<boolean> {
  return await run('/bin/sh', ['-c', 'cd "$1"', 'sh', directory], {...user, cwd: '/'}).then(
    () => true,
    () => false,
  )
}

export async function own(file: string, {uid, gid}: User): Promise<void> {
  if (uid !== undefined && gid !== undefined) await chown(file, uid, gid)
}

export async function ownTree(directory: string, user: User): Promise<void> {
  if (user.uid === undefined) return
  await own(directory, user)
  for (const entry of await readdir(directory, {withFileTypes: true, recursive: true}))
    await own(path.join(entry.parentPath, entry.name), user)
}

export async function writeDurably(file: string, content: string): Promise<void> {
  const handle = await open(file, 'w', 0o600)
  try {
    await handle.writeFile(content)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export async function exists(file: string, mode?: number): Promise<boolean> {
  return await access(file, mode).then(
    () => true,
    () => false,
  )
}

export function ignore(code: string): (error: NodeJS.ErrnoException) => undefined {
  return error => {
    if (error.code !== code) throw error
    return undefined
  }
}

export async function isFree(port: number): Promise<boolean> {
  return (await listenOnce(port)) !== undefined
}

export async function freePort(): Promise<number> {
  const port = await listenOnce(0)
  if (port === undefined) throw new Error('this machine has no free port on 127.0.0.1')
  return port
}

async function listenOnce(port: number): Promise<number | undefined> {
  const server = createServer()
  return await new Promise(resolve => {
    server.once('error', () => resolve(undefined))
    server.listen(port, '127.0.0.1', () => {
      const {port: bound} = server.address() as AddressInfo
      server.close(() => resolve(bound))
    })
  })
}

/** PostgreSQL refuses to run as root; it then runs as `postgres`, else as `nobody`. */
export async function serverUser(): Promise<User> {
  if (process.getuid?.() !== 0) return {}
  for (const name of ['postgres', 'nobody']) {
    const ids = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])]).catch(() => undefined)
    if (ids) return {uid: Number(ids[0].stdout), gid: Number(ids[1].stdout)}
  }
  throw new Error(
    'PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody`; set DATABASE_URL',
  )
}
