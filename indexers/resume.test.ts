// The checks of a node before a block is read from it.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type Logger, silent} from '../base/log.ts'
import {readSettings} from '../chains/settings.ts'
import {openPool} from '../db/client/pool.ts'
import {otherAssets, writeAssets} from '../db/migrate/assets.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {until} from '../test/support/until.ts'
import {ChainCursor} from './cursor.ts'
import type {ChainView} from './family.ts'
import {resume} from './resume.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(async () => {
  await db.drop()
})

const block = {height: 7, hash: '0x7', time: new Date(0)}

/** A node that has one block. */
function sourceOf(network: ChainView['network']): ChainView {
  return {
    confirmations: 1,
    network,
    finalBlock: async () => block,
    hashAt: async () => block.hash,
    blockAt: async () => block,
    hashesAt: async heights => heights.map(() => block.hash),
    lacks: async () => undefined,
    blockTimes: {medianOf: 1, marginMs: 0},
  }
}

test('a node of a main network is refused without SLUICE_MAINNET, whatever the settings of the chain say', async () => {
  const log = silent()
  for (const [chain, network] of [
    ['ETH', 'eip155:1'],
    ['POLYGON', 'eip155:137'],
    ['BTC', 'bip122:000000000019d6689c085ae165831e93'], // of 000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f
  ] as const) {
    let asked = 0
    const source = sourceOf(async () => {
      asked++
      return network
    })
    const cursor = new ChainCursor(db.pool, chain)
    const options = {network, networkSettings: 'none', startHeight: 1, log, retryMs: 1, mainnet: false}
    const going = resume(source, cursor, options)
    await until(async () => asked > 3, {timeoutMs: 5000, what: `${chain} to be refused`})
    expect(await cursor.read()).toBeUndefined()
    options.mainnet = true
    await going
    expect(await cursor.read()).toMatchObject({network, headHeight: 7})
  }
})

test('a database without free connections is named, and not the node', async () => {
  const role = `indexer_${process.pid}`
  await db.rows(`create role ${role} login password 'x' connection limit 0`)
  const url = Object.assign(new URL(db.ownerUrl), {username: role, password: 'x'}).href
  const pool = openPool(url, {name: 'test', max: 1})
  const logged: {reason: string; error: string}[] = []
  const log = {warn: (what: {reason: string; error: string}) => logged.push(what)} as unknown as Logger
  const network = 'eip155:1'
  const options = {network, networkSettings: 'none', startHeight: 1, log, retryMs: 1, mainnet: true}
  const source = sourceOf(async () => network)
  const going = resume(source, new ChainCursor(pool, 'ETH'), options).catch(() => {})
  await until(async () => logged.length > 0, {timeoutMs: 5000, what: 'the reason to be logged'})
  await db.rows(`alter role ${role} superuser`) // superusers have no connection limit
  await going
  await pool.end()
  await db.rows(`drop role ${role}`)
  expect(logged).toEqual([
    {
      reason: 'database_unavailable',
      error: expect.stringMatching(/^the database has no connection left: too many connections for role/),
    },
  ])
})

test('a process whose settings name other tokens than the last migration run reads no block until they match', async () => {
  const other = await testDatabase()
  const indexer = openPool(other.url('sluice_indexer'), {name: 'test', max: 2})
  const {chains} = readSettings()
  const eth = chains.get('ETH')!
  await writeAssets(other.ownerUrl, readSettings({ETH_USDC_CONTRACT: `0x${'1'.repeat(40)}`}).chains.values())
  const cursor = new ChainCursor(indexer, 'ETH')
  await cursor.configure()
  const going = resume(
    sourceOf(async () => 'eip155:1'),
    cursor,
    {
      network: 'eip155:1',
      networkSettings: 'none',
      mainnet: true,
      startHeight: 1,
      refusal: () => otherAssets(indexer, eth),
      log: silent(),
      retryMs: 1,
    },
  )
  const why = async () =>
    (
      await other.rows<{message: string}>(
        `select waiting_message as message from chain.configured where waiting_reason = 'token_refused'`,
      )
    )[0]
  const waiting = await until(why, {timeoutMs: 5000, what: 'ETH to wait'})
  expect(waiting.message).toContain('the settings of this process name other assets of ETH')
  expect(await cursor.read()).toBeUndefined()
  await writeAssets(other.ownerUrl, chains.values())
  await going
  expect(await cursor.read()).toMatchObject({headHeight: 7})
  await indexer.end()
  await other.drop()
})
