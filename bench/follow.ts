// Catching up with a chain through the indexer's real code: blocks read from a source, matched in SQL against 1,000,000 addresses, written and committed by
// the loop. A server, a process of its own, has each response ready after the first time.
import {fork} from 'node:child_process'
import {once} from 'node:events'
import {logger} from '../base/log.ts'
import {roleUrl} from '../db/migrate.ts'
import {openPool} from '../db/pool.ts'
import {ChainCursor} from '../indexers/cursor.ts'
import {advanceFinality} from '../indexers/finality.ts'
import {type ChainSource, Follower} from '../indexers/follow.ts'
import {writeBlocks} from '../indexers/match.ts'
import {ChainDatabase} from '../indexers/store.ts'
import {type Bench, provisionMade, withDatabase} from './database.ts'
import type {Result} from './result.ts'

export const addresses = 1_000_000

export interface Followed {
  what: string
  code: string
  /** Run with these arguments it serves the blocks, and tells its port. */
  server: {file: string; args: (string | number)[]}
  blocks: number
  /** Our n-th address. */
  address(n: number): string
  /** How many transfers to our addresses the blocks have. */
  deposits: number
  source(url: string): ChainSource
  /** Requests the same from the server, parses the JSON, and ignores it. */
  bare(url: string): Promise<void>
}

/** In blocks/s; the floor is the bare loop. */
export async function benchFollowing(followed: Followed): Promise<Result> {
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
    return {what, value, floor: Math.max(before, await floor()), unit: 'blocks/s'}
  } finally {
    child.kill()
  }
}

/** The indexer's code, from an empty table of blocks to the head. */
async function follow({ownerUrl, pool}: Bench, url: string, followed: Followed): Promise<number> {
  const {code, blocks, address, deposits} = followed
  await provisionMade(pool, code, addresses, address)
  const database = roleUrl(ownerUrl, 'sluice_indexer')
  const db = openPool(database, {name: 'bench', max: 2})
  const cursor = new ChainCursor(db, code)
  const source = followed.source(url)
  const anchor = await source.blockAt(0)
  const network = await source.network()
  await cursor.anchor(network, anchor!.height, anchor!.hash, anchor!.time)
  const follower = new Follower({
    database: new ChainDatabase(database, code),
    cursor,
    source,
    network,
    log: logger('bench'),
    pollMs: 1,
    horizon: 2, // all but the last blocks are caught up with, as the bulk of a chain is
    write: async (store, read) => await writeBlocks(store, read, {chain: code, display: address => address}),
  })
  const height = () => follower.tip?.height ?? 0
  while (height() < blocks / 5) await follower.round() // warms up, like the floor
  const [began, first] = [performance.now(), height()]
  while (height() < blocks) await follower.round()
  const rate = ((height() - first) / (performance.now() - began)) * 1000
  await advanceFinality(source, cursor)
  const {rows} = await pool.query<{count: string}>('select count(*) from app.deposit')
  if (Number(rows[0]!.count) !== deposits) throw new Error(`${rows[0]!.count} deposits instead of ${deposits}`)
  await follower.forget()
  await db.end()
  return rate
}
