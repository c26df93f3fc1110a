// postgres.json: the port, the password and the data directory of the server that belongs to a directory. Promises:
// what is there is never replaced by less; a data directory whose password is lost is not taken for a new one.
import {createHash, randomBytes} from 'node:crypto'
import {readFile, rename} from 'node:fs/promises'
import path from 'node:path'
import {z} from 'zod'
import {canEnter, exists, freePort, ignore, systemDirectory, type User, writeDurably} from './machine.ts'

const Cluster = z.object({
  port: z.int().min(1).max(65535),
  password: z.string().min(1),
  /** While the password is changed: the password that the server accepts now, or soon. */
  next_password: z.string().optional(),
  data_directory: z.string(),
})
export type Cluster = z.infer<typeof Cluster>

export async function readCluster(home: string, user: User): Promise<Cluster> {
  const file = path.join(home, 'postgres.json')
  const text = await readFile(file, 'utf8').catch(ignore('ENOENT'))
  if (text === undefined) return await newCluster(home, user)
  try {
    return Cluster.parse(JSON.parse(text))
  } catch (cause) {
    throw new Error(`${file} holds the database's port and password and cannot be read; restore it from a copy`, {
      cause,
    })
  }
}

export async function newCluster(home: string, user: User, password = newPassword()): Promise<Cluster> {
  const inHome = path.join(home, 'data')
  if (await exists(inHome))
    throw new Error(`${inHome} exists without ${home}/postgres.json, which holds its password; restore that file`)
  // A name never used before: if `dir` was removed, a new cluster is wanted, and the old one may still hold records of
  // money.
  const name = `${createHash('sha256').update(home).digest('hex').slice(0, 16)}-${randomBytes(4).toString('hex')}`
  const dataDirectory = (await canEnter(home, user)) ? inHome : path.join(systemDirectory, name, 'data')
  const cluster = {port: await freePort(), password, data_directory: dataDirectory}
  await writeCluster(home, cluster)
  return cluster
}

export const newPassword = () => randomBytes(24).toString('hex')

export async function writeCluster(home: string, cluster: Cluster): Promise<void> {
  const file = path.join(home, 'postgres.json')
  await writeDurably(`${file}.new`, `${JSON.stringify(cluster, null, 2)}\n`)
  await rename(`${file}.new`, file)
}

export function urlOf(cluster: Cluster, database: string): string {
  return `postgres://sluice:${cluster.password}@127.0.0.1:${cluster.port}/${database}`
}

/** The password of the cluster in `dir`, and the address of its server; undefined if there is none. */
export async function findCluster(dir: string): Promise<{port: number; password: string} | undefined> {
  const text = await readFile(path.join(dir, 'postgres.json'), 'utf8').catch(ignore('ENOENT'))
  return text === undefined ? undefined : Cluster.parse(JSON.parse(text))
}
