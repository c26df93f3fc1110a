// Payouts with everything that they need, as it is in production: a chain, its indexer, custody and workers as processes of their own, each
// with its role, and Postgres. The workers reach the chain through a node that can be told to misbehave; the indexer reads it directly.
// Blocks are mined when a transaction waits, unless a test takes that into its own hands.
import {type ChildProcess, fork} from 'node:child_process'
import {randomBytes} from 'node:crypto'
import {once} from 'node:events'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import pg from 'pg'
import {getAddress} from 'viem'
import {Anvil, localChainId} from './anvil.ts'
import {type CustodyProcess, killCustody, startCustody} from './custody.ts'
import {type TestDatabase, testDatabase} from './database.ts'
import {Indexer} from './indexer.ts'
import {makeMerchant} from './people.ts'
import {newHome, removeHome} from './processes.ts'
import {RpcProxy} from './rpc-proxy.ts'
import {until} from './until.ts'

const jobs = fileURLToPath(new URL('../../jobs/main.ts', import.meta.url))
const crash = new URL('crash.ts', import.meta.url).href

/** Blocks come without transactions, too: fees fall with them, and what is stuck shows. */
const emptyBlockMs = 1000

export const ETHER = 10n ** 18n
export const USDC = 10n ** 6n

export interface Shop {
  id: string
  /** Addresses of its users, out of custody's pool. */
  addresses: string[]
  /** Its payout address, on its whitelist unless told otherwise. */
  wallet: string
}

export interface PayoutRow {
  id: string
  status: string
  net: string
  fee: string
  txid: string | null
  network_fee: string
  error_code: string | null
  waiting_reason: string | null
  waiting_detail: string | null
}

export interface SpendRow {
  id: string
  kind: string
  source: string
  nonce: number
  status: string
  outcome: string | null
  cancelling: boolean
  waiting_reason: string | null
  attempts: number
  broadcast_error: string | null
}

export class PayoutWorld {
  readonly db: TestDatabase
  readonly anvil: Anvil
  /** The workers' node. */
  readonly node: RpcProxy
  readonly indexer: Indexer
  readonly home: string
  /** Connections with the rights of the API. */
  readonly api: pg.Pool
  readonly treasury: string
  readonly #settings: Record<string, string>
  readonly #workers = new Set<ChildProcess>()
  #custody: CustodyProcess
  #miner: Promise<void> | undefined
  /** The faucet's transactions are sent one after the other: each asks the node for its nonce. */
  #lastSent: Promise<unknown> = Promise.resolve()
  /** Whether waiting transactions are mined, and made final, by themselves. */
  isMining = true
  #isOver = false

  private constructor(parts: {
    db: TestDatabase
    anvil: Anvil
    node: RpcProxy
    indexer: Indexer
    home: string
    custody: CustodyProcess
    treasury: string
    settings: Record<string, string>
  }) {
    this.db = parts.db
    this.anvil = parts.anvil
    this.node = parts.node
    this.indexer = parts.indexer
    this.home = parts.home
    this.treasury = parts.treasury
    this.#custody = parts.custody
    this.#settings = parts.settings
    this.api = new pg.Pool({connectionString: this.db.url('sluice_api'), max: 4})
    this.#miner = this.#mine()
  }

  /** Everything but workers runs, and the treasury has coins. `settings` are those of custody and the workers. */
  static async open(settings: Record<string, string> = {}): Promise<PayoutWorld> {
    const [db, anvil] = await Promise.all([testDatabase(), Anvil.start({slotsInAnEpoch: 1})])
    const home = newHome()
    const all = {
      ETH_CHAIN_ID: String(localChainId),
      ETH_USDC_ADDRESS: anvil.usdc,
      ADDRESS_POOL_SIZE: '100',
      ...settings,
    }
    const [node, custody] = await Promise.all([RpcProxy.start(anvil), startCustody(db, home, all)])
    const indexer = Indexer.start({db, rpcUrl: anvil.wsUrl, settings: {USDC_ADDRESS: anvil.usdc}})
    const [row] = await db.rows<{address: string}>(`select address from custody.address where purpose = 'treasury'`)
    const world = new PayoutWorld({db, anvil, node, indexer, home, custody, treasury: row!.address, settings: all})
    await world.topUp(10n * ETHER)
    return world
  }

