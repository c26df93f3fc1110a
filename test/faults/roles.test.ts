// How a role without rights on tables can affect the whole server: by taking connections, changing its own limits, or
// sending notifications. These tests use separate servers, because roles and connections belong to the whole server.
import {chmodSync, mkdtempSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {connectionLimit, connections} from '../../db/client/connections.ts'
import {migrate, type Role, roles, roleUrl} from '../../db/migrate/migrate.ts'
import {type EmbeddedPostgres, startPostgres} from '../../db/server/embedded.ts'

const maxConnections = 100 // the default of PostgreSQL, and of most managed databases

let directory: string
let server: EmbeddedPostgres

beforeAll(async () => {
  directory = mkdtempSync(path.join(tmpdir(), 'sluice-roles-'))
  chmodSync(directory, 0o755)
  server = await startPostgres({dir: directory, flags: ['-c fsync=off', `-c max_connections=${maxConnections}`]})
  await migrate(server.url)
})

afterAll(async () => {
  await server.stop()
  rmSync(directory, {recursive: true})
})

async function connect(connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({connectionString})
  await client.connect()
  return client
}

/** Opens connections of a role until the server refuses one; returns the error. */
async function takeAll(role: Role): Promise<{taken: pg.Client[]; code: string | undefined}> {
  const taken: pg.Client[] = []
  for (;;) {
    try {
      taken.push(await connect(roleUrl(server.url, role)))
    } catch (error) {
      return {taken, code: (error as pg.DatabaseError).code}
    }
  }
}

test('no role can take so many connections that another role, or the owner, has none, not even all roles together', async () => {
  const all: pg.Client[] = []
  try {
    for (const role of roles) {
      const {taken, code} = await takeAll(role)
      all.push(...taken)
      expect({role, code, count: taken.length}).toEqual({
        role,
        code: '53300',
        count: connectionLimit(role, maxConnections),
      })
    }
    for (let n = 0; n < 5; n++) all.push(await connect(server.url))
  } finally {
    for (const client of all) await client.end()
  }
})

test.each([
  [100, {sluice_api: 2, sluice_jobs: 1, sluice_indexer: 3, sluice_custody: 2, sluice_auth: 1, sluice_dashboard: 1}],
  [200, {sluice_api: 5, sluice_jobs: 2, sluice_indexer: 6, sluice_custody: 5, sluice_auth: 2, sluice_dashboard: 2}],
] as const)('max_connections %i has room for these processes: %o', (max, processes) => {
  for (const [role, count] of Object.entries(processes) as [keyof typeof processes, number][]) {
    const {pool, beside} = connections[role]
    expect({role, count: Math.floor(connectionLimit(role, max) / (pool + beside))}).toEqual({role, count})
  }
})

test('session defaults that an analyst sets for later sessions are reset by sluice migrate', async () => {
  const analyst = await connect(roleUrl(server.url, 'sluice_analyst'))
  await analyst.query('set default_transaction_read_only = off')
  await analyst.query('alter role sluice_analyst set statement_timeout = 0')
  await analyst.query('alter role sluice_analyst in database sluice set default_transaction_read_only = off')
  await analyst.end()
  const habitsOf = async () => {
    const client = await connect(roleUrl(server.url, 'sluice_analyst'))
    const {rows} = await client.query(
      `select current_setting('statement_timeout') as timeout, current_setting('default_transaction_read_only') as read_only,
         current_setting('temp_file_limit') as files`,
    )
    await client.end()
    return rows[0]
  }
  expect(await habitsOf()).toEqual({timeout: '0', read_only: 'off', files: '10GB'})
  await migrate(server.url)
  expect(await habitsOf()).toEqual({timeout: '1min', read_only: 'on', files: '10GB'})
})

test('PostgreSQL cannot forbid NOTIFY on a primary, as the database page says', async () => {
  const analyst = await connect(roleUrl(server.url, 'sluice_analyst'))
  await analyst.query('notify anything')
  await expect(analyst.query(`select pg_notify('anything', '')`)).rejects.toMatchObject({code: '42501'})
  await analyst.end()
})
