// The world of a history: the model's chain, and the real service on the real SQL: custody with its journal file, the
// worker's tasks, and the cursor of the indexer. Promises: each history begins with the same rows and the same journal,
// and a process that dies leaves only what is in them.
import {subscribe} from 'node:diagnostics_channel'
import {mkdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import path from 'node:path'
import type {JobHelpers, Task} from 'graphile-worker'
import type pg from 'pg'
import {RetryableError} from '../../base/errors.ts'
import {silent} from '../../base/log.ts'
import {chains} from '../../chains/registry.ts'
import {readSettings, type Settings} from '../../chains/settings.ts'
import {Custody} from '../../custody/custody.ts'
import {families, familyNames} from '../../custody/families.ts'
import {type Entry, journalFile} from '../../custody/journal/file.ts'
import {markIncomplete} from '../../custody/journal/incomplete.ts'
import {Journal} from '../../custody/journal/journal.ts'
import {reconcile} from '../../custody/journal/reconcile.ts'
import {deriver} from '../../custody/keys/addresses.ts'
import {type KeyStore, localKeys} from '../../custody/keys/key-store.ts'
import {type Seal, sealOf} from '../../custody/keys/seal.ts'
import {fillPools, openTreasuries, poolStream, Supply} from '../../custody/pool.ts'
import {SignRequest} from '../../custody/requests.ts'
import type {Role} from '../../db/migrate/migrate.ts'
import {advancePayout} from '../../jobs/payouts/advance-payout.ts'
import type {Context} from '../../jobs/payouts/context.ts'
import {Custody as CustodyClient, type Responses} from '../../jobs/payouts/custody-client.ts'
import {sendTransactions} from '../../jobs/payouts/send-transactions.ts'
import {type Block, faucet, hashOf, ModelChain, secondMs, type Transaction} from './chain.ts'
import type {ModelDatabase} from './database.ts'
import {Indexer} from './indexer.ts'
import type {Kind} from './kinds.ts'
import {Connections} from './process.ts'

const phrase = 'test test test test test test test test test test test junk'
const merchantCount = 4
export const deposited = 1000n
const toppedUp = 5000n
/** So that payouts need sweeps. */
const little = 50n
const raceMs = 20

export interface Merchant {
  id: string
  /** Its deposit address, by kind. */
  address: string
  payoutAddress: string
}

/** What all histories of a kind begin with. */
export interface Start {
  head: Block
  merchants: Merchant[]
  treasury: string
}

export type Counts = Map<string, number>

/** What outlives a history. */
export class Base {
  readonly db: ModelDatabase
  readonly home: string
  readonly settings: Settings
  readonly counts: Counts = new Map()
  readonly starts = new Map<string, Start>()
  keys!: KeyStore
  seal!: Seal
  treasuries!: Awaited<ReturnType<typeof openTreasuries>>
  #journal = ''
  readonly #connections = new Map<Role, Connections>()
  /** When the model's time began, in ms. */
  readonly began = Date.now()

  constructor(db: ModelDatabase, home: string, kinds: Kind[]) {
    this.db = db
    this.home = home
    this.settings = readSettings(Object.assign({SLUICE_HOME: home}, ...kinds.map(({settings}) => settings)))
  }

  static async open(db: ModelDatabase, home: string, kinds: Kind[]): Promise<Base> {
    const base = new Base(db, home, kinds)
    mkdirSync(path.dirname(journalFile(home)), {recursive: true})
    base.keys = await localKeys(phrase, families)
    base.seal = await sealOf(base.keys)
    const client = await base.connections('sluice_custody').only()
    const derive = deriver(base.keys, base.settings.chains)
    base.treasuries = await openTreasuries(client, derive, true)
    const journal = base.openJournal(client)
    await journal.level()
    for (const family of familyNames)
      await fillPools(client, derive, journal, [{family, supply: new Supply(merchantCount + 1)}])
    journal.file.close()
    base.#journal = readFileSync(journalFile(home), 'utf8')
    for (const name of ['empty', 'backup']) await db.prepareCopy(name)
    await db.copy('empty')
    for (const kind of kinds) {
      await db.restore('empty')
      await db.prepareCopy(kind.name)
      base.starts.set(kind.name, await base.#begin(kind))
      await db.copy(kind.name)
    }
    return base
  }

  openJournal(client: pg.Client): Journal {
    const streams = [...chains.map(({code}) => code), ...familyNames.map(poolStream)]
    return new Journal(client, journalFile(this.home), streams, this.seal)
  }

  /** Connections with the rights of a role; they stay from history to history, until their process dies. */
  connections(role: Role): Connections {
    const known = this.#connections.get(role)
    if (known && !known.isDead) return known
    const made = new Connections(this.db, role, role === 'sluice_custody' ? 1 : 3)
    this.#connections.set(role, made)
    return made
  }

  count(what: string, more = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + more)
  }

  async restore(kind: Kind): Promise<void> {
    await this.db.restore(kind.name)
    writeFileSync(journalFile(this.home), this.#journal)
    rmSync(path.join(path.dirname(journalFile(this.home)), 'journal.incomplete'), {force: true})
  }

  async #begin(kind: Kind): Promise<Start> {
    if (kind.prepare) await this.db.rows(kind.prepare)
    const family = this.settings.chains.get(kind.chain)!.family
    const treasury = this.treasuries[family].address
    const merchants: Merchant[] = []
    for (let n = 0; n < merchantCount; n++) merchants.push(await this.#merchant(kind, family, n))
    const genesis = ModelChain.genesis(kind.rules, this.began)
    const chain = new ModelChain(kind.rules, nativeOf(kind), genesis)
    const indexer = new Indexer(this.connections('sluice_indexer').pool, kind, [
      treasury,
      ...merchants.map(({address}) => address),
    ])
    await indexer.anchor(genesis)
    const paid = [treasury, ...merchants.map(({address}) => address)]
    const transactions = paid.map((to, n) =>
      deposit(kind, `base ${n}`, to, n ? deposited : kind.native ? little : toppedUp),
    )
    // What an address holds of the coin is its merchant's.
    if (kind.native)
      transactions.push(...paid.slice(0, 2).map((to, n) => coinsFor(kind, `coins ${n}`, to, n ? 1n : toppedUp)))
    const {staked = 0n} = kind
    if (staked)
      transactions.push({
        ...coinsFor(kind, 'staked', treasury, 0n),
        outputs: [{to: treasury, token: nativeOf(kind), amount: staked}],
      })
    chain.head = chain.add(genesis, transactions, this.began)
    chain.head = chain.add(chain.head, [], this.began)
    chain.final = chain.head
    await indexer.read(chain)
    await indexer.finalise(chain)
    if (staked) await this.#stake(kind, staked)
    return {head: chain.head, merchants, treasury}
  }

  /** The coins are the treasury's still: the model's chain does not tell them apart. */
  async #stake({chain, ...kind}: Kind, staked: bigint): Promise<void> {
    await this.db.rows(
      `select app.post_stake(jsonb_populate_record(null::app.outgoing_payment,
         jsonb_build_object('id', uuidv7(), 'chain', $1::text, 'token', $2::text)), $3)`,
      [chain, nativeOf({chain, ...kind}), String(staked)],
    )
    await this.db.rows(`insert into app.stake (chain, resource, amount) values ($1, 'energy', $2)`, [
      chain,
      String(staked),
    ])
  }

  async #merchant(kind: Kind, family: string, n: number): Promise<Merchant> {
    const {db} = this
    const {chain} = kind
    const [merchant] = await db.rows<{id: string}>(
      `insert into app.merchant (name, prefix, fee_bps) values ('Test', $1, 100) returning id`,
      [`m${n}`],
    )
    const {id} = merchant!
    await db.rows('insert into app.merchant_chain (merchant_id, chain) values ($1, $2)', [id, chain])
    const [user] = await db.rows<{id: string}>(
      `insert into app.user (merchant_id, external_ref) values ($1, 'one') returning id`,
      [id],
    )
    await db.rows('select app.take_address($1, $2, $3)', [id, user!.id, family])
    await db.rows('update app.address set is_provisioned = true where user_id = $1', [user!.id])
    const [taken] = await db.rows<{address: string}>(
      'select address from app.address where user_id = $1 and chain = $2',
      [user!.id, chain],
    )
    const payoutAddress = kind.outsider(n)
    await db.rows('select app.set_payout_address($1, $2, $3)', [id, chain, payoutAddress])
    for (const [owner, to] of [
      [id, payoutAddress],
      [null, kind.outsider(operator)],
    ])
      await db.rows(
        'insert into custody.whitelist (merchant_id, chain, address) values ($1, $2, $3) on conflict do nothing',
        [owner, chain, to],
      )
    return {id, address: taken!.address, payoutAddress}
  }
}

