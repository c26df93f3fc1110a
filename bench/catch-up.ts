// Catching up with a chain: blocks/s of the real indexer process over a bare loop that only fetches and parses the same
// blocks and receipts from the same server, with 1,000,000 or 100,000 provisioned addresses. Also how many blocks a
// second one core can verify against their roots, which is part of the indexer's work, and the rate over a loop that
// would do this afterwards, which is computed.
import {type ChildProcess, execFile, fork, spawn} from 'node:child_process'
import {once} from 'node:events'
import {readFileSync} from 'node:fs'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {RpcClient} from '@subsquid/rpc-client'
import {Agent, request} from 'undici'
import {roleUrl} from '../db/migrate/migrate.ts'
import type {FetchedBlock} from '../indexers/evm/block.ts'
import {fetchRange} from '../indexers/evm/catch-up.ts'
import {verifyBlock} from '../indexers/evm/verify-block.ts'
import {type Bench, provision, withDatabase} from './database.ts'
import {inWords, type MadeChain} from './follow.ts'
import {usdc} from './replay-server.ts'
import type {Report} from './result.ts'

const run = promisify(execFile)
const subsquid = fileURLToPath(new URL('subsquid.ts', import.meta.url))

const hotBlocks = 100 // the newest blocks are followed one by one; catching up ends below them

export async function benchCatchUp(report: Report): Promise<void> {
  await catchUp(report, {blocks: 10_000, perBlock: 5, addresses: 1_000_000}, '0.3')
  await catchUp(report, {blocks: 1200, perBlock: 150, addresses: 100_000}, '0.55')
}

export async function catchUp(report: Report, chain: MadeChain, aim?: string): Promise<void> {
  const {blocks, perBlock, addresses} = chain
  const server = fork(new URL('replay-server.ts', import.meta.url), [String(blocks), String(perBlock)])
  const [{port}] = await once(server, 'message')
  const url = `http://127.0.0.1:${port}`
  const [warmUp, upTo] = [Math.floor(blocks / 5), blocks - hotBlocks]
  try {
    await bareLoop(url, warmUp) // as the indexer is allowed to below
    const before = await bareLoop(url, upTo)
    const {rate, memoryMb, cpuUsPerBlock} = await withDatabase(async bench => {
      await provision(bench.pool, 'ETH', addresses, `'0x' || lpad(to_hex(n), 8, '0') || repeat('a', 32)`)
      return indexer(bench, url, upTo)
    })
    const checks = await checkRate(url, upTo)
    const common = {floor: Math.max(before, await bareLoop(url, upTo)), unit: 'blocks/s'}
    const what = `Ethereum: catch-up, ${inWords(chain)}`
    report({what, value: rate, ...common, aim})
    report({what: `${what}: verifying roots, and nothing else`, value: checks, ...common, isReference: true})
    const inTurn = 1 / (1 / common.floor + 1 / checks)
    report({what: `${what}, over the loop and then this, as computed`, value: rate, unit: 'blocks/s', floor: inTurn})
    report({what: `${what}: CPU of the indexer for a block`, value: cpuUsPerBlock, unit: 'µs'})
    report({what: `${what}: peak memory of the indexer`, value: memoryMb, unit: 'MB'})
    const ran = await run(process.execPath, [subsquid, url, String(warmUp), String(upTo)])
    report({
      what: `${what}: unmodified evm-processor, storing nothing`,
      value: Number(ran.stdout),
      ...common,
      isReference: true,
    })
  } finally {
    server.kill()
  }
}

/** The floor: batches of ten blocks and their receipts, five at a time, fetched and parsed. */
async function bareLoop(url: string, count: number): Promise<number> {
  const agent = new Agent({connections: 5})
  const began = performance.now()
  let next = 1
  const batch = async (heights: number[]) => {
    const calls = heights.flatMap((height, i) => [
      {jsonrpc: '2.0', id: 2 * i, method: 'eth_getBlockByNumber', params: [`0x${height.toString(16)}`, true]},
      {jsonrpc: '2.0', id: 2 * i + 1, method: 'eth_getBlockReceipts', params: [`0x${height.toString(16)}`]},
    ])
    const {body} = await request(url, {
      method: 'POST',
      dispatcher: agent,
      body: JSON.stringify(calls),
      headers: {'content-type': 'application/json'},
    })
    const responses = (await body.json()) as unknown[]
    if (responses.length !== calls.length) throw new Error('the server left responses out')
  }
  const lane = async () => {
    while (next <= count) {
      const from = next
      next += 10
      await batch(Array.from({length: Math.min(10, count - from + 1)}, (_, i) => from + i))
    }
  }
  await Promise.all(Array.from({length: 5}, lane))
  await agent.close()
  return count / ((performance.now() - began) / 1000)
}

/** For blocks in memory. */
async function checkRate(url: string, count: number): Promise<number> {
  const client = new RpcClient({url, capacity: 10, maxBatchCallSize: 100, log: null})
  const fetched: FetchedBlock[] = []
  for await (const batch of fetchRange(client, 1, count)) fetched.push(...batch)
  client.close()
  const began = performance.now()
  for (const block of fetched) verifyBlock(block, false)
  return count / ((performance.now() - began) / 1000)
}

interface Indexed {
  rate: number
  /** Peak memory. */
  memoryMb: number
  /** CPU time for a block. With other work on the machine, it is more reliable than the rate. */
  cpuUsPerBlock: number
}

/** The real process, which also derives deposits, writes blocks and follows finality. */
async function indexer({ownerUrl, pool}: Bench, url: string, upTo: number): Promise<Indexed> {
  const child = spawn(process.execPath, [new URL('../indexers/main.ts', import.meta.url).pathname, '--chain', 'ETH'], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...process.env,
      LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn',
      DATABASE_URL: roleUrl(ownerUrl, 'sluice_indexer'),
      ETH_RPC_URL: url,
      ETH_CHAIN_ID: '1337',
      ETH_USDC_CONTRACT: usdc,
      ETH_START_HEIGHT: '1',
    },
  })
  const head = async () => {
    const {rows} = await pool.query<{height: number}>(
      `select head_height as height from chain.cursor where chain = 'ETH'`,
    )
    return rows[0]?.height ?? 0
  }
  try {
    const first = await reached(head, Math.floor(upTo / 5), child)
    const [began, cpuBefore] = [performance.now(), cpuMs(child)]
    const last = await reached(head, upTo, child)
    const rate = (last - first) / ((performance.now() - began) / 1000)
    const cpuUsPerBlock = ((cpuMs(child) - cpuBefore) / (last - first)) * 1000
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
    return {rate, cpuUsPerBlock, memoryMb: Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024}
  } finally {
    child.kill()
    await once(child, 'exit')
  }
}

/** CPU time so far, in user and kernel mode (proc(5): fields 14 and 15, in hundredths of a second). */
function cpuMs({pid}: ChildProcess): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

async function reached(head: () => Promise<number>, height: number, child: ChildProcess): Promise<number> {
  for (;;) {
    if (child.exitCode !== null) throw new Error(`the indexer ended with code ${child.exitCode}`)
    const at = await head()
    if (at >= height) return at
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}
