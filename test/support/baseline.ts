// A database at the baseline of the schema: test/support/baseline.sql.gz, a dump of PostgreSQL 18. Released versions
// are upgraded from there. Before the first release it is written again whenever the baseline is edited, with pg_dump
// 18 on the PATH or in PG_CLIENT_BIN:
//   node test/support/baseline.ts
import {execFileSync} from 'node:child_process'
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {gunzipSync, gzipSync} from 'node:zlib'
import pg from 'pg'
import {migrate} from '../../db/migrate/migrate.ts'
import {startPostgres} from '../../db/server/embedded.ts'

const dumpFile = new URL('baseline.sql.gz', import.meta.url)

/** Fills an empty database of a server that has the roles. */
export async function restoreBaseline(ownerUrl: string): Promise<void> {
  const client = new pg.Client({connectionString: ownerUrl})
  await client.connect()
  try {
    await client.query(gunzipSync(readFileSync(dumpFile)).toString())
  } finally {
    await client.end()
  }
}

async function writeBaseline(): Promise<void> {
  const directory = mkdtempSync(path.join(tmpdir(), 'sluice-baseline-'))
  const server = await startPostgres({dir: directory, flags: ['-c fsync=off']})
  try {
    await migrate(server.url)
    const program = path.join(process.env.PG_CLIENT_BIN ?? '', 'pg_dump')
    const dump = execFileSync(program, ['--inserts', '--no-owner', '--no-comments', server.url], {
      encoding: 'utf8',
      maxBuffer: 2 ** 26,
    })
    const statements = dump.replace(/^\\.*\n/gm, '') // commands of psql
    writeFileSync(dumpFile, gzipSync(statements, {level: 9}))
  } finally {
    await server.stop()
    rmSync(directory, {recursive: true, force: true})
  }
}

if (import.meta.main) await writeBaseline()
