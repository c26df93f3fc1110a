// A logical copy of the database, as in docs/operations/backup.md: pg_dump, pg_dumpall, pg_restore and psql of version
// 18, onto another server. They must be on the PATH or in PG_CLIENT_BIN; otherwise the test is skipped.
import {execFile, execFileSync} from 'node:child_process'
import {chmodSync, mkdtempSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {promisify} from 'node:util'
import pg from 'pg'
import {expect, test} from 'vitest'
import {settleIn} from '../../cli/backup-files.ts'
import {migrate, type Role, roleUrl} from '../../db/migrate/migrate.ts'
import {startPostgres} from '../../db/server/embedded.ts'
import {fillPool} from '../support/api.ts'
import {ChainWriter} from '../support/chain-writer.ts'
import {makeMerchant, makeUser} from '../support/people.ts'

const run = promisify(execFile)
const bin = process.env.PG_CLIENT_BIN ?? ''
const isThere = ['pg_dump', 'pg_dumpall', 'pg_restore', 'psql'].every(name => versionOf(name).includes(' 18.'))
if (!isThere) console.warn('there is no pg_dump of version 18 here, so a logical copy of the database is not tried')

function versionOf(name: string): string {
  try {
    return execFileSync(program(name), ['--version'], {encoding: 'utf8'})
  } catch {
    return ''
  }
}

function program(name: string): string {
  return path.join(bin, name)
}

const tables = `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r' and n.nspname in ('app', 'chain', 'custody', 'graphile_worker') order by 1`

/** Settings of roles, and rights on functions of PostgreSQL itself. */
const rights = `select rolname, setconfig, rolconnlimit from pg_roles r left join pg_db_role_setting s on s.setrole = r.oid where rolname ~ '^sluice'
  union all select p.oid::regprocedure::text, p.proacl::text[], 0 from pg_proc p where proname ~ '^(pg_try_advisory_lock|lo_create)$' order by 1`

async function rowsOf<T extends pg.QueryResultRow>(url: string, sql: string, values?: unknown[]): Promise<T[]> {
  const client = new pg.Client({connectionString: url})
  await client.connect()
  try {
    return (await client.query<T>(sql, values)).rows
  } finally {
    await client.end()
  }
}

/** The number of rows of each table. */
async function countsOf(url: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const {name} of await rowsOf<{name: string}>(url, tables))
    counts[name] = (await rowsOf<{n: number}>(url, `select count(*)::int as n from ${name}`))[0]!.n
  return counts
}

test.skipIf(!isThere)(
  'a dump restored onto another server is the same database, and continues where it ended',
  async () => {
    const directory = mkdtempSync(path.join(tmpdir(), 'sluice-dump-'))
    chmodSync(directory, 0o755)
    const flags = ['-c fsync=off']
    const [source, target] = await Promise.all(
      ['source', 'target'].map(name => startPostgres({dir: path.join(directory, name), flags})),
    )
    try {
      await migrate(source!.url)
      const db = {
        rows: <T extends pg.QueryResultRow>(sql: string, values?: unknown[]) => rowsOf<T>(source!.url, sql, values),
        url: (role: Role) => roleUrl(source!.url, role),
      }
      await fillPool(db, 10)
      const {address} = await makeUser(db, await makeMerchant(db))
      const eth = await ChainWriter.open(db, 'ETH')
      await eth.write({add: [[{txid: '0x01', amount: 5n, recipient: address}], []]})
      await eth.close()
      await db.rows('select app.sequence_events()')

      const file = path.join(directory, 'dump.pgc')
      await run(program('pg_dump'), ['-Fc', '-f', file, source!.url])
      const roleFile = path.join(directory, 'roles.sql')
      await run(program('pg_dumpall'), ['--roles-only', '--no-role-passwords', '-f', roleFile, '-d', source!.url])
      await run(program('psql'), ['-q', '-d', target!.url, '-f', roleFile])
      await run(program('pg_restore'), ['--exit-on-error', '-d', target!.url, file])
      await settleIn(target!.url)

      expect(await countsOf(target!.url)).toEqual(await countsOf(source!.url))
      const deposits = 'select id, status, amount, created_at from app.deposit'
      expect(await rowsOf(target!.url, deposits)).toEqual(await rowsOf(source!.url, deposits))
      expect(await rowsOf(target!.url, rights)).toEqual(await rowsOf(source!.url, rights))
      const asApi = roleUrl(target!.url, 'sluice_api')
      expect(await rowsOf(asApi, 'select count(*)::int as n from app.deposit')).toEqual([{n: 1}])
      const [last] = await rowsOf<{n: string}>(source!.url, 'select max(sequence) as n from app.event')
      const [next] = await rowsOf<{n: string}>(target!.url, `select nextval('app.event_sequence') as n`)
      expect(BigInt(next!.n)).toBeGreaterThan(BigInt(last!.n) + 1_000_000n)
      expect(await rowsOf(target!.url, 'select * from app.balance_audit')).toEqual([])
    } finally {
      await Promise.all([source!.stop(), target!.stop()])
      rmSync(directory, {recursive: true})
    }
  },
  180_000,
)
