// A whole service on a cluster, under load: clients make users, pay them, and request payouts, without a pause.
// Promises: every acknowledged answer is recorded, and verify() compares each of them with the database and the chain
// at the end.
import {execFile} from 'node:child_process'
import {randomBytes} from 'node:crypto'
import {chmodSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import pg from 'pg'
import {getAddress} from 'viem'
import {z} from 'zod'
import {newKey} from '../../base/api-key.ts'
import {inWords} from '../../db/client/failure.ts'
import {assertBooks} from './books.ts'
import {type Cluster, query} from './cluster.ts'
import {Anvil, localChainId} from './evm/anvil.ts'
import {described, kill, newHome, pidIn, processesOf, removeHome} from './processes.ts'
import {type Started, start, withoutDashboard} from './service.ts'
import {until} from './until.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const merchantCount = 6
const amount = 10n ** 16n
const timeoutMs = 120_000
/** Longer than any request can wait for a database: half a minute for its key, and again for what it asks. */
const responseTimeoutMs = 65_000

interface Merchant {
  id: string
  key: string
  wallet: string
}

interface User {
  merchant: Merchant
  id: string
  address: string
}

const Created = z.object({id: z.string(), addresses: z.array(z.object({address: z.string()}))})

export class ClusterLoad {
  readonly cluster: Cluster
  readonly #home = newHome()
  readonly #holdFile: string
  readonly #anvil: Anvil
  #service: (Started & {service: {api_url: string}}) | undefined
  readonly #merchants: Merchant[] = []
  /** By their external references; whoever was told of them may rely on them. */
  readonly users = new Map<string, User>()
  /** Payouts that were accepted. */
  readonly payouts = new Set<string>()
  /** What was paid to addresses, in transactions that are on the chain. */
  readonly #paid = new Map<string, bigint>()
  /** How often each status came, such as 201, "503 without Retry-After", or "lost" with the cause. */
  readonly statuses: Record<string, number> = {}
  /** When a user was acknowledged, by performance.now(). */
  readonly acknowledged: number[] = []
  /** What a client wrote straight to a server, past HAProxy, and was told to be stored. */
  readonly #witnessed: {node: string; n: number}[] = []
  readonly #over = new AbortController()
  readonly #lanes: Promise<void>[] = []

  private constructor(cluster: Cluster, anvil: Anvil) {
    this.cluster = cluster
    this.#anvil = anvil
    const folder = mkdtempSync(path.join(tmpdir(), 'sluice-hold-'))
    chmodSync(folder, 0o777) // the processes are other users
    this.#holdFile = path.join(folder, 'step')
  }

  static async start(cluster: Cluster): Promise<ClusterLoad> {
    const load = new ClusterLoad(cluster, await Anvil.start({slotsInAnEpoch: 1}))
    const {PATH, NODE_COMPILE_CACHE} = process.env
    const settings = {
      DATABASE_URL: cluster.url,
      SLUICE_DEVNET: 'off',
      CUSTODY_PASSPHRASE: 'correct horse',
      ETH_RPC_URL: load.#anvil.wsUrl,
      ETH_CHAIN_ID: String(localChainId),
      ETH_USDC_CONTRACT: load.#anvil.usdc,
      ETH_TRACES: 'off',
      ETH_START_HEIGHT: '1',
      ETH_FEE_BUDGET: '1000',
      ADDRESS_POOL_SIZE: '200',
      RATE_LIMIT_PER_MINUTE: '1000000',
      NODE_OPTIONS: `--import=${fileURLToPath(new URL('./hold.ts', import.meta.url))}`,
      SLUICE_HOLD_FILE: load.#holdFile,
    }
    const environment = {PATH, NODE_COMPILE_CACHE, SLUICE_HOME: load.#home, ...settings}
    const init = [path.join(root, 'cli/main.ts'), 'custody', 'init']
    await promisify(execFile)(process.execPath, init, {env: environment})
    load.#service = await start(load.#home, settings, withoutDashboard)
    await query(cluster.url, 'create table public.witness (node text, n int)')
    for (let n = 0; n < merchantCount; n++) await load.#addMerchant()
    const [treasury] = await query<{address: string}>(
      cluster.url,
      `select address from custody.address where purpose = 'treasury' and family = 'evm'`,
    )
    await load.#anvil.send({to: treasury!.address, value: 1000n * 10n ** 18n})
    load.#begin()
    await until(async () => load.payouts.size > 2, {timeoutMs, what: 'the first payouts', intervalMs: 200})
    return load
  }

  // --- what the clients do ---

  #begin(): void {
    const lane = (pauseMs: number, work: () => Promise<unknown>) => this.#lanes.push(this.#repeat(pauseMs, work))
    lane(500, () => this.#anvil.mine(2))
    lane(200, () => this.#createUser())
    lane(1000, () => this.#payUsers())
    for (const merchant of this.#merchants) lane(1000, () => this.#requestPayout(merchant))
    for (const node of this.cluster.names) lane(500, () => this.#writeTo(node))
  }

  async #repeat(pauseMs: number, work: () => Promise<unknown>): Promise<void> {
    while (!this.#over.signal.aborted) {
      await work()
      await sleep(pauseMs, undefined, {signal: this.#over.signal}).catch(() => {})
    }
  }

  async #addMerchant(): Promise<void> {
    const {secret, hash} = newKey()
    const wallet = getAddress(`0x${randomBytes(20).toString('hex')}`)
    const [row] = await query<{id: string}>(
      this.cluster.url,
      `select app.create_merchant('Load', $1, array['ETH'], 50) as id`,
      [randomBytes(5).toString('hex')],
    )
    const {id} = row!
    await query(this.cluster.url, 'select app.create_api_key($1, $2)', [id, hash])
    await query(this.cluster.url, `select app.set_payout_address($1, 'ETH', $2)`, [id, wallet])
    await query(
      this.cluster.url,
      `insert into custody.whitelist (merchant_id, chain, address) values ($1, 'ETH', $2)`,
      [id, wallet],
    )
    this.#merchants.push({id, key: secret, wallet})
  }

  /**
   * Repeats a request until it is neither 5xx nor lost. Resolves to the body of a success, or undefined after a
   * refusal.
   */
  async #call(
    merchant: Merchant,
    target: string,
    body: object,
    headers: Record<string, string> = {},
  ): Promise<unknown> {
    const request = {
      method: 'POST',
      headers: {'content-type': 'application/json', ...headers},
      body: JSON.stringify(body),
    }
    for (;;) {
      const {status, text} = await this.#send(merchant, target, request)
      if (status >= 200 && status < 300) return JSON.parse(text)
      if (status < 500 || this.#over.signal.aborted) return undefined
      await sleep(200)
    }
  }

  /** Notes the status of each response. One that is lost, or does not come in time, counts as 599. */
  async #send(merchant: Merchant, target: string, request: RequestInit = {}): Promise<{status: number; text: string}> {
    try {
      const response = await fetch(`${this.#service!.service.api_url}${target}`, {
        ...request,
        headers: {authorization: `Bearer ${merchant.key}`, ...request.headers},
        signal: AbortSignal.timeout(responseTimeoutMs),
      })
      const {status, headers} = response
      const text = await response.text()
      this.#count(status === 503 && !headers.get('retry-after') ? '503 without Retry-After' : String(status))
      return {status, text}
    } catch (error) {
      this.#count(`lost (${inWords(error)})`)
      return {status: 599, text: ''}
    }
  }

  async #createUser(): Promise<void> {
    const merchant = this.#merchants[this.users.size % merchantCount]!
    const external_ref = randomBytes(8).toString('hex')
    const reply = await this.#call(merchant, '/v1/users', {external_ref})
    if (!reply) return
    const {id, addresses} = Created.parse(reply)
    this.acknowledged.push(performance.now())
    this.users.set(external_ref, {merchant, id, address: addresses[0]!.address})
  }

  async #payUsers(): Promise<void> {
    const unpaid = [...this.users.values()].find(({address}) => !this.#paid.has(address))
    if (!unpaid) return
    await this.#anvil.send({to: unpaid.address, value: amount})
    this.#paid.set(unpaid.address, amount)
  }

  async #requestPayout(merchant: Merchant): Promise<void> {
    const body = {chain: 'ETH', token: 'ETH', sweep_first: this.payouts.size % 2 === 0}
    const reply = await this.#call(merchant, '/v1/payouts', body, {'idempotency-key': randomBytes(16).toString('hex')})
    if (!reply) return
    const {id} = z.object({id: z.string()}).parse(reply)
    this.payouts.add(id)
    await this.#untilOver(merchant, id)
  }

  /** A merchant has one payout under way, so that a slow machine does not fall behind more and more. */
  async #untilOver(merchant: Merchant, id: string): Promise<void> {
    while (!this.#over.signal.aborted) {
      const {status, text} = await this.#send(merchant, `/v1/payouts/${id}`)
      if (status === 200 && /"status"\s*:\s*"(completed|failed)"/.test(text)) return
      await sleep(500)
    }
  }

  #count(seen: string): void {
    this.statuses[seen] = (this.statuses[seen] ?? 0) + 1
  }

  /** Whoever can reach an old primary must not be told that something is stored there. */
  async #writeTo(node: string): Promise<void> {
    const n = this.#witnessed.length + 1
    try {
      await query(this.cluster.urlOf(node), 'insert into public.witness values ($1, $2)', [node, n])
      this.#witnessed.push({node, n})
    } catch {} // it is a standby, or away
  }

  // --- what tests wait for ---

  /** Waits until a process of the service stands at this step. Resolves to a function that lets it go on. */
  async hold(label: string): Promise<() => void> {
    const held = `${this.#holdFile}.held`
    rmSync(held, {force: true})
    writeFileSync(this.#holdFile, label)
    const pid = await pidIn(held, {timeoutMs, what: `a process at "${label}"`})
    return () => kill(pid, 'SIGCONT')
  }

  /**
   * The longest time without an acknowledged user since then, in seconds; Infinity until there was one after a pause.
   */
  longestPauseSince(began: number): number {
    const times = [began, ...this.acknowledged.filter(at => at >= began)]
    return Math.max(...times.map((at, n) => ((times[n + 1] ?? performance.now()) - at) / 1000))
  }

  /** Resolves once users are acknowledged again, and have been for a second. */
  async writes(since: number): Promise<void> {
    const isBack = async () => this.acknowledged.filter(at => at > since && at > performance.now() - 1000).length >= 3
    await until(isBack, {timeoutMs: 90_000, what: 'writes to work'})
  }

  /** Resolves once every process of the service is at work on the primary. */
  async allWork(): Promise<void> {
    const names = ['sluice-api-keys', 'sluice-jobs-liveness', 'sluice-custody', 'indexer-ETH-lock']
    const working = `select distinct application_name from pg_stat_activity where application_name = any($1) and backend_type = 'client backend'`
    await until(async () => (await query(this.cluster.superuserUrl, working, [names])).length >= names.length, {
      timeoutMs,
      what: 'every process to work',
    })
  }

  /**
   * Ends the load, waits until everything is over, and compares it with what was acknowledged. Resolves to what is
   * wrong, in words.
   */
  async verify(): Promise<string[]> {
    this.#over.abort()
    await Promise.all(this.#lanes)
    const {url} = this.cluster
    await this.#calmDown()
    const wrong: string[] = []
    const same = (what: string, found: unknown, expected: unknown) => {
      if (JSON.stringify(found) !== JSON.stringify(expected))
        wrong.push(`${what}: ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`)
    }
    const users = await query<{ref: string; id: string; address: string}>(
      url,
      `select u.external_ref as ref, app.public_id('usr', u.id) as id, a.address from app.user u join app.address a on a.user_id = u.id and a.chain = 'ETH'`,
    )
    const known = new Map(users.map(user => [user.ref, user]))
    for (const [ref, {id, address}] of this.users)
      same(`user ${ref}`, [known.get(ref)?.id, known.get(ref)?.address], [id, address])

    const deposits = await query<{address: string; amount: string}>(
      url,
      `select address, amount::text from app.deposit where status = 'final' and user_id is not null order by address`,
    )
    const paid = [...this.#paid].map(([address, paid]) => ({address, amount: String(paid)}))
    same(
      'final deposits',
      deposits,
      paid.sort((a, b) => (a.address < b.address ? -1 : 1)),
    )

    const payouts = await query<{id: string; status: string}>(
      url,
      `select app.public_id('pay', id) as id, status from app.payout`,
    )
    const completed = new Set(payouts.filter(({status}) => status === 'completed').map(({id}) => id))
    for (const id of this.payouts) same(`payout ${id}`, completed.has(id), true)
    for (const {id, wallet} of this.#merchants) {
      const [net] = await query<{sum: string}>(
        url,
        `select coalesce(sum(net), 0)::text as sum from app.payout where merchant_id = $1 and status = 'completed'`,
        [id],
      )
      same(`paid to ${wallet}`, String(await this.#anvil.balance(wallet)), net!.sum)
    }
    const twice = `select subject_id, type from app.event group by 1, 2 having count(*) > 1`
    same('events of the same kind', await query(url, twice), [])
    const written = new Set(
      (await query<{node: string; n: number}>(url, 'select node, n from public.witness')).map(
        ({node, n}) => `${node} ${n}`,
      ),
    )
    for (const {node, n} of this.#witnessed) same(`write ${n} to ${node}`, written.has(`${node} ${n}`), true)
    for (const status of Object.keys(this.statuses))
      if (!/^(2..|4..|503)$/.test(status)) wrong.push(`an answer was ${status}`)
    await this.#withPool(db => assertBooks({pool: db}))
    return wrong
  }

  async #calmDown(): Promise<void> {
    const mining = this.#mineUntil(async () => {
      const [row] = await query<{open: number; deposits: number}>(
        this.cluster.url,
        `select (select count(*)::int from app.payout where status not in ('completed', 'failed')) as open,
           (select count(*)::int from app.deposit where status = 'final' and user_id is not null) as deposits`,
      )
      return row!.open === 0 && row!.deposits >= this.#paid.size
    })
    await mining
  }

  async #mineUntil(condition: () => Promise<boolean>): Promise<void> {
    const mineAndLook = async () => {
      await this.#anvil.mine(2)
      return await condition()
    }
    await until(mineAndLook, {
      timeoutMs: 120_000,
      what: 'every payout to be over, and every deposit to be final',
      intervalMs: 300,
    })
  }

  async #withPool(work: (db: pg.Pool) => Promise<unknown>): Promise<void> {
    const db = new pg.Pool({connectionString: this.cluster.url, max: 1})
    try {
      await work(db)
    } finally {
      await db.end()
    }
  }

  /**
   * Does what waits for the service. An error says what everything else did meanwhile: nobody can tell what stood still
   * from a limit that passed.
   */
  async explained(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      throw new Error(`${inWords(error)}\n${await this.#state()}`, {cause: error})
    }
  }

  async #state(): Promise<string> {
    const payouts = `select p.id, p.status, p.waiting_reason, p.waiting_detail, p.next_step_at - clock_timestamp() as next_in,
      json_agg(json_build_object('kind', o.kind, 'nonce', o.nonce, 'status', o.status, 'waiting', o.waiting_reason, 'detail', o.waiting_detail,
        'next_in', o.next_step_at - clock_timestamp())) as payments
      from app.payout p left join app.outgoing_payment o on o.payout_id = p.id where p.status not in ('completed', 'failed') group by p.id`
    const jobs =
      'select task_identifier, key, locked_by, attempts, last_error, run_at - clock_timestamp() as run_in from graphile_worker.jobs'
    const sessions = `select a.application_name, a.state, a.wait_event, clock_timestamp() - a.state_change as for, left(a.query, 100) as query,
      (select json_agg(l.granted) from pg_locks l where l.pid = a.pid and l.locktype = 'advisory') as advisory_locks
      from pg_stat_activity a where a.backend_type = 'client backend' and a.application_name <> ''`
    const asked = (sql: string) => query(this.cluster.superuserUrl, sql).catch(error => [inWords(error)])
    const log = this.#service!.output().split('\n')
    const parts = {
      processes: processesOf(this.#home).map(described),
      answers: [this.statuses],
      members: await this.cluster.members(),
      payouts: await asked(payouts),
      jobs: await asked(jobs),
      sessions: await asked(sessions),
      log: log.filter(line => /"level":[456]0/.test(line)).slice(-15),
      cluster: [this.cluster.logs()],
    }
    const lines = (part: unknown[]) => part.map(one => (typeof one === 'string' ? one : JSON.stringify(one))).join('\n')
    return Object.entries(parts)
      .map(([name, part]) => `${name}:\n${lines(part)}`)
      .join('\n')
  }

  async close(): Promise<void> {
    this.#over.abort()
    await Promise.allSettled(this.#lanes)
    this.#service?.child.kill('SIGKILL')
    await this.#anvil.stop()
    await removeHome(this.#home)
    rmSync(path.dirname(this.#holdFile), {recursive: true, force: true})
  }
}
