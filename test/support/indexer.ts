// The real indexer process, as the supervisor runs it: with the role of an indexer only, and restarted when it ends
// unexpectedly.
import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import {createInterface} from 'node:readline'
import {fileURLToPath} from 'node:url'
import type {ChainCode} from '../../chains/registry.ts'
import type {TestDatabase} from './database.ts'
import {localChainId} from './evm/anvil.ts'
import {until} from './until.ts'

const main = fileURLToPath(new URL('../../indexers/main.ts', import.meta.url))
const restartAfterMs = 100

export interface IndexerOptions {
  db: TestDatabase
  chain?: ChainCode
  /** The node of an EVM chain; settings that depend on it are derived. */
  rpcUrl?: string
  /** Settings without the chain's prefix, such as {FINALITY: '3'}. */
  settings?: Record<string, string>
  /** Settings with their full names. */
  environment?: Record<string, string>
}

export interface LogLine {
  level: number
  msg: string
  [field: string]: unknown
}

export class Indexer {
  readonly chain: ChainCode
  readonly #options: IndexerOptions
  #child: ChildProcess | undefined
  #wanted = false
  /** Its whole log, over all starts. */
  readonly logs: LogLine[] = []
  /** Each unexpected end: exit code, or a signal that the test did not send. */
  readonly ends: (number | string)[] = []

  constructor(options: IndexerOptions) {
    this.#options = options
    this.chain = options.chain ?? 'ETH'
  }

  static start(options: IndexerOptions): Indexer {
    const indexer = new Indexer(options)
    indexer.start()
    return indexer
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  get alive(): boolean {
    return this.#child !== undefined
  }

  start(): void {
    this.#wanted = true
    const {db, rpcUrl, settings, environment} = this.#options
    const evm = rpcUrl && {RPC_URL: rpcUrl, CHAIN_ID: `${localChainId}`, TRACES: 'debug', START_HEIGHT: '1'}
    const prefixed = Object.entries({...evm, ...settings}).map(([name, value]) => [`${this.chain}_${name}`, value])
    const child = spawn(process.execPath, [main, '--chain', this.chain], {
      env: {
        PATH: process.env.PATH,
        NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
        DATABASE_URL: db.url('sluice_indexer'),
        LOG_LEVEL: process.env.LOG_LEVEL ?? 'info',
        ...Object.fromEntries(prefixed),
        ...environment,
      },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'], // it prints on stderr alone
    })
    this.#child = child
    createInterface({input: child.stderr!}).on('line', line => this.#heard(line))
    child.once('exit', (code, signal) => {
      if (this.#child !== child) return
      this.#child = undefined
      this.ends.push(signal ?? code!)
      setTimeout(() => this.#wanted && !this.#child && this.start(), restartAfterMs)
    })
  }

  #heard(line: string): void {
    if (process.env.TEST_LOGS) console.log(this.chain, line)
    try {
      this.logs.push(JSON.parse(line))
    } catch {
      this.logs.push({level: 60, msg: line}) // what Node prints when a process crashes
    }
  }

  said(text: string): boolean {
    return this.logs.some(({msg}) => msg.includes(text))
  }

  /** Ends it without a restart. */
  async stop(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.#wanted = false
    const child = this.#child
    this.#child = undefined
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill(signal)
    await exited
  }

  /** As when the supervisor dies: its channel closes. */
  disconnect(): void {
    this.#child?.disconnect()
  }

  async restart(signal?: NodeJS.Signals): Promise<void> {
    await this.stop(signal)
    this.start()
  }

  /** Waits until the newest indexed block is this one. */
  async reaches({height, hash}: {height: number; hash: string}, timeoutMs = 60_000): Promise<void> {
    const {db} = this.#options
    await until(
      async () => {
        const [at] = await db.rows<{hash: string}>('select head_hash as hash from chain.cursor where chain = $1', [
          this.chain,
        ])
        return at?.hash === hash
      },
      {timeoutMs, what: `the indexer of ${this.chain} at block ${height} (${hash}); it ended with ${this.ends}`},
    )
  }

  /** Waits until everything up to this height is final. */
  async finalises(height: number, timeoutMs = 60_000): Promise<void> {
    const {db} = this.#options
    await until(
      async () => {
        const [at] = await db.rows<{height: number}>(
          'select final_height as height from chain.cursor where chain = $1',
          [this.chain],
        )
        return at && at.height >= height
      },
      {timeoutMs, what: `height ${height} of ${this.chain} to be final`},
    )
  }
}

export interface DepositRow {
  output: number
  address: string
  token: string
  amount: string
  status: string
  credited: boolean
  height: number
  hash: string
  /** Its events, in order, without the prefix "deposit.". */
  events: string
}

/** The deposits of a transaction with all their events, ordered by output. */
export function depositsOf(db: TestDatabase, txid: string, chain = 'ETH'): Promise<DepositRow[]> {
  return db.rows<DepositRow>(
    `select output_index as output, address, token, amount::text, status, credited, block_height as height, block_hash as hash,
       coalesce((select string_agg(substr(type, 9), ' ' order by position) from app.event where subject_id = d.id), '') as events
     from app.deposit d where chain = $1 and txid = $2 order by output_index, seq`,
    [chain, txid],
  )
}
