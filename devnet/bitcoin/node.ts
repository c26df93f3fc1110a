// One Bitcoin node as an engine: it checks transactions and blocks, and has no data that is not in the journal.
// bitcoind has a data directory, which is a cache: data lost in a kill returns from the journal. bcoin has only its
// memory. Promises: a call returns the node's response, or the node's error, or says that the engine is gone.
import type {ChildProcess} from 'node:child_process'
import {accessSync, constants, existsSync, mkdirSync} from 'node:fs'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import {Pool} from 'undici'
import {z} from 'zod'
import {Engine, EngineGone, RpcError, startEngine} from '../engine.ts'
import {freePort} from '../listen.ts'

export type NodeKind = 'bcoin' | 'bitcoind'

const startTimeoutMs = 30_000
const callTimeoutMs = 60_000
const stopTimeoutMs = 3000
const user = 'sluice'
const authorization = `Basic ${Buffer.from(`${user}:${user}`).toString('base64')}`
const bcoinMain = fileURLToPath(new URL('bcoin/main.cjs', import.meta.url))

const Response = z.object({
  result: z.unknown().optional(),
  error: z.object({code: z.number(), message: z.string()}).nullish(),
})

/**
 * The bitcoind of BITCOIND_BIN, or the one on PATH; undefined if there is none. Throws if BITCOIND_BIN is not an
 * executable file.
 */
export function findBitcoind(): string | undefined {
  const named = process.env.BITCOIND_BIN
  if (named && !isProgram(named)) throw new Error(`BITCOIND_BIN is ${named}, which is not an executable file`)
  return (
    named ||
    (process.env.PATH ?? '')
      .split(path.delimiter)
      .map(dir => path.join(dir, 'bitcoind'))
      .find(isProgram)
  )
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

export class BitcoinNode extends Engine {
  readonly #kind: NodeKind
  readonly #http: Pool
  #said = ''

  private constructor(kind: NodeKind, child: ChildProcess, port: number) {
    super(child)
    this.#kind = kind
    const timeouts = {headersTimeout: callTimeoutMs, bodyTimeout: callTimeoutMs}
    this.#http = new Pool(`http://127.0.0.1:${port}`, {connections: 8, ...timeouts})
    child.once('exit', () => this.#http.destroy())
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', chunk => {
        this.#said = `${this.#said}${chunk}`.slice(-2000)
      })
  }

  /** Starts the node of a chain's directory, and resolves once it responds. */
  static async start(directory: string, kind: NodeKind): Promise<BitcoinNode> {
    const port = await freePort()
    const home = path.join(directory, kind)
    mkdirSync(home, {recursive: true})
    const {command, environment} = kind === 'bcoin' ? bcoin(home, port) : bitcoind(home, port)
    const child = await startEngine(directory, {name: kind, mark: home, command, environment})
    const node = new BitcoinNode(kind, child, port)
    try {
      await node.#untilReady()
    } catch (error) {
      await node.kill()
      throw error
    }
    return node
  }

  async #untilReady(): Promise<void> {
    for (const deadline = Date.now() + startTimeoutMs; ; await sleep(20)) {
      try {
        await this.call('getblockcount', [])
        return
      } catch (cause) {
        if (this.alive && Date.now() < deadline) continue // it refuses connections, or reports that it is loading
        throw new EngineGone(`the Bitcoin node did not start: ${this.#said.trim()}`, {cause})
      }
    }
  }

  /** Rejects with RpcError when the node refuses, and with EngineGone when there is no response. */
  async call(method: string, params: unknown[]): Promise<unknown> {
    const {body} = await this.forward('/', JSON.stringify({jsonrpc: '1.0', id: 1, method, params}))
    let response: z.infer<typeof Response>
    try {
      response = Response.parse(JSON.parse(body.toString()))
    } catch (cause) {
      throw new EngineGone(`the Bitcoin node sent no response to ${method}`, {cause})
    }
    if (response.error) throw new RpcError(response.error)
    return response.result
  }

  /** Submits blocks in this order, on the best branch or beside it. Resolves to the node's error for a refused one. */
  async submitBlocks(raws: string[]): Promise<string | undefined> {
    const calls = raws.map((raw, id) => ({jsonrpc: '1.0', id, method: 'submitblock', params: [raw]}))
    const {body} = await this.forward('/', JSON.stringify(calls))
    const responses = z.array(Response).safeParse(JSON.parse(body.toString()))
    if (!responses.success) throw new EngineGone('the Bitcoin node sent no response to submitblock')
    const said = responses.data.map(({result, error}) => String(error?.message ?? result ?? 'taken'))
    return said.find(word => !/^(taken|inconclusive|duplicate|duplicate-inconclusive)$/.test(word))
  }

  /** Removes transactions from the mempool. False if the node would need a restart for that. */
  async forget(txids: string[]): Promise<boolean> {
    if (this.#kind === 'bitcoind') return false
    await this.call('forget', [txids])
    return true
  }

  /** A request and its response, both unchanged. */
  async forward(target: string, request?: string): Promise<{status: number; body: Buffer}> {
    try {
      const {statusCode, body} = await this.#http.request({
        path: target,
        method: request === undefined ? 'GET' : 'POST',
        headers: {'content-type': 'application/json', authorization: authorization},
        body: request,
      })
      return {status: statusCode, body: Buffer.from(await body.arrayBuffer())}
    } catch (cause) {
      throw new EngineGone('the Bitcoin node did not respond', {cause})
    }
  }

  /** Stops it cleanly, so that bitcoind's data directory stays complete. */
  async stop(): Promise<void> {
    const timer = setTimeout(() => void this.kill(), stopTimeoutMs)
    await this.end('SIGTERM')
    clearTimeout(timer)
  }
}

function bitcoind(home: string, port: number): {command: string[]; environment?: NodeJS.ProcessEnv} {
  const binary = findBitcoind()
  if (!binary) throw new Error('there is no bitcoind: BITCOIND_BIN is not set, and none is on PATH')
  const options = {
    regtest: 1,
    datadir: home,
    server: 1,
    rest: 1,
    txindex: 1,
    listen: 0,
    connect: 0,
    dnsseed: 0,
    disablewallet: 1,
    persistmempool: 0,
    maxtipage: 10 ** 9, // accept work on an old chain, too
    dbcache: 16,
    par: 1,
    rpcbind: '127.0.0.1',
    rpcallowip: '127.0.0.1',
    rpcport: port,
    rpcuser: user,
    rpcpassword: user,
    rpcservertimeout: 3600,
    debuglogfile: 0,
    printtoconsole: 0,
  }
  return {command: [binary, ...Object.entries(options).map(([name, value]) => `-${name}=${value}`)]}
}

function bcoin(home: string, port: number): {command: string[]; environment: NodeJS.ProcessEnv} {
  if (!existsSync(new URL('bcoin/node_modules/bcoin', import.meta.url)))
    throw new Error('bcoin is not installed; run npm install (or npm ci --prefix devnet/bitcoin/bcoin)')
  const environment = {...process.env, NODE_BACKEND: 'js'} // its native parts are not compiled
  return {command: [process.execPath, bcoinMain, '--port', String(port), '--dir', home], environment}
}