  async close(): Promise<void> {
    this.#isOver = true
    await this.#miner
    for (const worker of this.#workers) worker.kill('SIGKILL')
    await Promise.all([killCustody(this.#custody), this.indexer.stop(), this.node.close(), this.api.end()])
    await this.anvil.stop()
    await this.db.drop()
    await removeHome(this.home)
  }

  async #mine(): Promise<void> {
    for (let last = 0; !this.#isOver; await sleep(50)) {
      const {pending} = await this.anvil.call<{pending: string}>('txpool_status')
      if (!this.isMining || (!Number(pending) && Date.now() - last < emptyBlockMs)) continue
      await this.anvil.mine(Number(pending) ? 3 : 1) // finalized is two blocks below the head
      last = Date.now()
    }
  }

  // --- processes ---

  /** A worker, once it is ready. With `crashAt` it is killed when it comes to that step. */
  async startWorker({
    crashAt,
    settings,
  }: {
    crashAt?: string
    settings?: Record<string, string>
  } = {}): Promise<ChildProcess> {
    const worker = fork(jobs, {
      env: {
        ...process.env,
        LOG_LEVEL: 'fatal',
        DATABASE_URL: this.db.url('sluice_jobs'),
        SLUICE_HOME: this.home,
        ETH_RPC_URL: this.node.httpUrl,
        REPLACE_AFTER_MS: '3000',
        ...this.#settings,
        ...settings,
        ...this.#crashing(crashAt),
      },
      execArgv: [],
    })
    this.#workers.add(worker)
    worker.once('exit', () => this.#workers.delete(worker))
    await once(worker, 'message', {signal: AbortSignal.timeout(20_000)})
    return worker
  }

  #crashing(label?: string): Record<string, string> {
    if (!label) return {}
    const mark = path.join(this.home, `crash-${randomBytes(4).toString('hex')}`)
    return {NODE_OPTIONS: `--import=${crash}`, SLUICE_CRASH_AT: label, SLUICE_CRASH_MARK: mark}
  }

  async kill(worker: ChildProcess): Promise<void> {
    if (worker.exitCode !== null || worker.signalCode !== null) return
    const exited = once(worker, 'exit')
    worker.kill('SIGKILL')
    await exited
  }

  async killCustody(): Promise<void> {
    await killCustody(this.#custody)
  }

  async startCustody({crashAt}: {crashAt?: string} = {}): Promise<ChildProcess> {
    this.#custody = await startCustody(this.db, this.home, {...this.#settings, ...this.#crashing(crashAt)})
    return this.#custody.process
  }

  // --- merchants and money ---

  /** A merchant whose users received this much of a token each, finally. */
  async openShop(token: 'ETH' | 'USDC', amounts: bigint[], {whitelisted = true} = {}): Promise<Shop> {
    const id = await makeMerchant(this.db, ['ETH'])
    const shop = {id, addresses: [] as string[], wallet: getAddress(`0x${randomBytes(20).toString('hex')}`)}
    for (const i of amounts.keys())
      await this.api.query(`select app.provision_user($1, $2, array['ETH'])`, [id, `${i}`])
    const users = await this.db.rows<{address: string}>(
      `select address from app.address where merchant_id = $1 and chain = 'ETH'`,
      [id],
    )
    shop.addresses.push(...users.map(({address}) => address))
    await this.api.query(`select app.set_payout_address($1, 'ETH', $2)`, [id, shop.wallet])
    if (whitelisted) await this.whitelist(shop)
    await this.pay(token, shop.addresses, amounts)
    return shop
  }

  async whitelist({id, wallet}: Shop): Promise<void> {
    await this.db.rows(`insert into custody.whitelist (merchant_id, chain, address) values ($1, 'ETH', $2)`, [
      id,
      wallet,
    ])
  }

  async unlist({id}: Shop): Promise<void> {
    await this.db.rows('update custody.whitelist set removed_at = clock_timestamp() where merchant_id = $1', [id])
  }

  /** From the faucet, until it is final here. */
  async pay(token: 'ETH' | 'USDC', to: string[], amounts: bigint[]): Promise<void> {
    const total = amounts.reduce((sum, amount) => sum + amount, 0n)
    this.#lastSent = this.#lastSent.then(() =>
      token === 'ETH'
        ? this.anvil.multi('pay', [to, amounts], total)
        : this.anvil.multi('payTokens', [this.anvil.usdc, to, amounts]),
    )
    const txid = await this.#lastSent
    const isFinal = `select from app.deposit where txid = $1 having count(*) = $2 and bool_and(status = 'final')`
    await until(async () => (await this.db.rows(isFinal, [txid, to.length])).length, {
      timeoutMs: 15_000,
      what: `${token} to be final`,
    })
  }

  async topUp(amount: bigint): Promise<void> {
    const funds = async () => {
      const [row] = await this.db.rows<{balance: string}>(
        `select coalesce(sum(balance), 0)::text as balance from app.treasury where token = 'ETH'`,
      )
      return BigInt(row!.balance)
    }
    const before = await funds()
    await this.anvil.send({to: this.treasury, value: amount})
    await until(async () => (await funds()) >= before + amount, {
      timeoutMs: 15_000,
      what: 'the treasury to be topped up',
    })
  }

  // --- payouts ---

  /** As the API makes it; the payout's id. */
  async request({id}: Shop, token: 'ETH' | 'USDC', sweepFirst = false): Promise<string> {
    const sql = `select app.create_payout($1, 'ETH', $2, $3, null, null)::json ->> 'id' as id`
    const {rows} = await this.api.query<{id: string}>(sql, [id, token, sweepFirst])
    return rows[0]!.id.replace(/^pay_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  }

  async payout(id: string): Promise<PayoutRow> {
    return (await this.db.rows<PayoutRow>('select * from app.payout where id = $1', [id]))[0]!
  }

  /** Waits until it has this status, or waits for this reason. */
  async becomes(id: string, what: string, timeoutMs = 25_000): Promise<PayoutRow> {
    let last: PayoutRow | undefined
    const is = async () => {
      last = await this.payout(id)
      return last.status === what || last.waiting_reason === what ? last : undefined
    }
    try {
      return await until(is, {timeoutMs, what: `the payout to be ${what}`})
    } catch (error) {
      const now = JSON.stringify({payout: last, spends: await this.spends(id)})
      throw new Error(`${(error as Error).message}; it is ${now}`)
    }
  }

  /** What was made for it, in the order of nonces: its sweeps, and those of others that it waits for, and its payment. */
  async spends(id: string): Promise<SpendRow[]> {
    return await this.db.rows<SpendRow>(
      `select s.id, s.kind, s.source, s.nonce, s.status, s.outcome, s.cancelling, s.waiting_reason,
         (select count(*)::int from app.outbound_tx o where o.spend_id = s.id) as attempts,
         (select o.broadcast_error from app.outbound_tx o where o.spend_id = s.id order by o.attempt desc limit 1) as broadcast_error
       from app.spend s where s.payout_id = $1 or s.id in (select l.spend_id from app.payout_sweep l where l.payout_id = $1)
       order by s.kind desc, s.created_at`,
      [id],
    )
  }

  /** What its wallet got on the chain itself. */
  async received({wallet}: Shop, token: 'ETH' | 'USDC'): Promise<bigint> {
    return token === 'ETH' ? await this.anvil.balance(wallet) : await this.anvil.tokenBalance(wallet)
  }
}
