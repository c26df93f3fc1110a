// Common parts of test worlds on every chain: a database, custody and workers as processes, each with its role, and
// merchants with payouts. The world of a family adds its chain: world.ts one that runs, written-world.ts one that the
// test writes.
import {type ChildProcess, fork} from 'node:child_process'
import {randomBytes} from 'node:crypto'
import {once} from 'node:events'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import pg from 'pg'
import type {ChainCode, Family} from '../../chains/registry.ts'
import {type CustodyProcess, killCustody, startCustody} from './custody.ts'
import type {TestDatabase} from './database.ts'
import {idOf, makeMerchant} from './people.ts'
import {removeHome} from './processes.ts'
import {until} from './until.ts'

const jobs = fileURLToPath(new URL('../../jobs/main.ts', import.meta.url))
const crash = new URL('crash.ts', import.meta.url).href

export interface Shop {
  id: string
  /** Addresses of its users, out of custody's pool. */
  addresses: string[]
  /** Its payout address, by default on its whitelist. */
  wallet: string
}

export interface PayoutRow {
  id: string
  status: string
  gross: string
  net: string
  fee: string
  txid: string | null
  network_fee: string
  error_code: string | null
  waiting_reason: string | null
  waiting_detail: string | null
  waiting_since: Date | null
}

export interface OutgoingPaymentRow {
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

/** How a process starts, and at which step it is killed or stopped. */
interface Start {
  crashAt?: string
  stopAt?: string
  settings?: Record<string, string>
}

/** The running parts of a world. */
export interface Running {
  chain: ChainCode
  db: TestDatabase
  home: string
  custody: CustodyProcess
  /** For custody and the workers. */
  settings: Record<string, string>
  /** The URL at which the workers reach the chain; custody never does. */
  source: Record<string, string>
}

/** The treasury of a family, which custody made when it started. */
export async function treasuryOf(db: TestDatabase, family: Family): Promise<string> {
  const [row] = await db.rows<{address: string}>(
    `select address from custody.address where purpose = 'treasury' and family = $1`,
    [family],
  )
  return row!.address
}

export class World {
  readonly chain: ChainCode
  readonly db: TestDatabase
  readonly home: string
  custody: CustodyProcess
  /** Connections with the rights of the API. */
  readonly api: pg.Pool
  readonly #settings: Record<string, string>
  readonly #source: Record<string, string>
  readonly #workers = new Set<ChildProcess>()

  constructor({chain, db, home, custody, settings, source}: Running) {
    this.chain = chain
    this.db = db
    this.home = home
    this.custody = custody
    this.#settings = settings
    this.#source = source
    this.api = new pg.Pool({connectionString: db.url('sluice_api'), max: 4})
  }