/** Which of the outsiders' addresses is the operator's. */
export const operator = 8

export const nativeOf = ({native, token}: Kind) => native ?? token

function coinsFor({fee, ...kind}: Kind, what: string, to: string, units: bigint): Transaction {
  return {
    ...deposit({fee, ...kind}, what, to, 0n),
    outputs: [{to, token: nativeOf({fee, ...kind}), amount: units * fee}],
  }
}

export function deposit({token, unit}: Kind, what: string, to: string, units: bigint): Transaction {
  return {txid: hashOf(what), raw: '', from: faucet, fee: 0n, outputs: [{to, token, amount: units * unit}]}
}

/** What a thief in the worker's place keeps. */
export interface Stolen {
  outgoingPaymentId: string
  txid: string
  raw: string
  amount: string
}

export class World {
  readonly base: Base
  readonly kind: Kind
  readonly start: Start
  readonly chain: ModelChain
  readonly indexer: Indexer
  /** By txid: what custody's file says of each signature. */
  readonly signed = new Map<string, Entry>()
  readonly stolen: Stolen[] = []
  #custodyConnections!: Connections
  #custody!: Custody
  #journal: Journal | undefined
  #worker!: Connections
  #context!: Context
  /** The step at which a process dies next. */
  crashAt: string | undefined
  /** Custody's next answer is lost on its way. */
  losesAnswer = false
  /** Since the model began, in ms; each block takes a second. */
  #passedMs = 0
  #skewMs = 0
  #backup: {journal: string} | undefined
  deposits = 0
  /** What was signed, and is in no journal any more. */
  readonly forgotten = new Set<string>()
  /**
   * A thief called whatever the worker may call: what is owed and when it ends is not to be relied on any more, only
   * that nothing is paid twice.
   */
  isRobbed = false

