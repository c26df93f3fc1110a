// Catching up with a chain through the indexer's real code: blocks read from a source, matched in SQL against up to a
// million addresses, written and committed by the loop; and following it at its head, at the pace of its blocks. A
// server, a process of its own, has each response ready after the first time.
import {fork} from 'node:child_process'
import {once} from 'node:events'
import {setTimeout as sleep} from 'node:timers/promises'
import {logger} from '../base/log.ts'
import {openPool} from '../db/client/pool.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import {ChainCursor} from '../indexers/cursor.ts'
import {advanceFinality} from '../indexers/finality.ts'
import {type ChainSource, Follower, type FollowOptions, follow as followUntil} from '../indexers/follow.ts'
import {writeBlocks} from '../indexers/match.ts'
import {ChainDatabase} from '../indexers/subsquid/store.ts'
import {type Bench, provisionMade, withDatabase} from './database.ts'
import {number, type Report} from './result.ts'

/** What a server makes. */
export interface MadeChain {
  blocks: number
  /** Transactions in each block. */
  perBlock: number
  /** How many addresses are ours. */
  addresses: number
}

export const inWords = ({blocks, perBlock, addresses}: MadeChain): string =>
  `${number(blocks)} blocks of ${perBlock} transactions, ${number(addresses)} addresses`

export interface Followed {
  what: string
  code: string
  /** Run with these arguments it serves the blocks, and tells its port. */
  server: {file: string; args: (string | number)[]}
  blocks: number
  /** How many are ours. */
  addresses: number
  /** Our n-th address. */
  address(n: number): string
  /** How many transfers to our addresses the blocks have. */
  deposits: number
  source(url: string): ChainSource
  /** Requests the same from the server, parses the JSON, and ignores it. */
  bare(url: string): Promise<void>
}

/** In blocks/s; the floor is the bare loop. */
export async function benchFollowing(report: Report, followed: Followed): Promise<void> {
  const {what, blocks, bare, server} = followed
  const child = fork(server.file, ['serve', ...server.args.map(String)])
  const [{port}] = await once(child, 'message')
  const url = `http://127.0.0.1:${port}`
  const floor = async () => {
    const began = performance.now()
    await bare(url)
    return (blocks / (performance.now() - began)) * 1000
  }
  try {
    await floor() // the server has every response ready
    const before = await floor()
    const value = await withDatabase(bench => follow(bench, url, followed))
    report({what, value, floor: Math.max(before, await floor()), unit: 'blocks/s'})
  } finally {
    child.kill()
  }
}

/**
 * What following takes of a core, and of a connection of Postgres, while the server shows its blocks one after another,
 * after the first `already`.
 */
export async function benchAtHead(report: Report, followed: Followed, already: number): Promise<void> {
  const child = fork(followed.server.file, ['serve', ...followed.server.args.map(String)])
  try {
    const [{port}] = await once(child, 'message')
    await withDatabase(bench => stayAtHead(bench, `http://127.0.0.1:${port}`, {followed, already, report}))
  } finally {
    child.kill()
  }
}

interface AtHead {
  followed: Followed
  already: number
  report: Report
}

async function stayAtHead({ownerUrl, pool}: Bench, url: string, {followed, already, report}: AtHead): Promise<void> {
  const {options, db} = await begin({ownerUrl, pool}, url, followed)
  const over = new AbortController()
  const {horizon: _, ...usual} = options
  const following = followUntil({...usual, pollMs: 200}, over.signal)
  const head = async () => (await options.cursor.read())!.headHeight
  while ((await head()) < already) await sleep(50)
  const [began, cpu, first] = [performance.now(), process.cpuUsage(), await head()]
  let [samples, active] = [0, 0]
  for (; (await head()) < followed.blocks; samples += 1) {
    const {rows} = await pool.query<{n: number}>(
      `select count(*)::int as n from pg_stat_activity where usename = 'sluice_indexer' and state = 'active'`,
    )
    active += rows[0]!.n
    await sleep(50)
  }
  const {user, system} = process.cpuUsage(cpu)
  const elapsedMs = performance.now() - began
  over.abort()
  await following
  await db.end()
  const rate = ((followed.blocks - first) / elapsedMs) * 1000
  const {what} = followed
  report({what: `${what}, as they came`, value: rate, unit: 'blocks/s'})
  report({what: `${what}: of a core`, value: (user + system) / 10 / elapsedMs, unit: '%', aim: '30 %'})
  report({what: `${what}: of a connection of Postgres`, value: (100 * active) / samples, unit: '%', aim: '30 %'})
}

/** What a follower needs, on a database with all addresses. */
async function begin({ownerUrl, pool}: Bench, url: string, {code, addresses, address, source: open}: Followed) {
  await provisionMade(pool, code, addresses, address)
  const database = roleUrl(ownerUrl, 'sluice_indexer')
  const db = openPool(database, {name: 'bench', max: 2})
  const cursor = new ChainCursor(db, code)
  const source = open(url)
  const anchor = await source.blockAt(0)
  const network = await source.network()
  await cursor.anchor(network, anchor!.height, anchor!.hash, anchor!.time)
  const options: FollowOptions = {
    database: new ChainDatabase(database, code),
    cursor,
    source,
    network,
    log: logger('bench'),
    pollMs: 1,
    horizon: 2, // all but the last blocks are caught up with, as the bulk of a chain is
    write: async (store, read) => await writeBlocks(store, read, {chain: code, display: address => address}),
  }
  return {options, db}
}

/** The indexer's code, from an empty table of blocks to the head. */
async function follow(bench: Bench, url: string, followed: Followed): Promise<number> {
  const {blocks, deposits} = followed
  const {options, db} = await begin(bench, url, followed)
  const {source, cursor} = options
  const follower = new Follower(options)
  const height = () => follower.tip?.height ?? 0
  while (height() < blocks / 5) await follower.round() // warms up, like the floor
  const [began, first] = [performance.now(), height()]
  if (first === blocks) throw new Error('the warm-up took all blocks')
  while (height() < blocks) await follower.round()
  const rate = ((height() - first) / (performance.now() - began)) * 1000
  await advanceFinality(source, cursor)
  const {rows} = await bench.pool.query<{count: string}>('select count(*) from app.deposit')
  if (Number(rows[0]!.count) !== deposits) throw new Error(`${rows[0]!.count} deposits instead of ${deposits}`)
  await follower.forget()
  await db.end()
  return rate
}
