// A service's database with a streaming replica, both real servers: a copy of the running one that follows its WAL.
import {appendFileSync, chmodSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import pg from 'pg'
import {migrate, type Role, roleUrl} from '../../db/migrate/migrate.ts'
import {copyCluster} from '../../db/server/base-backup.ts'
import {findCluster} from '../../db/server/cluster-file.ts'
import {type EmbeddedPostgres, placeCluster, startPostgres} from '../../db/server/embedded.ts'

const flags = ['-c fsync=off']
const slot = 'standby'

export class ReplicatedDatabase {
  readonly #directory: string
  readonly #primary: EmbeddedPostgres
  #standby: EmbeddedPostgres
  /** Connections of the owner to each. */
  readonly primary: pg.Pool
  standby: pg.Pool

  private constructor(directory: string, primary: EmbeddedPostgres, standby: EmbeddedPostgres) {
    this.#directory = directory
    this.#primary = primary
    this.#standby = standby
    this.primary = poolOf(primary)
    this.standby = poolOf(standby)
  }

  static async open(): Promise<ReplicatedDatabase> {
    const directory = mkdtempSync(path.join(tmpdir(), 'sluice-replica-'))
    chmodSync(directory, 0o755)
    const primary = await startPostgres({dir: path.join(directory, 'primary'), flags})
    await migrate(primary.url)
    const {password, port} = (await findCluster(path.join(directory, 'primary')))!
    const client = new pg.Client({connectionString: primary.url})
    await client.connect()
    await client.query(`select pg_create_physical_replication_slot('${slot}', true)`)
    await client.end()
    const dir = path.join(directory, 'standby')
    await placeCluster({dir, password}, async target => {
      // The directory exists, but the copy needs a new one.
      rmSync(target, {recursive: true})
      await copyCluster(primary.url, target)
      const conninfo = `host=127.0.0.1 port=${port} user=sluice password=${password}`
      appendFileSync(
        path.join(target, 'postgresql.auto.conf'),
        `primary_conninfo = '${conninfo}'\nprimary_slot_name = '${slot}'\n`,
      )
      writeFileSync(path.join(target, 'standby.signal'), '')
    })
    return new ReplicatedDatabase(directory, primary, await startPostgres({dir, flags}))
  }

  url = (role: Role): string => roleUrl(this.#primary.url, role)

  /** The URL of the replica. */
  replicaUrl = (role: Role): string => roleUrl(this.#standby.url, role)

  rows = async <T extends pg.QueryResultRow>(sql: string, values?: unknown[]): Promise<T[]> =>
    (await this.primary.query<T>(sql, values)).rows

  async stopReplica(): Promise<void> {
    await this.standby.end()
    await this.#standby.stop()
  }

  async startReplica(): Promise<void> {
    this.#standby = await startPostgres({dir: path.join(this.#directory, 'standby'), flags})
    this.standby = poolOf(this.#standby)
  }

  async close(): Promise<void> {
    await Promise.all([this.primary.end(), this.standby.ended || this.standby.end()])
    await Promise.all([this.#primary.stop(), this.#standby.stop()])
    rmSync(this.#directory, {recursive: true})
  }
}

function poolOf({url}: EmbeddedPostgres): pg.Pool {
  const pool = new pg.Pool({connectionString: url, max: 3})
  pool.on('error', () => {}) // tests stop servers
  return pool
}
