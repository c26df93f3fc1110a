// The metrics of an indexer on a real chain, and of a real server's archive.
import {mkdtempSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import pg from 'pg'
import {expect, test} from 'vitest'
import {migrate} from '../../db/migrate/migrate.ts'
import {startPostgres} from '../../db/server/embedded.ts'
import {IndexedEvm} from '../support/evm/indexed-world.ts'
import {Indexer} from '../support/indexer.ts'
import {portsInARow} from '../support/ports.ts'
import {until} from '../support/until.ts'

test('blocks, transfers and reorganisations of a chain are counted as they are written', async context => {
  const world = await IndexedEvm.create(context)
  const port = await portsInARow(1)
  const {db, node, anvil, user} = world
  const settings = {USDC_CONTRACT: anvil.usdc}
  const indexer = Indexer.start({db, rpcUrl: node.wsUrl, settings, environment: {METRICS_PORT: `${port}`}})
  context.onTestFinished(() => indexer.stop())
  const read = async (name: string) => {
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    const [, value] =
      new RegExp(`^sluice_indexer_${name}\\{chain="ETH"(?:,le="\\+Inf")?\\} (.*)$`, 'm').exec(text) ?? []
    return Number(value)
  }
  const mined = async () => await indexer.reaches(await anvil.mine())
  await anvil.send({to: user.address, value: 5n})
  await mined()
  const {height} = await anvil.block()
  // Heights from 1 on: START_HEIGHT. The counts include what was committed, and rewritten rows only after a
  // reorganisation.
  await until(async () => (await read('blocks_total')) === height, {
    timeoutMs: 10_000,
    what: 'each block to be counted',
  })
  expect(await read('transfers_total')).toBe(1)
  expect(await read('active')).toBe(1)
  expect(await read('batch_duration_seconds_count')).toBeGreaterThan(0)
  expect(await read('reorg_depth_blocks_count')).toBe(0)

  await mined()
  await mined()
  await anvil.reorg(2)
  await indexer.reaches(await anvil.mine())
  await until(async () => (await read('reorg_depth_blocks_count')) === 1, {
    timeoutMs: 10_000,
    what: 'the reorganisation',
  })
  expect(await read('reorg_depth_blocks_sum')).toBe(2)
  expect(await read('transfers_total')).toBe(1)
  expect(indexer.ends).toEqual([])
})

test('a failing archive is reported from the first failure until a segment is archived', async context => {
  const dir = mkdtempSync(path.join(tmpdir(), 'sluice-archive-'))
  const flags = ['-c fsync=off', '-c archive_mode=on']
  const server = await startPostgres({dir, flags})
  const client = new pg.Client({connectionString: server.url})
  context.onTestFinished(async () => {
    await client.end()
    await server.stop()
    rmSync(dir, {recursive: true})
  })
  await migrate(server.url)
  await client.connect()
  const archiveBy = async (command: string) => {
    await client.query(`alter system set archive_command = '${command}'`)
    await client.query('select pg_reload_conf(), pg_switch_wal()')
  }
  const read = async (name: string) => {
    const {rows} = await client.query('select value from app.metrics() where metric = $1', [
      `sluice_wal_archive_${name}`,
    ])
    return rows[0]?.value
  }
  expect([await read('failing'), await read('age_seconds')]).toEqual([0, expect.any(Number)])
  await archiveBy('false')
  await until(async () => (await read('failing')) === 1, {timeoutMs: 30_000, what: 'the archive to fail'})
  await client.query('select pg_sleep(2)')
  expect(await read('age_seconds')).toBeGreaterThan(2)
  await archiveBy('true')
  await until(async () => (await read('failing')) === 0, {timeoutMs: 90_000, what: 'the archive to continue'})
  expect(await read('age_seconds')).toBeLessThan(60)
})
