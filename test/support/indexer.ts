// The real indexer process, as the supervisor runs it: with the role of an indexer alone, and started again when it ends by itself.
import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import {createInterface} from 'node:readline'
import {fileURLToPath} from 'node:url'
import type {TestContext} from 'vitest'
import type {ChainCode} from '../../chains/registry.ts'
import {type TestDatabase, testDatabase} from './database.ts'
import {Anvil, localChainId} from './evm/anvil.ts'
import {makeMerchant, makeUser, type TestUser} from './people.ts'
import {RpcProxy} from './rpc-proxy.ts'
import {until} from './until.ts'

const main = fileURLToPath(new URL('../../indexers/main.ts', import.meta.url))
const restartAfterMs = 100

export interface IndexerOptions {
  db: TestDatabase
  chain?: ChainCode
  /** The node of an EVM chain; what follows from it is set. */
  rpcUrl?: string
  /** Settings without the chain's prefix, such as {FINALITY: '3'}. */
  settings?: Record<string, string>
  /** Settings as they are. */
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
  /** Everything that it logged, over all starts. */
  readonly logs: LogLine[] = []
  /** How often it ended by itself, and how: exit codes, or signals that nobody here sent. */
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
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
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

  /** Ends it, and does not start it again. */
  async stop(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.#wanted = false
    const child = this.#child
    this.#child = undefined
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill(signal)
    await exited
  }

  /** As when the supervisor dies: the channel to it closes. */
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

/** The deposits of a transaction with everything that was said about them, in the order of their outputs. */
export function depositsOf(db: TestDatabase, txid: string, chain = 'ETH'): Promise<DepositRow[]> {
  return db.rows<DepositRow>(
    `select output_index as output, address, token, amount::text, status, credited, block_height as height, block_hash as hash,
       coalesce((select string_agg(substr(type, 9), ' ' order by position) from app.event where subject_id = d.id), '') as events
     from app.deposit d where chain = $1 and txid = $2 order by output_index, seq`,
    [chain, txid],
  )
}

export interface WorldOptions {
  transport?: 'ws' | 'http'
  slotsInAnEpoch?: number
  /** Settings of the indexer, without the chain's prefix. */
  settings?: Record<string, string>
}

/** What one test needs to itself: a database, a chain behind a node that can misbehave, somebody to pay, an indexer of ETH. */
export class World {
  readonly db: TestDatabase
  readonly anvil: Anvil
  readonly node: RpcProxy
  readonly user: TestUser
  readonly other: TestUser
  readonly indexer: Indexer

  private constructor(db: TestDatabase, anvil: Anvil, node: RpcProxy, users: [TestUser, TestUser], indexer: Indexer) {
    this.db = db
    this.anvil = anvil
    this.node = node
    ;[this.user, this.other] = users
    this.indexer = indexer
  }

  /** For one test alone, and cleared away after it. The indexer is not started yet. */
  static async create(test: Pick<TestContext, 'onTestFinished'>, options: WorldOptions = {}): Promise<World> {
    const {transport = 'ws', slotsInAnEpoch, settings} = options
    const [db, anvil] = await Promise.all([testDatabase(), Anvil.start({slotsInAnEpoch})])
    const node = await RpcProxy.start(anvil)
    const merchantId = await makeMerchant(db)
    const users: [TestUser, TestUser] = [await makeUser(db, merchantId), await makeUser(db, merchantId)]
    const rpcUrl = transport === 'ws' ? node.wsUrl : node.httpUrl
    const indexer = new Indexer({db, rpcUrl, settings: {USDC_CONTRACT: anvil.usdc, ...settings}})
    test.onTestFinished(async () => {
      await indexer.stop()
      await node.close()
      await anvil.stop()
      await db.drop()
    })
    return new World(db, anvil, node, users, indexer)
  }

  /** Mines, and waits until the indexer has it. */
  async mined(blocks = 1): Promise<number> {
    const head = await this.anvil.mine(blocks)
    await this.indexer.reaches(head)
    return head.height
  }

  /** A deposit to `user`, mined and seen. */
  async deposit({value = 5n, by = 1} = {}): Promise<{txid: string; raw: string; height: number}> {
    const txid = await this.anvil.send({by, to: this.user.address, value})
    const height = await this.mined()
    return {txid, raw: await this.anvil.raw(txid), height}
  }

  /** What became of it. */
  async history(txid: string): Promise<{to: string; amount: string; status: string; height: number; events: string}[]> {
    return (await depositsOf(this.db, txid)).map(({address, amount, status, height, events}) => {
      return {to: address === this.user.address ? 'user' : 'other', amount, status, height, events}
    })
  }

  async cursor(): Promise<Record<string, unknown>> {
    return (await this.db.rows('select * from chain.cursor'))[0]!
  }

  /** Everything that an indexer can have written, but for times at which it did. */
  async everything(): Promise<unknown> {
    const [row] = await this.db.rows(`select (select json_agg(b order by height) from chain.block b) as blocks,
      (select json_agg(t order by id) from chain.transfer t) as transfers,
      (select json_agg(d order by seq) from app.deposit d) as deposits,
      (select json_agg(e order by position) from app.event e) as events,
      (select json_agg(b) from app.balance_delta b) as balances,
      (select json_agg(json_build_object('head', head_hash, 'final', final_hash)) from chain.cursor c) as cursors,
      (select json_agg(s) from squid_eth.status s) as status, (select json_agg(h order by height) from squid_eth.hot_block h) as hot`)
    return row
  }
}
