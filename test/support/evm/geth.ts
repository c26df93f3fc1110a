// A real geth on a private chain of its own, with a block each second. GETH_BIN names the program; test/install-geth
// builds it. Its development mode has rules of its own choice, so the chain begins with a first block that says which.
import {type ChildProcess, execFile, spawn} from 'node:child_process'
import {once} from 'node:events'
import {existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {promisify} from 'node:util'
import {type Hex, numberToHex} from 'viem'
import {generatePrivateKey, privateKeyToAddress} from 'viem/accounts'
import {portsInARow} from '../ports.ts'
import {until} from '../until.ts'

const program = process.env.GETH_BIN ?? ''
if (program && !existsSync(program)) throw new Error(`GETH_BIN is ${program}, which does not exist`)
export const hasGeth = program !== ''
if (!hasGeth) console.warn('Nothing is tested with geth: GETH_BIN is not set (test/install-geth builds it).')

const million = 10n ** 24n

/** Times of forks beside those that the development mode has; every fork is there from the first block on. */
export const rules = {
  /** As on the main network since January 2026: Osaka, and the second change of its blobs. */
  today: {bpo1Time: 0, bpo2Time: 0},
  amsterdam: {bpo1Time: 0, bpo2Time: 0, amsterdamTime: 0},
}
const blobs = {
  bpo1: {target: 10, max: 15, baseFeeUpdateFraction: 8_346_193},
  bpo2: {target: 14, max: 21, baseFeeUpdateFraction: 11_684_671},
}

export class Geth {
  /** Of an account with a million coins. */
  readonly key: Hex
  readonly wsUrl: string
  readonly #directory: string
  readonly #child: ChildProcess

  private constructor(directory: string, port: number, {child, key}: {child: ChildProcess; key: Hex}) {
    this.#directory = directory
    this.#child = child
    this.key = key
    this.wsUrl = `ws://127.0.0.1:${port}`
  }

  static async start(forks: Record<string, number>): Promise<Geth> {
    const directory = mkdtempSync(path.join(tmpdir(), 'geth-'))
    const key = generatePrivateKey()
    const file = path.join(directory, 'genesis.json')
    writeFileSync(file, JSON.stringify(await genesis(forks, key)))
    const data = path.join(directory, 'data')
    await promisify(execFile)(program, ['--datadir', data, 'init', file])
    const port = await portsInARow(2)
    const log = openSync(path.join(directory, 'log'), 'a')
    const child = spawn(program, flags(data, port), {stdio: ['ignore', log, log]})
    const geth = new Geth(directory, port, {child, key})
    try {
      await geth.#untilItMines(port)
      return geth
    } catch (error) {
      await geth.stop()
      throw error
    }
  }

  async #untilItMines(port: number): Promise<void> {
    const body = JSON.stringify({jsonrpc: '2.0', id: 1, method: 'eth_blockNumber', params: []})
    const mines = async () => {
      if (this.#child.exitCode !== null) return true
      const headers = {'content-type': 'application/json'}
      const response = await fetch(`http://127.0.0.1:${port}`, {method: 'POST', headers, body})
      return Number(((await response.json()) as {result: string}).result) > 0
    }
    await until(mines, {timeoutMs: 60_000, intervalMs: 100, what: 'a block of geth'})
    if (this.#child.exitCode !== null) throw new Error(`geth ended:\n${this.#log()}`)
  }

  #log(): string {
    return readFileSync(path.join(this.#directory, 'log'), 'utf8')
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode === null) {
      const exited = once(this.#child, 'exit')
      this.#child.kill('SIGKILL')
      await exited
    }
    rmSync(this.#directory, {recursive: true})
  }
}

/** An archive, because traces of blocks that are read again need the state of then. */
function flags(data: string, port: number): string[] {
  const reached = ['http', 'ws'].flatMap(name => [`--${name}`, `--${name}.port`, `${port}`])
  return [
    ...['--dev', '--dev.period', '1', '--datadir', data, '--gcmode', 'archive'],
    ...reached,
    ...['--http.api', 'eth,net,web3,debug', '--ws.api', 'eth,net,web3,debug'],
    ...['--authrpc.port', `${port + 1}`, '--port', '0', '--nodiscover', '--maxpeers', '0', '--ipcdisable'],
  ]
}

/**
 * The first block of the development mode, with other forks, a rich account, and the main network's room: from
 * Amsterdam on, code takes more of it.
 */
async function genesis(forks: Record<string, number>, key: Hex): Promise<object> {
  const {stdout} = await promisify(execFile)(program, ['--dev', 'dumpgenesis'], {maxBuffer: 2 ** 26})
  const {config, alloc, ...rest} = JSON.parse(stdout)
  const {bogotaTime: _, blobSchedule, ...others} = config
  return {
    ...rest,
    gasLimit: numberToHex(60_000_000),
    config: {...others, ...forks, blobSchedule: {...blobSchedule, ...blobs}},
    alloc: {...alloc, [privateKeyToAddress(key).slice(2)]: {balance: `0x${million.toString(16)}`}},
  }
}
