// A copy of a cluster that is written to meanwhile, started again, on the real server.
import {chmod, mkdtemp, readdir, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import path from 'node:path'
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {copyCluster, copyStopped} from './base-backup.ts'
import {findCluster} from './cluster-file.ts'
import {type EmbeddedPostgres, placeCluster, startPostgres} from './embedded.ts'

const flags = ['-c fsync=off', '-c wal_keep_size=0', '-c min_wal_size=32MB', '-c max_wal_size=32MB']
let directory: string
let primary: EmbeddedPostgres
let client: pg.Client

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'sluice-backup-'))
  await chmod(directory, 0o755)
  primary = await startPostgres({dir: path.join(directory, 'primary'), flags})
  client = await connect(primary.url)
  await client.query('create table entry (n int primary key, filler text not null)')
  await client.query('create unlogged table passing (n int)')
  await client.query('create sequence numbers')
})

afterAll(async () => {
  await client.end()
  await primary.stop()
  await rm(directory, {recursive: true, force: true})
})

async function connect(url: string): Promise<pg.Client> {
  const opened = new pg.Client({connectionString: url})
  opened.on('error', () => {})
  await opened.connect()
  return opened
}

/**
 * Commits rows, each with the next number, and makes the server recycle its log, until it is asked to end. Resolves to
 * the last number.
 */
async function write(isOver: () => boolean): Promise<number> {
  const writer = await connect(primary.url)
  let last = 0
  while (!isOver()) {
    const {rows} = await writer.query<{n: number}>(
      `insert into entry select nextval('numbers'), repeat(md5(random()::text), 200) from generate_series(1, 100) returning n`,
    )
    await writer.query('insert into passing values (1)')
    last = rows.at(-1)!.n
    if (last % 500 === 0) await writer.query('checkpoint')
  }
  await writer.end()
  return last
}

test('a base backup has exactly what was committed before, and its copy continues the work', async () => {
  let isOver = false
  const writing = write(() => isOver)
  const known = async () => (await client.query('select coalesce(max(n), 0)::int as n from entry')).rows[0].n as number
  while ((await known()) < 1000);
  const before = await known()
  const copied = await copyCluster(primary.url, path.join(directory, 'copy'))
  isOver = true
  const last = await writing
  expect(copied.bytes).toBeGreaterThan(10_000_000)

  const dir = path.join(directory, 'restored')
  const {password} = (await findCluster(path.join(directory, 'primary')))!
  await placeCluster({dir, password}, target => copyStopped(path.join(directory, 'copy'), target))
  const restored = await startPostgres({dir, flags})
  const there = await connect(restored.url)
  try {
    const [entries] = (
      await there.query<{count: number; last: number; next: string}>(
        `select count(*)::int as count, max(n) as last, nextval('numbers') as next from entry`,
      )
    ).rows
    expect(entries!.count).toBe(entries!.last)
    expect(entries!.last).toBeGreaterThanOrEqual(before)
    expect(entries!.last).toBeLessThanOrEqual(last)
    expect(Number(entries!.next)).toBeGreaterThan(entries!.last)
    expect((await there.query('select from passing')).rowCount).toBe(0) // what is not logged begins empty
    await there.query(`insert into entry values (-1, 'written')`)
  } finally {
    await there.end()
    await restored.stop()
  }
  expect((await client.query('select from pg_replication_slots')).rowCount).toBe(0)
})

test('a failed base backup leaves nothing, and a home with a database is left alone', async () => {
  await expect(copyCluster(primary.url, path.join(directory, 'primary'))).rejects.toThrow('primary exists')
  await expect(copyCluster(primary.url, path.join(directory, 'primary/postgres.json/copy'))).rejects.toThrow('ENOTDIR')
  expect((await readdir(directory)).filter(name => name.includes('.tmp'))).toEqual([])
  expect((await client.query('select from pg_replication_slots')).rowCount).toBe(0)
  const dir = path.join(directory, 'primary')
  await expect(placeCluster({dir, password: 'x'}, async () => {})).rejects.toThrow('has a database already')
})
