// Scanning Bitcoin blocks: outputs/s through the real indexer code (blocks from the node, parsed and checked, matched
// in SQL against 1,000,000 or 100,000 addresses, written and committed by the loop) over requesting the same blocks
// from the same bitcoind by RPC, decoded (getblock with verbosity 2), and ignoring them. Once with payers in the bytes
// (P2WPKH), and once with payers that the node must return, one more request for each block, because each has an output
// of ours (P2TR). Needs a bitcoind with a wallet (BITCOIND_BIN).
import {spawn} from 'node:child_process'
import {randomBytes} from 'node:crypto'
import {once} from 'node:events'
import {mkdtempSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {z} from 'zod'
import {logger} from '../base/log.ts'
import {Bitcoind} from '../chains/bitcoin/rpc.ts'
import {addressOfScript} from '../chains/bitcoin/script.ts'
import {bitcoinSettings} from '../chains/bitcoin/settings.ts'
import {readSettings} from '../chains/settings.ts'
import {openPool} from '../db/client/pool.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import {findBitcoind} from '../devnet/bitcoin/node.ts'
import {regtest} from '../devnet/bitcoin/regtest.ts'
import {freePort} from '../devnet/listen.ts'
import {NodeSource} from '../indexers/bitcoin/node-source.ts'
import {ChainCursor} from '../indexers/cursor.ts'
import {advanceFinality} from '../indexers/finality.ts'
import {Follower} from '../indexers/follow.ts'
import {writeBlocks} from '../indexers/match.ts'
import {ChainDatabase} from '../indexers/subsquid/store.ts'
import {type Bench, provisionMade, withDatabase} from './database.ts'
import type {Report} from './result.ts'

const blocks = 40
const transactionsPerBlock = 4
const outputsPerTransaction = 600
/** One output in this many is to an address of ours. */
const oursEvery = 100
const spendableAfter = 101

export async function benchBlockScan(report: Report): Promise<void> {
  await scanPaidBy(report, 'P2WPKH')
  await scanPaidBy(report, 'P2TR', 100_000)
}

export async function scanPaidBy(report: Report, payers: 'P2WPKH' | 'P2TR', addresses = 1_000_000): Promise<void> {
  const addressType = payers === 'P2TR' ? 'bech32m' : 'bech32'
  const directory = mkdtempSync(path.join(tmpdir(), 'sluice-bench-bitcoin-'))
  const port = await freePort()
  const child = spawn(
    findBitcoind() ?? 'bitcoind',
    [
      '-regtest',
      '-server',
      '-rest',
      '-listen=0',
      '-dnsseed=0',
      '-fallbackfee=0.0001',
      '-rpcuser=bench',
      '-rpcpassword=bench',
      '-blockmaxweight=4000000',
      `-addresstype=${addressType}`,
      `-changetype=${addressType}`,
      `-rpcport=${port}`,
      `-datadir=${directory}`,
    ],
    {stdio: 'ignore'},
  )
  const node = new Bitcoind(`http://bench:bench@127.0.0.1:${port}`, {timeoutMs: 300_000})
  try {
    while (
      await node.call('getblockcount', [], z.number()).then(
        () => false,
        () => true,
      )
    )
      await sleep(50)
    const {from, to} = await mineBlocks(node)
    const before = await fetchDecoded(node, from, to)
    const ours = await withDatabase(async bench => {
      await provisionMade(bench.pool, 'BTC', addresses, n => addressOf(programOf(n)))
      return await scan(bench, node, from, to)
    })
    const after = await fetchDecoded(node, from, to)
    const what = `Bitcoin: blocks matched against ${addresses.toLocaleString('en')} addresses, paid by ${payers}`
    report({what, value: ours, floor: Math.max(before, after), unit: 'outputs/s', aim: '0.8'})
  } finally {
    await node.close()
    const exited = once(child, 'exit')
    child.kill()
    await exited
    rmSync(directory, {recursive: true, force: true})
  }
}

/** Blocks of transactions with many outputs; one in some is to an address of ours. */
async function mineBlocks(node: Bitcoind): Promise<{from: number; to: number}> {
  const text = z.string()
  await node.call('createwallet', ['bench'], z.object({}))
  const miner = await node.call('getnewaddress', [], text)
  await node.call('generatetoaddress', [spendableAfter + blocks * transactionsPerBlock, miner], z.array(text))
  const from = await node.call('getblockcount', [], z.number())
  let ours = 0
  for (let block = 0; block < blocks; block++) {
    for (let i = 0; i < transactionsPerBlock; i++) {
      const outputs = Array.from({length: outputsPerTransaction}, (_, n) => {
        return n % oursEvery === 0 ? addressOf(programOf(ours++)) : addressOf(randomBytes(20))
      })
      await node.call('sendmany', ['', Object.fromEntries(outputs.map(address => [address, 0.0001]))], text)
    }
    await node.call('generatetoaddress', [1, miner], z.array(text))
  }
  return {from, to: from + blocks}
}

/** The floor. */
async function fetchDecoded(node: Bitcoind, from: number, to: number): Promise<number> {
  const Decoded = z.object({tx: z.array(z.object({vout: z.array(z.unknown())}))})
  const heights = Array.from({length: to - from}, (_, i) => from + 1 + i)
  const began = performance.now()
  const hashes = await node.batch(
    heights.map(height => ({method: 'getblockhash', params: [height]})),
    z.string(),
  )
  let outputs = 0
  let next = 0
  const lane = async () => {
    while (next < hashes.length) {
      const {tx} = await node.call('getblock', [hashes[next++], 2], Decoded)
      outputs += tx.reduce((sum, {vout}) => sum + vout.length, 0)
    }
  }
  await Promise.all(Array.from({length: 5}, lane))
  return outputs / ((performance.now() - began) / 1000)
}

/** The indexer's code, from an empty table of blocks to the head. */
async function scan({ownerUrl, pool}: Bench, node: Bitcoind, from: number, to: number): Promise<number> {
  const url = roleUrl(ownerUrl, 'sluice_indexer')
  const db = openPool(url, {name: 'bench', max: 2})
  const cursor = new ChainCursor(db, 'BTC')
  const source = new NodeSource({
    node,
    db,
    settings: bitcoinSettings(readSettings({BTC_NETWORK: 'regtest'}).chains.get('BTC')),
  })
  const anchor = await source.blockAt(from)
  const caip2 = await source.network()
  await cursor.anchor(caip2, anchor!.height, anchor!.hash, anchor!.time)
  let outputs = 0
  const follower = new Follower({
    database: new ChainDatabase(url, 'BTC'),
    cursor,
    source,
    network: caip2,
    log: logger('bench'),
    pollMs: 1,
    horizon: 2, // all but the last blocks are caught up with, as the bulk of a chain is
    write: async (store, read) => {
      await writeBlocks(store, read, {chain: 'BTC', display: address => address})
      outputs += read.reduce((sum, {candidates}) => sum + candidates.length, 0)
    },
  })
  while ((follower.tip?.height ?? from) < from + blocks / 5) await follower.round() // warms up, like the floor
  const [began, before] = [performance.now(), outputs]
  while (follower.tip?.height !== to) await follower.round()
  const rate = (outputs - before) / ((performance.now() - began) / 1000)
  await advanceFinality(source, cursor)
  const {rows} = await pool.query<{deposits: string}>(
    `select count(*) as deposits from app.deposit where sender <> 'unknown'`,
  )
  const expected = (blocks * transactionsPerBlock * outputsPerTransaction) / oursEvery
  if (Number(rows[0]!.deposits) !== expected) throw new Error(`${rows[0]!.deposits} deposits instead of ${expected}`)
  await follower.forget()
  await db.end()
  return rate
}

/** The witness program of our n-th address. */
function programOf(n: number): Uint8Array {
  return Buffer.from(`${n}`.padStart(20, 'o'))
}

function addressOf(program: Uint8Array): string {
  return addressOfScript(Buffer.concat([Uint8Array.of(0, 20), program]), regtest('BTC'))!
}
