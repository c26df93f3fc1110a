// Starts the process of a local chain from a test or a benchmark. (The service's supervisor has its own way, by path.)
import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import {createInterface} from 'node:readline'
import {fileURLToPath} from 'node:url'
import type {ChainCode} from '../chains/registry.ts'
import type {LocalClient} from './client.ts'
import type {DevnetFamily} from './family.ts'
import {type Devnet, parseDevnet} from './file.ts'

export interface Started<Client> {
  devnet: Devnet
  client: Client
  process: ChildProcess
  /** SIGTERM; resolves once the process has ended, its engine with it. The chain stays in its directory. */
  stop(): Promise<void>
}

export interface StartOptions {
  chain: ChainCode
  dir: string
  /** One of the family's nodes; absent: the process chooses. */
  node?: string
  blockIntervalMs?: number
}

/**
 * Starts the chain of `dir`, new or as it was left, and resolves once it serves. It mines on request only, unless an
 * interval is given. Rejects with the output of the process if it ends instead.
 */
export async function startDevnet<Client extends LocalClient>(
  {connect}: DevnetFamily<Client>,
  {chain, dir, node, blockIntervalMs = 0}: StartOptions,
): Promise<Started<Client>> {
  const main = fileURLToPath(new URL('main.ts', import.meta.url))
  const child = spawn(
    process.execPath,
    [
      main,
      '--chain',
      chain,
      '--dir',
      dir,
      '--block-interval-ms',
      String(blockIntervalMs),
      ...(node ? ['--node', node] : []),
    ],
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
  const devnet = parseDevnet(line)
  return {
    devnet,
    client: await connect(devnet.control_url),
    process: child,
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
    },
  }
}
