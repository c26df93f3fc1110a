// A database for one test file, cloned from a migrated template on the real server that global-setup.ts started.
import {randomBytes} from 'node:crypto'
import {setTimeout as sleep} from 'node:timers/promises'
import pg from 'pg'
import {inject} from 'vitest'
import {type Role, roleUrl} from '../../db/migrate/migrate.ts'

export const templateName = 'sluice_template'

export interface TestDatabase {
  ownerUrl: string
  /** The URL for the role of a process. */
  url(role: Role): string
  /** Connections of the owner, who has every right. */
  pool: pg.Pool
  /** All rows of a query by the owner. */
  rows<T extends pg.QueryResultRow>(sql: string, values?: unknown[]): Promise<T[]>
  drop(): Promise<void>
}

export function urlOf(serverUrl: string, database: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${database}`
  return url.toString()
}

export async function createDatabase(serverUrl: string, name: string, template?: string): Promise<void> {
  await onServer(serverUrl, async client => {
    await client.query(`drop database if exists ${name} with (force)`)
    // Copied as files, a template costs half of what it costs through the log.
    await client.query(`create database ${name} ${template ? `template ${template} strategy file_copy` : ''}`)
  })
}

export async function testDatabase(): Promise<TestDatabase> {
  return await newDatabase(templateName)
}

/** An empty database, without the schema. */
export async function emptyDatabase(): Promise<TestDatabase> {
  return await newDatabase()
}

async function newDatabase(template?: string): Promise<TestDatabase> {
  const serverUrl = inject('serverUrl')
  const name = `test_${randomBytes(6).toString('hex')}`
  await createDatabase(serverUrl, name, template)
  const ownerUrl = urlOf(serverUrl, name)
  const pool = new pg.Pool({connectionString: ownerUrl, max: 10})
  pool.on('error', () => {}) // tests cut connections on purpose
  return {
    ownerUrl,
    url: role => roleUrl(ownerUrl, role),
    pool,
    rows: async (sql, values) => (await pool.query(sql, values)).rows,
    drop: async () => {
      await pool.end()
      await dropDatabase(serverUrl, name)
    },
  }
}

/**
 * Connections that are being closed may take a moment longer: ended by force, they would be errors that nobody expects
 * any more.
 */
export async function dropDatabase(serverUrl: string, name: string): Promise<void> {
  const inUse = 'select from pg_stat_activity where datname = $1'
  await onServer(serverUrl, async client => {
    for (const deadline = Date.now() + 500; Date.now() < deadline; await sleep(10))
      if (!(await client.query(inUse, [name])).rowCount) break
    await client.query(`drop database if exists ${name} with (force)`)
  })
}

async function onServer(serverUrl: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({connectionString: serverUrl})
  await client.connect()
  try {
    await work(client)
  } finally {
    await client.end()
  }
}
