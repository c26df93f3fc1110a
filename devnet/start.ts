// Starts the process of a local chain from a test or a benchmark. (The service's supervisor has its own way, by path.)
import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import {createInterface} from 'node:readline'
import {fileURLToPath} from 'node:url'
import {type BitcoinClient, connectBitcoin} from './bitcoin/client.ts'
import type {NodeKind} from './bitcoin/node.ts'
import {connect, type LocalChainClient} from './evm/client.ts'
import type {LocalChainCode} from './evm/constants.ts'
import {type BitcoinDevnet, type Devnet, type EvmDevnet, parseDevnet} from './file.ts'

interface Running {
  process: ChildProcess
  /** SIGTERM; resolves once the process has ended, its engine with it. The chain stays in its directory. */
  stop(): Promise<void>
}

export type StartedDevnet = Running & {devnet: EvmDevnet; client: LocalChainClient}
export type StartedBitcoin = Running & {devnet: BitcoinDevnet; client: BitcoinClient}

/**
 * Starts the chain of `dir`, new or as it was left, and resolves once it serves. It mines on request only, unless an
 * interval is given. Rejects with what the process said when it ends instead.
 */
export async function startDevnet({
  chain,
  dir,
  blockIntervalMs = 0,
}: {
  chain: LocalChainCode
  dir: string
  blockIntervalMs?: number
}): Promise<StartedDevnet> {
  const {devnet, ...running} = await start(chain, dir, blockIntervalMs)
  if (devnet.chain === 'BTC') throw new Error(`${dir} is of Bitcoin`)
  return {...running, devnet, client: await connect(devnet.rpc_url)}
}

/** The same for Bitcoin, on this node, or on the one that the process chooses. */
export async function startBitcoinDevnet({
  dir,
  node,
  blockIntervalMs = 0,
}: {
  dir: string
  node?: NodeKind
  blockIntervalMs?: number
}): Promise<StartedBitcoin> {
  const {devnet, ...running} = await start('BTC', dir, blockIntervalMs, node ? ['--node', node] : [])
  if (devnet.chain !== 'BTC') throw new Error(`${dir} is of ${devnet.chain}`)
  return {...running, devnet, client: await connectBitcoin(devnet.rpc_url)}
}

async function start(
  chain: string,
  dir: string,
  blockIntervalMs: number,
  more: string[] = [],
): Promise<Running & {devnet: Devnet}> {
  const main = fileURLToPath(new URL('main.ts', import.meta.url))
  const child = spawn(
    process.execPath,
    [main, '--chain', chain, '--dir', dir, '--block-interval-ms', String(blockIntervalMs), ...more],
    {stdio: ['ignore', 'pipe', 'pipe'], env: {...process.env, LOG_LEVEL: 'warn'}},
  )
  let said = ''
  child.stderr.on('data', chunk => {
    said = `${said}${chunk}`.slice(-2000)
  })
  const line = await new Promise<string>((resolve, reject) => {
    createInterface({input: child.stdout}).once('line', resolve)
    child.once('error', reject)
    child.once('close', code =>
      reject(new Error(`the local ${chain} chain did not start (exit code ${code}): ${said}`)),
    )
  })
  return {
    devnet: parseDevnet(line),
    process: child,
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
    },
  }
}