  private constructor(base: Base, kind: Kind) {
    this.base = base
    this.kind = kind
    this.start = base.starts.get(kind.name)!
    this.chain = new ModelChain(kind.rules, nativeOf(kind), this.start.head)
    this.indexer = new Indexer(base.connections('sluice_indexer').pool, kind, [
      this.start.treasury,
      ...this.start.merchants.map(({address}) => address),
    ])
  }

  static async open(base: Base, kind: Kind): Promise<World> {
    await base.restore(kind)
    const world = new World(base, kind)
    await world.indexer.begin(world.start.head)
    await world.#tick(0)
    await world.openCustody()
    world.openWorker()
    worldNow = world
    return world
  }

  close(): void {
    worldNow = undefined
    this.#journal?.file.close()
  }

  get db(): ModelDatabase {
    return this.base.db
  }

  count(what: string, more = 1): void {
    this.base.count(what, more)
  }

  // --- time ---

  get now(): number {
    return this.base.began + this.#passedMs
  }

  /** Time passes, for everybody. */
  async pass(ms: number): Promise<void> {
    await this.#tick(ms)
  }

  /** The database's clock is wrong by this much. */
  async skew(ms: number): Promise<void> {
    this.#skewMs = ms
    await this.#tick(0)
  }

  async #tick(ms: number): Promise<void> {
    this.#passedMs += ms
    await this.db.setClock(this.now + this.#skewMs - Date.now())
  }

  // --- processes ---