  /**
   * Ends and removes everything, whatever fails: a process that stays alive holds the output of the tests. `others` end
   * after the processes, and before the database.
   */
  protected async end(...others: (() => unknown)[]): Promise<void> {
    for (const worker of this.#workers) worker.kill('SIGKILL')
    const failures: unknown[] = []
    const ends = [() => killCustody(this.custody), () => this.api.end(), ...others, () => this.db.drop()]
    for (const end of [...ends, () => removeHome(this.home)]) {
      try {
        await end()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  }

  // --- processes ---

  /**
   * A worker, once it is ready. With `crashAt` it is killed when it reaches that step (it may be dead already); with
   * `stopAt` it is stopped there.
   */
  async startWorker({settings, ...at}: Start = {}): Promise<ChildProcess> {
    const worker = fork(jobs, {
      env: {
        ...process.env,
        LOG_LEVEL: 'fatal',
        DATABASE_URL: this.db.url('sluice_jobs'),
        SLUICE_HOME: this.home,
        REPLACE_AFTER_MS: '3000',
        ...this.#source,
        ...this.#settings,
        ...settings,
        ...this.#crashing(at),
      },
      execArgv: [],
    })
    this.#workers.add(worker)
    worker.once('exit', () => this.#workers.delete(worker))
    // One that is to die at a step may do so before it says that it is ready: an earlier payout waits for that step.
    const signal = AbortSignal.timeout(20_000)
    await Promise.race([once(worker, 'message', {signal}), ...(at.crashAt ? [once(worker, 'exit', {signal})] : [])])
    return worker
  }

  #crashing({crashAt, stopAt}: Start): Record<string, string> {
    const label = crashAt ?? stopAt
    if (!label) return {}
    const mark = path.join(this.home, `crash-${randomBytes(4).toString('hex')}`)
    return {
      NODE_OPTIONS: `--import=${crash}`,
      SLUICE_CRASH_AT: label,
      SLUICE_CRASH_MARK: mark,
      SLUICE_CRASH_SIGNAL: crashAt ? 'SIGKILL' : 'SIGSTOP',
    }
  }

  async kill(worker: ChildProcess): Promise<void> {
    if (worker.exitCode !== null || worker.signalCode !== null) return
    const exited = once(worker, 'exit')
    worker.kill('SIGKILL')
    await exited
  }

  async killCustody(): Promise<void> {
    await killCustody(this.custody)
  }

  async startCustody({settings, ...at}: Start = {}): Promise<ChildProcess> {
    const all = {...this.#settings, ...settings, ...this.#crashing(at)}
    this.custody = await startCustody(this.db, this.home, all)
    return this.custody.process
  }

  // --- merchants ---

  /** A merchant with this many users, and with a payout address, by default whitelisted. */
  async makeShop(users: number, wallet: string, whitelisted = true): Promise<Shop> {
    const {chain} = this
    const id = await makeMerchant(this.db, [chain])
    const provision = 'select app.provision_user($1, $2, array[$3])'
    for (let i = 0; i < users; i++)
      await until(async () => (await this.api.query(provision, [id, `${i}`, chain])).rowCount, {
        timeoutMs: 40_000,
        what: 'a free address: many shops open faster than custody fills the pool',
      })
    const rows = await this.db.rows<{address: string}>(
      'select address from app.address where merchant_id = $1 and chain = $2',
      [id, chain],
    )
    await this.api.query('select app.set_payout_address($1, $2, $3)', [id, chain, wallet])
    if (whitelisted) await this.whitelist(id, wallet)
    return {id, addresses: rows.map(({address}) => address), wallet}
  }

  /** Waits until this many deposits of a transaction are final, and it has no other deposits. */
  protected async untilFinal(txid: string, count: number): Promise<void> {
    const isFinal = `select from app.deposit where txid = $1 having count(*) = $2 and bool_and(status = 'final')`
    await until(async () => (await this.db.rows(isFinal, [txid, count])).length, {
      timeoutMs: 120_000,
      what: `${count} deposits to be final`,
    })
  }

  /** Whitelists it for a merchant, or, without one, for the operator. */
  async whitelist(
    merchantId: string | null,
    address: string,
    chain: string = this.chain,
    activeIn = '0',
  ): Promise<void> {
    await this.db.rows(
      'insert into custody.whitelist (merchant_id, chain, address, active_at) values ($1, $2, $3, clock_timestamp() + $4::interval)',
      [merchantId, chain, address, activeIn],
    )
  }

  async unlist({id}: Shop): Promise<void> {
    await this.db.rows('update custody.whitelist set removed_at = clock_timestamp() where merchant_id = $1', [id])
  }

  // --- payouts ---

  /** Requests it as the API does; returns the payout's id. */
  async request({id}: Pick<Shop, 'id'>, token: string, sweepFirst = false): Promise<string> {
    const sql = `select app.create_payout($1, $2, $3, $4, null, null)::json ->> 'id' as id`
    const {rows} = await this.api.query<{id: string}>(sql, [id, this.chain, token, sweepFirst])
    return idOf(rows[0]!.id)
  }

  /** With what it really waits for. */
  async payout(id: string): Promise<PayoutRow> {
    const sql = `select p.*, w.reason as waiting_reason, w.detail as waiting_detail, w.since as waiting_since
      from app.payout p cross join lateral app.why_payout_waits(p) w where p.id = $1`
    return (await this.db.rows<PayoutRow>(sql, [id]))[0]!
  }

  /** Waits until it has this status, or waits for this reason; does this meanwhile. */
  async becomes(
    id: string,
    what: string,
    timeoutMs = 75_000,
    meanwhile?: (last: PayoutRow) => Promise<unknown>,
  ): Promise<PayoutRow> {
    let last: PayoutRow | undefined
    const is = async () => {
      last = await this.payout(id)
      if (last.status === what || last.waiting_reason === what) return last
      await meanwhile?.(last)
      return undefined
    }
    try {
      return await until(is, {timeoutMs, what: `the payout to be ${what}`})
    } catch (error) {
      const now = JSON.stringify({payout: last, outgoingPayments: await this.outgoingPayments(id)})
      throw new Error(`${(error as Error).message}; it is ${now}`)
    }
  }

  /** As an operator has it tried again at once. */
  async retry(id: string): Promise<void> {
    await this.db.rows('select app.retry_payout($1)', [id])
  }

  /** Waits until it has failed, which waits for this: the half minute for which it is tried is over at once. */
  async agedUntilFailed(id: string, reason: string): Promise<PayoutRow> {
    const age = `update app.payout set waiting_since = waiting_since - interval '31 seconds'
      where id = $1 and waiting_reason = $2 and waiting_since > clock_timestamp() - interval '30 seconds' returning id`
    return await this.becomes(id, 'failed', 75_000, async () => {
      if ((await this.db.rows(age, [id, reason])).length) await this.retry(id)
    })
  }

  /** As `becomes`, where nothing is in the way of that any more: it is tried each second, and not in 15. */
  async retriedUntil(id: string, what: string): Promise<PayoutRow> {
    let nextAt = 0
    return await this.becomes(id, what, 75_000, async ({status}) => {
      if (status === 'paying' || Date.now() < nextAt) return
      nextAt = Date.now() + 1000
      await this.retry(id)
    })
  }

  /** The outgoing payments for it, by nonce: its sweeps, those of others that it waits for, and its payment. */
  async outgoingPayments(id: string): Promise<OutgoingPaymentRow[]> {
    return await this.db.rows<OutgoingPaymentRow>(
      `select s.id, s.kind, s.source, s.nonce, s.status, s.outcome, s.cancelling, s.waiting_reason,
         (select count(*)::int from app.outgoing_attempt o where o.outgoing_payment_id = s.id) as attempts,
         (select o.broadcast_error from app.outgoing_attempt o where o.outgoing_payment_id = s.id order by o.attempt desc limit 1) as broadcast_error
       from app.outgoing_payment s where s.payout_id = $1 or s.id in (select l.outgoing_payment_id from app.payout_sweep l where l.payout_id = $1)
       order by s.kind desc, s.created_at`,
      [id],
    )
  }
}
