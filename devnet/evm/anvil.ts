// One anvil process as an engine: it executes transactions and builds blocks, and has no data that is not in the
// journal. Promises: a call returns anvil's response, or anvil's error, or says that the engine is gone.
import type {ChildProcess} from 'node:child_process'
import {createRequire} from 'node:module'
import path from 'node:path'
import {createInterface} from 'node:readline'
import {Pool} from 'undici'
import {z} from 'zod'
import {Engine, EngineGone, RpcError, startEngine} from '../engine.ts'
import {mnemonic} from './constants.ts'

/** States of this many blocks below the head can be queried; each costs memory. */
export const keptStates = 128
const startTimeoutMs = 20_000
const callTimeoutMs = 5_000

const Response = z.object({
  result: z.unknown().optional(),
  error: z.object({code: z.number(), message: z.string(), data: z.unknown().optional()}).optional(),
})

export class Anvil extends Engine {
  readonly #http: Pool
  /** Blocks mined since it was started. */
  mined = 0
  /** The recipient of the next block's tips; undefined until set. */
  coinbase: string | undefined

  private constructor(child: ChildProcess, url: string) {
    super(child)
    this.#http = new Pool(url, {headersTimeout: callTimeoutMs, bodyTimeout: callTimeoutMs})
    child.once('exit', () => this.#http.destroy())
  }

  /** Starts an anvil with only the genesis block of the chain. `directory` is the chain's. */
  static async start(directory: string, {chainId, genesis}: {chainId: number; genesis: number}): Promise<Anvil> {
    const options = {
      port: 0,
      'chain-id': chainId,
      timestamp: genesis,
      mnemonic,
      balance: 1_000_000_000,
      // Later hardforks keep 8191 block hashes in the state (EIP-2935): mining then takes ten times as long, and a
      // snapshot has 550 KB instead of 1.
      hardfork: 'cancun',
      order: 'fifo',
      'slots-in-an-epoch': 4,
      'prune-history': keptStates,
      'cache-path': path.join(directory, 'anvil'), // never written; it identifies the process
    }
    const words = ['--no-mining', ...Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])]
    const mark = `--cache-path ${path.join(directory, 'anvil')}`
    const child = await startEngine(directory, {name: 'anvil', mark, command: [binary(), ...words]})
    const anvil = new Anvil(child, await address(child))
    await anvil.call('anvil_setLoggingEnabled', [false])
    return anvil
  }

  /** Rejects with RpcError when anvil refuses, and with EngineGone when there is no response. */
  async call(method: string, params: unknown[] = []): Promise<unknown> {
    let response: z.infer<typeof Response>
    try {
      const {body} = await this.#http.request({
        path: '/',
        method: 'POST',
        headers: {'content-type': 'application/json'},
        body: JSON.stringify({jsonrpc: '2.0', id: 1, method, params}),
      })
      response = Response.parse(await body.json())
    } catch (cause) {
      throw new EngineGone(`anvil did not respond to ${method}`, {cause})
    }
    if (response.error) throw new RpcError(response.error)
    return response.result
  }
}

/**
 * The anvil binary itself. npm's `anvil` is a Node program around it, and killing that would leave the binary running.
 */
function binary(): string {
  const architecture = process.arch === 'x64' ? 'amd64' : process.arch
  const name = `@foundry-rs/anvil-${process.platform}-${architecture}`
  const require = createRequire(createRequire(import.meta.url).resolve('@foundry-rs/anvil/package.json'))
  try {
    return path.join(path.dirname(require.resolve(`${name}/package.json`)), 'bin', 'anvil')
  } catch (cause) {
    throw new Error(`there is no anvil for this machine (package ${name}); set the chain's RPC variable instead`, {
      cause,
    })
  }
}

/** Resolves to the URL that anvil listens on. */
async function address(child: ChildProcess): Promise<string> {
  let said = ''
  child.stderr!.on('data', chunk => {
    said = `${said}${chunk}`.slice(-2000)
  })
  return await new Promise((resolve, reject) => {
    const fail = (why: string) => {
      clearTimeout(timer)
      child.kill('SIGKILL')
      reject(new EngineGone(`anvil did not start (${why}): ${said.trim()}`))
    }
    const timer = setTimeout(fail, startTimeoutMs, `silent for ${startTimeoutMs / 1000} s`)
    child.once('error', error => fail(error.message))
    child.once('exit', (code, signal) => fail(signal ?? `exit code ${code}`))
    createInterface({input: child.stdout!}).on('line', line => {
      const listening = /^Listening on (127\.0\.0\.1:\d+)/.exec(line)
      if (!listening) return
      clearTimeout(timer)
      resolve(`http://${listening[1]}`)
    })
  })
}