  async openCustody(): Promise<void> {
    this.#journal?.file.close()
    this.#custodyConnections = this.base.connections('sluice_custody')
    const client = await this.#custodyConnections.only()
    const journal = this.base.openJournal(client)
    this.#journal = journal
    const append = journal.file.append.bind(journal.file)
    const connections = this.#custodyConnections
    journal.file.append = entries => {
      if (connections.isDead) throw new Error('custody is dead')
      append(entries)
      for (const entry of entries) if (entry.txid) this.signed.set(entry.txid, entry)
    }
    await journal.level()
    for (const {code} of chains) {
      const blocked = journal.whyBlocked(code)
      if (blocked?.code === 'journal_ahead')
        await client.query('select custody.halt_chain($1, $2)', [code, blocked.why])
    }
    const {keys, settings, treasuries} = this.base
    this.#custody = new Custody({client, keys, journal, chains: settings.chains, treasuries, log: silent()})
  }

  openWorker(): void {
    this.#worker = this.base.connections('sluice_jobs')
    const {pool} = this.#worker
    const payoutChain = this.kind.worker(this.base.settings, this.chain)
    const connections = this.#worker
    const broadcast = async (raws: string[]) => {
      if (connections.isDead) throw new Error('the worker is dead')
      for (const raw of raws) this.publish(raw)
      return raws.map(() => undefined)
    }
    this.#context = {
      pool,
      chains: new Map([[this.kind.chain, {...payoutChain, broadcast}]]),
      custody: new ClientInProcess(this),
      payoutTimeoutMs: this.base.settings.payoutTimeoutMs,
      replaceAfterMs: this.base.settings.replaceAfterMs,
      log: silent(),
    }
  }

  /** A statement of somebody else that begins when custody has judged, and before its journal is committed. */
  race: {sql: string; client: pg.PoolClient; done?: Promise<unknown>} | undefined

  /** A process reached a step. */
  reach(label: string): void {
    if (label === 'custody: judged' && this.race && !this.race.done) {
      this.race.done = this.race.client.query(this.race.sql)
      this.race.done.catch(() => {})
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, raceMs) // the statement goes on meanwhile, as far as locks let it
      this.count('races with custody')
    }
    if (label !== this.crashAt) return
    this.crashAt = undefined
    this.count(`crash at ${label}`)
    if (label.startsWith('custody: ')) this.#custodyConnections.kill()
    else this.#worker.kill()
  }

  /** What died starts again. */
  async revive(): Promise<void> {
    if (this.#worker.isDead) {
      await this.#worker.gone()
      this.openWorker()
    }
    if (this.#custodyConnections.isDead) {
      await this.#custodyConnections.gone()
      await this.openCustody()
    }
  }

  // --- custody ---

  /** What custody answers, if its answer arrives. */
  async ask(intents: object[]): Promise<unknown[]> {
    const connections = this.#custodyConnections
    if (connections.isDead) throw new RetryableError('custody is away')
    const {intents: asked} = SignRequest.parse({intents})
    const results = await this.#custody.sign(asked).catch(cause => {
      throw new RetryableError(`custody failed: ${cause.message}`, {cause})
    })
    if (connections.isDead) throw new RetryableError('custody died before it answered')
    if (this.losesAnswer) {
      this.losesAnswer = false
      this.count('answers lost')
      throw new RetryableError('the answer was lost')
    }
    return results
  }

  async check(payoutId: string): ReturnType<CustodyClient['check']> {
    const connections = this.#custodyConnections
    if (connections.isDead) throw new RetryableError('custody is away')
    const result = await this.#custody.check(payoutId).catch(cause => {
      throw new RetryableError(`custody failed: ${cause.message}`, {cause})
    })
    if (connections.isDead) throw new RetryableError('custody died before it answered')
    return result
  }

  // --- the worker ---

  async #run(task: Task, payload: object): Promise<void> {
    const worker = this.#worker
    if (worker.isDead) return
    try {
      await task(payload, {abortSignal: undefined} as unknown as JobHelpers)
    } catch (error) {
      if (!worker.isDead && !this.isRobbed) throw error
    }
  }

  async advance(): Promise<void> {
    const {chain, token} = this.kind
    for (const {id} of this.start.merchants)
      if (!this.#worker.isDead) await this.call('allocate_deposits', id, chain, token, 1000, true)
    const due = await this.db.rows<{id: string}>(
      `select id from app.payout where chain = $1 and status in ('pending', 'sweeping', 'swept') order by created_at`,
      [this.kind.chain],
    )
    for (const {id} of due) await this.#run(advancePayout(this.#context), {payout_id: id})
  }

  /** What the worker does now and then. */
  async tend(): Promise<void> {
    if (this.#worker.isDead) return
    try {
      await this.#context.chains.get(this.kind.chain)!.collect(this.#context)
    } catch (error) {
      if (!this.#worker.isDead && !this.isRobbed) throw error
    }
  }

  async send(): Promise<void> {
    await this.#run(sendTransactions(this.#context), {chain: this.kind.chain})
  }

  /** Calls a function with the worker's rights; undefined if it raised an error. */
  async call<T>(name: string, ...values: unknown[]): Promise<T | undefined> {
    const places = values.map((_, n) => `$${n + 1}`)
    try {
      const {rows} = await this.#worker.pool.query<{result: T}>(`select app.${name}(${places}) as result`, values)
      return rows[0]?.result
    } catch (error) {
      if ((error as {code?: string}).code === undefined) throw error
      this.count(`refused: ${name}`)
      return undefined
    }
  }

  // --- the chain ---

  /** The network gets these bytes. */
  publish(raw: string): void {
    const transaction = this.kind.parse(raw)
    this.chain.pool.set(transaction.txid, transaction)
  }

  /** A block on the node's chain, a second after the one before. */
  async mine(wanted: Transaction[], fails?: (txid: string) => boolean): Promise<Block> {
    await this.pass(secondMs)
    this.chain.head = this.chain.add(this.chain.head, wanted, this.now, fails)
    return this.chain.head
  }

  /** Empty blocks on the node's chain. */
  async mineEmpty(count: number): Promise<void> {
    for (let n = 1; n <= count; n++) this.chain.head = this.chain.add(this.chain.head, [], this.now + n * secondMs)
    await this.pass(count * secondMs)
  }

  // --- copies ---

  async backUp(): Promise<void> {
    await this.db.copy('backup')
    this.#backup = {journal: readFileSync(journalFile(this.base.home), 'utf8')}
  }

  get hasBackup(): boolean {
    return this.#backup !== undefined
  }

  /** The database is the older copy; custody's journal file stays, and an operator reconciles. */
  async restoreWithJournal(): Promise<void> {
    await this.#restore()
    const client = await this.db.pool.connect()
    try {
      await reconcile(client as unknown as pg.Client, journalFile(this.base.home))
    } finally {
      client.release()
    }
  }

  /**
   * Database and journal are the older copies: no first signature until all that may have been signed since is in a
   * final block, or has expired.
   */
  async restoreWithoutJournal(): Promise<void> {
    await this.#restore(() => {
      const file = journalFile(this.base.home)
      writeFileSync(file, this.#backup!.journal)
      markIncomplete(file, 'it was restored')
      for (const txid of this.signed.keys()) if (!this.#backup!.journal.includes(txid)) this.forgotten.add(txid)
    })
  }

  async #restore(more: () => void = () => {}): Promise<void> {
    this.#custodyConnections.kill()
    this.#worker.kill()
    await Promise.all([this.#custodyConnections.gone(), this.#worker.gone()])
    await this.db.restore('backup')
    more()
    await this.#tick(0)
    await this.indexer.resume()
    await this.openCustody()
    this.openWorker()
  }
}

/** The one that a step is for. */
let worldNow: World | undefined
subscribe('sluice:step', label => worldNow?.reach(String(label)))

/** Custody's client without a socket. */
class ClientInProcess extends CustodyClient {
  readonly #world: World

  constructor(world: World) {
    super(world.base.home)
    this.#world = world
  }

  override async sign<Needed>(intents: object[], schema: Responses<Needed>) {
    return schema.parse(JSON.parse(JSON.stringify({results: await this.#world.ask(intents)}))).results
  }

  override async check(payoutId: string) {
    return await this.#world.check(payoutId)
  }
}
