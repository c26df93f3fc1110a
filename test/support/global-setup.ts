// Runs once before all tests: starts an embedded Postgres in a new directory, and makes the template that
// testDatabase() clones. SLUICE_TEST_DATABASE_URL, the URL of a superuser, uses another server instead.
import {chmodSync, mkdirSync, mkdtempSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import pg from 'pg'
import type {TestProject} from 'vitest/node'
import {migrate} from '../../db/migrate/migrate.ts'
import {startPostgres} from '../../db/server/embedded.ts'
import {createDatabase, templateName, urlOf} from './database.ts'
import {scratchFolder} from './scratch.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    serverUrl: string
  }
}

/** Tests pay single base units. Where the chain takes no less, they pay that. */
async function countSingleUnits(url: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  await client.query(`update app.asset set min_payment = 1 where chain not in ('BTC', 'SOL')`)
  await client.end()
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Tests start hundreds of processes, which mostly load modules. Compiled once, they load in half the time.
  process.env.NODE_COMPILE_CACHE ??= path.join(tmpdir(), 'sluice-compile-cache')
  mkdirSync(process.env.NODE_COMPILE_CACHE, {recursive: true})
  chmodSync(process.env.NODE_COMPILE_CACHE, 0o1777) // as root, the processes of a service are other users
  const given = process.env.SLUICE_TEST_DATABASE_URL
  const directory = mkdtempSync(path.join(scratchFolder(), 'sluice-test-'))
  chmodSync(directory, 0o755) // as root, the server runs as another user
  const server = given
    ? undefined
    : await startPostgres({
        dir: directory,
        flags: ['-c fsync=off', '-c full_page_writes=off', '-c max_connections=800'],
      })
  const url = given ?? server!.url
  await createDatabase(url, templateName)
  await migrate(urlOf(url, templateName))
  await countSingleUnits(urlOf(url, templateName))
  project.provide('serverUrl', url)
  return async () => {
    await server?.stop()
    rmSync(directory, {recursive: true, force: true})
    // vitest waits for whoever holds the output of its workers.
    setTimeout(() => {
      console.error('A process that a test left behind holds the output of its worker: ended without it.')
      process.exit()
    }, 20_000).unref()
  }
}
