// A backup of a whole service, as a directory. Promises: a backup with a backup.json is whole, and on disk; its journal
// of custody is not older than its database; restoring never overwrites anything.
//
//   backup.json     when it was made, the password of the database's owner, and the dashboard's secret, if npm start
//                   made one. Mode 0600
//   data/           the database: a copy of the cluster (db/server/base-backup.ts)
//   custody.backup  the encrypted seed and the journal of what was signed (sluice custody backup)
import {execFile} from 'node:child_process'
import {existsSync, mkdirSync, readFileSync, rmSync} from 'node:fs'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {z} from 'zod'
import {PermanentError} from '../base/errors.ts'
import {dashboardSecretFile, lockHome, readIfThere, writeWhole} from '../base/home.ts'
import {withClient} from '../db/client/pool.ts'
import {migrate} from '../db/migrate/migrate.ts'
import {copyCluster, copyStopped} from '../db/server/base-backup.ts'
import {findCluster} from '../db/server/cluster-file.ts'
import {placeCluster, startPostgres} from '../db/server/embedded.ts'

const Facts = z.object({
  sluice_backup: z.literal(1),
  made_at: z.iso.datetime(),
  owner_password: z.string(),
  dashboard_secret: z.string().optional(),
})

const custodyProgram = fileURLToPath(new URL('../custody/cli.ts', import.meta.url))
const postgresOf = (home: string) => path.join(home, 'postgres')

export interface Backup {
  directory: string
  made_at: string
  database_bytes: number
}

/** Backs up the service of `home`, whose database the URL names, into a directory that does not exist yet. */
export async function makeBackup(home: string, databaseUrl: string, directory: string): Promise<Backup> {
  const cluster = await findCluster(postgresOf(home))
  if (!cluster || new URL(databaseUrl).port !== String(cluster.port))
    throw new PermanentError(
      'the database of this service was not made by npm start; back it up with pg_dump, pg_basebackup or pgBackRest, ' +
        'and custody with sluice custody backup (docs/operations/backup.md)',
    )
  makeNew(directory)
  try {
    const {bytes} = await copyCluster(databaseUrl, path.join(directory, 'data'))
    // After the database: so the journal has what custody signed meanwhile, and sluice custody reconcile imports it.
    await custody(home, ['backup', '--to', path.join(directory, 'custody.backup')])
    const facts: z.infer<typeof Facts> = {
      sluice_backup: 1,
      made_at: new Date().toISOString(),
      owner_password: cluster.password,
      dashboard_secret: readIfThere(dashboardSecretFile(home)),
    }
    writeWhole(path.join(directory, 'backup.json'), JSON.stringify(facts, null, 2))
    return {directory, made_at: facts.made_at, database_bytes: bytes}
  } catch (error) {
    rmSync(directory, {recursive: true, force: true})
    throw error
  }
}

/**
 * Copies the database of a backup into `home`, and the files of custody and the dashboard's secret, too, if `home` has
 * none. Leaves nothing running: the service is started as always. Throws PermanentError if `home` has a database, or
 * belongs to another service.
 */
export async function restoreBackup(directory: string, home: string): Promise<void> {
  const {owner_password: password, dashboard_secret: secret} = factsOf(directory)
  const unlock = await lockHome(home)
  try {
    if (existsSync(postgresOf(home)))
      throw new PermanentError(
        `${postgresOf(home)} exists; if it is the lost database, move it away; otherwise give another directory with --home`,
      )
    await custody(home, ['restore', '--from', path.join(directory, 'custody.backup')])
    await restoreDatabase(directory, postgresOf(home), password)
    if (secret && !existsSync(dashboardSecretFile(home))) writeWhole(dashboardSecretFile(home), secret)
  } finally {
    unlock()
  }
}

async function restoreDatabase(directory: string, dir: string, password: string): Promise<void> {
  try {
    await placeCluster({dir, password}, target => copyStopped(path.join(directory, 'data'), target))
    const postgres = await startPostgres({dir})
    try {
      await settleIn(postgres.url)
    } finally {
      await postgres.stop()
    }
  } catch (error) {
    rmSync(dir, {recursive: true, force: true}) // so that the caller can try again
    throw error
  }
}

/** Prepares an older copy of the database from any source, before anything uses it. */
export async function settleIn(ownerUrl: string): Promise<void> {
  await migrate(ownerUrl)
  await withClient(ownerUrl, 'sluice-restore', async client => {
    await client.query('select app.after_restore()')
  })
}

/**
 * Adds whitelist entries that the original database has and its copy lacks, for merchants that the copy knows. The
 * newest journal has what custody signed to them since; without the entries an audit of the copy would report them as
 * not whitelisted. Resolves to their number.
 */
export async function takeWhitelist(fromUrl: string, toUrl: string): Promise<number> {
  const columns = 'merchant_id, chain, address, added_at, active_at, removed_at'
  const {rows} = await withClient(fromUrl, 'sluice-drill', from =>
    from.query<{entries: object}>(
      `select coalesce(jsonb_agg(w), '[]') as entries from (select ${columns} from custody.whitelist) w`,
    ),
  )
  const {rowCount} = await withClient(toUrl, 'sluice-drill', to =>
    to.query(
      `insert into custody.whitelist (${columns})
       select ${columns} from jsonb_populate_recordset(null::custody.whitelist, $1) n
       where (n.merchant_id is null or exists (select from app.merchant m where m.id = n.merchant_id))
         and not exists (select from custody.whitelist w where w.merchant_id is not distinct from n.merchant_id
           and (w.chain, w.address, w.added_at) = (n.chain, n.address, n.added_at))
       on conflict do nothing`,
      [JSON.stringify(rows[0]!.entries)],
    ),
  )
  return rowCount!
}

/** Runs `sluice custody` for a service; returns its output. Throws PermanentError with its error if it fails. */
export async function custody(home: string, given: string[], more: Record<string, string> = {}): Promise<string> {
  const environment = {...process.env, SLUICE_HOME: home, ...more}
  return await new Promise((resolve, reject) => {
    execFile(process.execPath, [custodyProgram, ...given], {env: environment}, (error, stdout, stderr) => {
      if (error) reject(new PermanentError((stderr || stdout || error.message).replace(/^sluice: /, '').trim()))
      else resolve(stdout.trim())
    })
  })
}

function makeNew(directory: string): void {
  mkdirSync(path.dirname(path.resolve(directory)), {recursive: true})
  try {
    mkdirSync(directory, {mode: 0o700})
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new PermanentError(`${directory} exists; give a directory that does not exist`)
  }
}

function factsOf(directory: string): z.infer<typeof Facts> {
  const file = path.join(directory, 'backup.json')
  if (!existsSync(file))
    throw new PermanentError(`${directory} is not a backup, or the backup was not finished: it has no backup.json`)
  const read = Facts.safeParse(JSON.parse(readFileSync(file, 'utf8')))
  if (!read.success) throw new PermanentError(`${file} was not written by sluice backup; use another backup`)
  return read.data
}
