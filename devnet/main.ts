// The process of one local chain: node devnet/main.ts --chain ETH --dir DIR [--block-interval-ms 1000] [--node NODE]
// Promises: DIR/devnet.json says where the chain is, and is there only while it serves; a second process for the same
// DIR prints what the first one serves and ends; SIGTERM and SIGINT end it and its engine within 5 s; after any kill -9
// the next start continues with exactly the same blocks. With an interval of 0 it mines on request only. A chain on
// which nothing happens costs its machine little: its blocks become rare until there is a transaction again.
import {mkdirSync, realpathSync, rmSync} from 'node:fs'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {parseArgs} from 'node:util'
import {writeWhole} from '../base/home.ts'
import {logger} from '../base/log.ts'
import {type ChainCode, chains, findChain} from '../chains/registry.ts'
import {familyOf} from './families.ts'
import type {DevnetFamily, Opened, Serving} from './family.ts'
import {type Devnet, readDevnet} from './file.ts'
import {JournalInUse} from './sqlite.ts'

const adoptTimeoutMs = 30_000
const stopTimeoutMs = 4_000
/** Longer than what begins with a transaction: by then, it is final or past its end. */
const quietAfterMs = 90_000
const quietIntervalMs = 10_000

const {chain: code, family, dir, blockIntervalMs, node} = await options()
const log = logger(`devnet-${code.toLowerCase()}`)
process.stdout.on('error', () => {}) // the reader may be gone

mkdirSync(dir, {recursive: true})
const opened = await open()
rmSync(path.join(dir, 'devnet.json'), {force: true}) // left by a killed process
let serving: Serving | undefined
let stopping = false
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, stop)

serving = await opened.serve({directory: realpathSync(dir), blockIntervalMs, log})
const devnet: Devnet = {chain: code, pid: process.pid, ...serving.where, started_at: new Date().toISOString()}
writeWhole(path.join(dir, 'devnet.json'), JSON.stringify(devnet, null, 2))
console.log(JSON.stringify(devnet))
if (blockIntervalMs > 0) await mineForEver(serving)

async function mineForEver(serving: Serving): Promise<void> {
  let changedAt = Date.now()
  let wake = () => {}
  opened.journal.onChange = () => {
    changedAt = Date.now()
    wake()
  }
  for (let next = Date.now() + blockIntervalMs; ; next = Math.max(next + blockIntervalMs, Date.now())) {
    await sleep(next - Date.now())
    if (Date.now() - changedAt > quietAfterMs && !opened.journal.pool().length) {
      const change = new Promise<void>(resolve => {
        wake = resolve
      })
      await Promise.race([change, sleep(Math.max(0, quietIntervalMs - blockIntervalMs))])
    }
    try {
      await serving.mine()
    } catch (error) {
      if (stopping) return
      log.error({error: String(error)}, 'could not mine a block; trying again at the next interval')
    }
  }
}

/** Opens the chain's journal. If a running process has it, prints what that process serves and ends this one. */
async function open(): Promise<Opened> {
  for (const deadline = Date.now() + adoptTimeoutMs; ; await sleep(100)) {
    try {
      return await family.open(code, path.join(dir, 'chain.sqlite'), node)
    } catch (error) {
      if (!(error instanceof JournalInUse)) throw error
      const serving = await servedByAnother()
      if (serving) {
        console.log(JSON.stringify(serving))
        process.exit(0)
      }
      if (Date.now() > deadline)
        throw new Error(`another process holds the local chain in ${dir} but does not serve it; end that process`)
    }
  }
}

async function servedByAnother(): Promise<Devnet | undefined> {
  const devnet = readDevnet(dir)
  if (!devnet) return undefined
  if (devnet.chain !== code) throw new Error(`${dir} holds the local chain of ${devnet.chain}, not of ${code}`)
  return await family.connect(devnet.control_url).then(
    ({chain}) => (chain === code ? devnet : undefined),
    () => undefined,
  )
}

async function stop(): Promise<void> {
  stopping = true
  setTimeout(() => process.exit(1), stopTimeoutMs).unref()
  rmSync(path.join(dir, 'devnet.json'), {force: true})
  await serving?.close()
  opened.journal.close()
  process.exit(0)
}

interface Options {
  chain: ChainCode
  family: DevnetFamily
  dir: string
  blockIntervalMs: number
  node?: string
}

async function options(): Promise<Options> {
  const {values} = parseArgs({
    options: {
      chain: {type: 'string'},
      dir: {type: 'string'},
      'block-interval-ms': {type: 'string'},
      node: {type: 'string'},
    },
  })
  const {dir, node} = values
  const chain = findChain(values.chain ?? '')?.code
  const family = chain && (await familyOf(chain))
  const blockIntervalMs = Number(values['block-interval-ms'] ?? family?.blockIntervalMs)
  const isNode = node === undefined || family?.nodes.includes(node)
  if (!family || !dir || !(blockIntervalMs >= 0) || !isNode) {
    const codes = chains.map(({code}) => code).join('|')
    const nodes = family ? family.nodes.join('|') : 'NODE'
    console.error(`usage: node devnet/main.ts --chain ${codes} --dir DIR [--block-interval-ms 1000] [--node ${nodes}]`)
    process.exit(2)
  }
  return {chain, family, dir, blockIntervalMs, node}
}
