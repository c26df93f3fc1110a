// The process of one local chain: node devnet/main.ts --chain ETH --dir DIR [--block-interval-ms 1000] [--node bcoin|bitcoind]
// Promises: DIR/devnet.json says where the chain is, and is there only while it serves; a second process for the same DIR
// prints what the first one serves and ends; SIGTERM and SIGINT end it and its engine within 5 s; after any kill -9 the next
// start goes on with the very same blocks. With an interval of 0 it mines on request only.
import {mkdirSync, realpathSync, rmSync} from 'node:fs'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {parseArgs} from 'node:util'
import {writeWhole} from '../base/home.ts'
import {logger} from '../base/log.ts'
import {openBitcoin} from './bitcoin/serve.ts'
import {connectTo, isLocal, type LocalCode} from './client.ts'
import {isLocalChainCode} from './evm/constants.ts'
import {openEvm} from './evm/serve.ts'
import type {Opened, Serving} from './family.ts'
import {type Devnet, readDevnet} from './file.ts'
import {JournalInUse} from './sqlite.ts'

const ADOPT_TIMEOUT_MS = 30_000
const STOP_TIMEOUT_MS = 4_000

const {chain: code, dir, blockIntervalMs, node} = options()
const log = logger(`devnet-${code.toLowerCase()}`)
process.stdout.on('error', () => {}) // whoever started us may be gone

mkdirSync(dir, {recursive: true})
const opened = await open()
rmSync(path.join(dir, 'devnet.json'), {force: true}) // of a process that was killed
let serving: Serving | undefined
let stopping = false
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, stop)

serving = await opened.serve({directory: realpathSync(dir), blockIntervalMs, log})
const devnet: Devnet = {pid: process.pid, ...serving.where, started_at: new Date().toISOString()}
writeWhole(path.join(dir, 'devnet.json'), JSON.stringify(devnet, null, 2))
console.log(JSON.stringify(devnet))
if (blockIntervalMs > 0) await mineForEver(serving)

async function mineForEver(serving: Serving): Promise<void> {
  for (let next = Date.now() + blockIntervalMs; ; next = Math.max(next + blockIntervalMs, Date.now())) {
    await sleep(next - Date.now())
    try {
      await serving.mine()
    } catch (error) {
      if (stopping) return
      log.error({error: String(error)}, 'no block was mined; the next interval tries again')
    }
  }
}

/** Opens the chain's journal. Where a living process has it, tells what that one serves and ends this one. */
async function open(): Promise<Opened> {
  const open = isLocalChainCode(code) ? openEvm(code) : openBitcoin(node)
  for (const deadline = Date.now() + ADOPT_TIMEOUT_MS; ; await sleep(100)) {
    try {
      return open(path.join(dir, 'chain.sqlite'))
    } catch (error) {
      if (!(error instanceof JournalInUse)) throw error
      const serving = await servedByAnother()
      if (serving) {
        console.log(JSON.stringify(serving))
        process.exit(0)
      }
      if (Date.now() > deadline)
        throw new Error(`another process has the local chain in ${dir} and does not serve it; end that process`)
    }
  }
}

async function servedByAnother(): Promise<Devnet | undefined> {
  const devnet = readDevnet(dir)
  if (!devnet) return undefined
  const client = await connectTo(devnet).catch(() => undefined)
  if (client && client.chain !== code)
    throw new Error(`${dir} holds the local chain of ${client.chain}, not of ${code}`)
  return client && devnet
}

async function stop(): Promise<void> {
  stopping = true
  setTimeout(() => process.exit(1), STOP_TIMEOUT_MS).unref()
  rmSync(path.join(dir, 'devnet.json'), {force: true})
  await serving?.close()
  opened.journal.close()
  process.exit(0)
}

function options(): {chain: LocalCode; dir: string; blockIntervalMs: number; node?: 'bcoin' | 'bitcoind'} {
  const {values} = parseArgs({
    options: {
      chain: {type: 'string'},
      dir: {type: 'string'},
      'block-interval-ms': {type: 'string'},
      node: {type: 'string'},
    },
  })
  const {chain, dir, node} = values
  const blockIntervalMs = Number(values['block-interval-ms'] ?? (chain === 'BTC' ? 2000 : 1000))
  const isNode = node === undefined || node === 'bcoin' || node === 'bitcoind'
  if (!chain || !isLocal(chain) || !dir || !(blockIntervalMs >= 0) || !isNode) {
    console.error(
      'usage: node devnet/main.ts --chain ETH|POLYGON|BTC --dir DIR [--block-interval-ms 1000] [--node bcoin|bitcoind]',
    )
    process.exit(2)
  }
  return {chain, dir, blockIntervalMs, node}
}
