// A file-by-file copy of a running cluster on this machine, while it is written to: the equivalent of pg_basebackup,
// which the embedded PostgreSQL lacks. Promises: the copy is the database as it was when the copying ended, including
// everything committed meanwhile. A directory that exists is a whole copy, on disk. The server continues undisturbed,
// and keeps nothing of the backup.
import {randomBytes} from 'node:crypto'
import {existsSync} from 'node:fs'
import {constants, copyFile, mkdir, open, readdir, readFile, rename, rm, writeFile} from 'node:fs/promises'
import path from 'node:path'
import pg from 'pg'
import {PermanentError} from '../../base/errors.ts'

/** What a server makes again when it starts. These directories are copied empty. */
const emptied = /^(pg_(wal|replslot|dynshmem|notify|serial|snapshots|stat_tmp|subtrans)|base\/pgsql_tmp)\//
/** What belongs only to the running server, or would be mistaken for another copy's. */
const skipped =
  /^(postmaster\.(pid|opts)|backup_label|tablespace_map|(standby|recovery)\.signal)$|(^|\/)pg_internal\.init|\.tmp$/
/** Copied last: it says where the replay of the log starts. */
const control = 'global/pg_control'
const segmentName = /^[0-9A-F]{24}$/

const concurrency = 8

export interface Copied {
  files: number
  bytes: number
}

/** Copies the cluster of the server that an owner's URL names into `target`, which must not exist yet. */
export async function copyCluster(ownerUrl: string, target: string): Promise<Copied> {
  if (existsSync(target)) throw new PermanentError(`${target} exists; name a directory that does not`)
  const work = `${target}.${randomBytes(4).toString('hex')}.tmp`
  const client = new pg.Client({connectionString: ownerUrl, application_name: 'sluice-backup'})
  await client.connect()
  try {
    const source = await dataDirectory(client)
    const copy = new Copy(source, work)
    // The slot keeps the needed log until it is copied. It is gone with this connection.
    await client.query('select pg_create_physical_replication_slot($1, true, true)', [
      `sluice_backup_${randomBytes(4).toString('hex')}`,
    ])
    await client.query(`select pg_backup_start('sluice', true)`)
    await copy.tree()
    await copy.controlFile()
    const {rows} = await client.query<{label: string; last: string}>(
      'select labelfile as label, pg_walfile_name(lsn) as last from pg_backup_stop(false)',
    )
    const {label, last} = rows[0]!
    await copy.text('backup_label', label)
    await copy.log(firstSegment(label), last)
    await copy.toDisk()
    await rename(work, target)
    return copy.copied
  } catch (error) {
    await rm(work, {recursive: true, force: true})
    throw error
  } finally {
    await client.end()
  }
}

/** Copies such a copy, or any cluster that does not run. */
export async function copyStopped(source: string, target: string): Promise<Copied> {
  const copy = new Copy(source, target)
  await copy.everything()
  await copy.toDisk()
  return copy.copied
}

async function dataDirectory(client: pg.Client): Promise<string> {
  const {rows} = await client.query<{directory: string; elsewhere: number}>(
    `select current_setting('data_directory') as directory,
       (select count(*)::int from pg_tablespace where spcname not in ('pg_default', 'pg_global')) as elsewhere`,
  )
  const {directory, elsewhere} = rows[0]!
  if (elsewhere)
    throw new PermanentError(`the cluster in ${directory} has tablespaces outside of it; back it up with pg_basebackup`)
  return directory
}

function firstSegment(label: string): string {
  const [, name] = label.match(/^START WAL LOCATION: .* \(file ([0-9A-F]{24})\)$/m) ?? []
  if (!name) throw new Error(`the server's backup label does not name a segment of the log:\n${label}`)
  return name
}

class Copy {
  readonly copied: Copied = {files: 0, bytes: 0}
  readonly #source: string
  readonly #target: string

  constructor(source: string, target: string) {
    this.#source = source
    this.#target = target
  }

  async tree(): Promise<void> {
    await this.#walk('', name => name === control || emptied.test(name) || skipped.test(name))
  }

  async everything(): Promise<void> {
    await this.#walk('', () => false)
  }

  /** The server rewrites it in place; if two reads are equal, it is whole. */
  async controlFile(): Promise<void> {
    const file = path.join(this.#source, control)
    let content = await readFile(file)
    for (let again = await readFile(file); !again.equals(content); again = await readFile(file)) content = again
    await this.#write(control, content)
  }

  async text(name: string, content: string): Promise<void> {
    await this.#write(name, Buffer.from(content))
  }

  /** The segments of the log from `first` to `last`, and the history of its timelines. */
  async log(first: string, last: string): Promise<void> {
    const names = await readdir(path.join(this.#source, 'pg_wal'))
    const segments = names.filter(name => segmentName.test(name) && name >= first && name <= last)
    if (!segments.includes(first) || !segments.includes(last))
      throw new Error(`the log from ${first} to ${last} is not complete; take the backup again`)
    const histories = names.filter(name => name.endsWith('.history'))
    await this.#files([...segments, ...histories].map(name => `pg_wal/${name}`))
  }

  async #walk(directory: string, isSkipped: (name: string) => boolean): Promise<void> {
    await mkdir(path.join(this.#target, directory), {recursive: true, mode: 0o700})
    const entries = (await readdir(path.join(this.#source, directory), {withFileTypes: true}).catch(gone)) ?? []
    const files: string[] = []
    for (const entry of entries) {
      const name = path.posix.join(directory, entry.name)
      if (isSkipped(name)) continue
      if (entry.isDirectory()) await this.#walk(name, isSkipped)
      else if (entry.isFile()) files.push(name)
    }
    await this.#files(files)
  }

  /** Several at once, because most of the time is spent waiting for the disk. */
  async #files(names: string[]): Promise<void> {
    const left = names.values()
    const work = async () => {
      for (const name of left) await this.#file(name)
    }
    await Promise.all(Array.from({length: concurrency}, work))
  }

  /** A file that vanishes meanwhile belonged to something that the log drops, too. */
  async #file(name: string): Promise<void> {
    const target = path.join(this.#target, name)
    const isThere = await copyFile(path.join(this.#source, name), target, constants.COPYFILE_FICLONE).then(
      () => true,
      gone,
    )
    if (isThere) await this.#count(target)
  }

  async #write(name: string, content: Buffer): Promise<void> {
    const target = path.join(this.#target, name)
    await writeFile(target, content, {mode: 0o600})
    await this.#count(target)
  }

  /** Once it is on disk. */
  async #count(file: string): Promise<void> {
    const handle = await open(file)
    try {
      await handle.sync()
      this.copied.bytes += (await handle.stat()).size
      this.copied.files++
    } finally {
      await handle.close()
    }
  }

  /** The names of what was copied, too. */
  async toDisk(directory = this.#target): Promise<void> {
    for (const entry of await readdir(directory, {withFileTypes: true}))
      if (entry.isDirectory()) await this.toDisk(path.join(directory, entry.name))
    const handle = await open(directory)
    await handle.sync()
    await handle.close()
  }
}

function gone(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
  return undefined
}
