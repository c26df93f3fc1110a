// Starts the process of a local chain from a test or a benchmark. (The service's supervisor has its own way, by path.)
import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import {createInterface} from 'node:readline'
import {fileURLToPath} from 'node:url'
import type {LocalChainCode} from './constants.ts'
import {connect, type LocalChainClient} from './evm.ts'
import {Devnet} from './file.ts'

export type StartedDevnet = {
  devnet: Devnet
  client: LocalChainClient
  process: ChildProcess
  /** SIGTERM; resolves once the process has ended, its anvil with it. The chain stays in its directory. */
  stop(): Promise<void>
}

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
  const main = fileURLToPath(new URL('main.ts', import.meta.url))
  const child = spawn(
    process.execPath,
    [main, '--chain', chain, '--dir', dir, '--block-interval-ms', String(blockIntervalMs)],
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
  const devnet = Devnet.parse(JSON.parse(line))
  return {
    devnet,
    client: await connect(devnet.rpc_url),
    process: child,
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
    },
  }
}
