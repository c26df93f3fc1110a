// The process of one local chain: node devnet/main.ts --chain ETH --dir DIR [--block-interval-ms 1000]
// Promises: DIR/devnet.json says where the chain is, and is there only while it serves; a second process for the same DIR
// prints what the first one serves and ends; SIGTERM and SIGINT end it and its anvil within 5 s; after any kill -9 the next
// start goes on with the very same blocks. With an interval of 0 it mines on request only.
import {mkdirSync, realpathSync, rmSync} from 'node:fs'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {parseArgs} from 'node:util'
import {writeWhole} from '../service/home.ts'
import {logger} from '../service/log.ts'
import {LocalChain} from './chain.ts'
import {isLocalChainCode, USDC_ADDRESS} from './constants.ts'
import {connect} from './evm.ts'
import {type Devnet, readDevnet} from './file.ts'
import {Journal, JournalInUse} from './journal.ts'
import {RpcServer} from './rpc.ts'

const ADOPT_TIMEOUT_MS = 30_000
const STOP_TIMEOUT_MS = 4_000

const {chain: code, dir, blockIntervalMs} = options()
const log = logger(`devnet-${code.toLowerCase()}`)
process.stdout.on('error', () => {}) // whoever started us may be gone

mkdirSync(dir, {recursive: true})
const journal = await openJournal()
rmSync(path.join(dir, 'devnet.json'), {force: true}) // of a process that was killed
let chain: LocalChain | undefined
let server: RpcServer | undefined
let stopping = false
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, stop)

chain = await LocalChain.open(code, realpathSync(dir), journal)
server = new RpcServer(chain, {blockIntervalMs, log})
const port = await server.listen(Number(journal.meta('port') ?? Number.NaN) || undefined)
journal.setMeta('port', String(port))
const devnet: Devnet = {
  pid: process.pid,
  chain: code,
  chain_id: chain.chainId,
  rpc_url: `ws://127.0.0.1:${port}`,
  usdc_address: USDC_ADDRESS,
  started_at: new Date().toISOString(),
}
writeWhole(path.join(dir, 'devnet.json'), JSON.stringify(devnet, null, 2))
console.log(JSON.stringify(devnet))
log.info({height: chain.head.height, port, block_interval_ms: blockIntervalMs}, 'the local chain serves')
if (blockIntervalMs > 0) await mineForEver(chain)

async function mineForEver(chain: LocalChain): Promise<void> {
  for (let next = Date.now() + blockIntervalMs; ; next = Math.max(next + blockIntervalMs, Date.now())) {
    await sleep(next - Date.now())
    try {
      await chain.mine(1)
    } catch (error) {
      if (stopping) return
      log.error({error: String(error)}, 'no block was mined; the next interval tries again')
    }
  }
}

/** Opens the chain's journal. Where a living process has it, tells what that one serves and ends this one. */
async function openJournal(): Promise<Journal> {
  for (const deadline = Date.now() + ADOPT_TIMEOUT_MS; ; await sleep(100)) {
    try {
      return new Journal(path.join(dir, 'chain.sqlite'))
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
  const info = await connect(devnet.rpc_url).catch(() => undefined)
  if (info && info.chain !== code) throw new Error(`${dir} holds the local chain of ${info.chain}, not of ${code}`)
  return info && devnet
}

async function stop(): Promise<void> {
  stopping = true
  setTimeout(() => process.exit(1), STOP_TIMEOUT_MS).unref()
  rmSync(path.join(dir, 'devnet.json'), {force: true})
  server?.close()
  await chain?.close()
  journal.close()
  process.exit(0)
}

function options() {
  const {values} = parseArgs({
    options: {chain: {type: 'string'}, dir: {type: 'string'}, 'block-interval-ms': {type: 'string', default: '1000'}},
  })
  const blockIntervalMs = Number(values['block-interval-ms'])
  if (!values.chain || !isLocalChainCode(values.chain) || !values.dir || !(blockIntervalMs >= 0)) {
    console.error('usage: node devnet/main.ts --chain ETH|POLYGON --dir DIR [--block-interval-ms 1000]')
    process.exit(2)
  }
  return {chain: values.chain, dir: values.dir, blockIntervalMs}
}
