// The parts of a conformance test: a chain, a database, the chain's indexer as a process, and a ledger of everything
// that was signed. Promises: `settled` resolves only when the database equals the chain, and each change of a deposit
// was notified exactly once since it resolved the last time.
import type {TestContext} from 'vitest'
import {chain as registered} from '../../chains/registry.ts'
import {readSettings} from '../../chains/settings.ts'
import {writeAssets} from '../../db/migrate/assets.ts'
import type {BlockRef} from '../../indexers/cursor.ts'
import {type TestDatabase, testDatabase} from '../support/database.ts'
import {Indexer} from '../support/indexer.ts'
import {makeMerchant, watchAddress} from '../support/people.ts'
import {until} from '../support/until.ts'
import type {ChainUnderTest, LocalChain, Output, Payment, Place} from './chain.ts'

/** How far the newest final block is below the head. */
export const finalDepth = 6

const settleTimeoutMs = 120_000
/**
 * How long an unconfirmed deposit may be missing before it counts as gone. Tests do not wait for it: they move the
 * clock.
 */
const graceMs = 30_000

export interface WorldOptions {
  /** The indexer's setting; empty: none. */
  startHeight?: string
}

export interface Deposit {
  id: string
  address: string
  amount: string
  status: string
  height: number | null
  hash: string | null
  /** In order, without the prefix "deposit.". */
  events: string
}

interface Signed {
  payment: Payment
  /** Equal for payments that exclude each other. */
  source: string
  place: Place
  /** How often it left the chain since the last quiet point. */
  losses: number
}

export class World {
  readonly under: ChainUnderTest
  readonly chain: LocalChain
  readonly db: TestDatabase
  readonly merchantId: string
  readonly indexer: Indexer
  readonly addresses: string[] = []
  readonly #signed = new Map<string, Signed>()
  /** The events of each deposit at the last quiet point. */
  readonly #told = new Map<string, string>()

  private constructor(
    under: ChainUnderTest,
    chain: LocalChain,
    db: TestDatabase,
    merchantId: string,
    {startHeight = '1'}: WorldOptions,
  ) {
    this.under = under
    this.chain = chain
    this.db = db
    this.merchantId = merchantId
    const environment = {...chain.environment, [`${under.code}_START_HEIGHT`]: startHeight}
    this.indexer = new Indexer({db, chain: under.code, environment})
  }

  static async create(under: ChainUnderTest, options: WorldOptions = {}): Promise<World> {
    const [db, chain] = await Promise.all([testDatabase(), under.start(finalDepth)])
    await writeAssets(db.ownerUrl, readSettings(chain.environment).chains.values())
    return new World(under, chain, db, await makeMerchant(db, [under.code]), options)
  }

  /** For one test only, and removed after it. */
  static async forTest(
    under: ChainUnderTest,
    {onTestFinished}: Pick<TestContext, 'onTestFinished'>,
    options: WorldOptions = {},
  ): Promise<World> {
    const world = await World.create(under, options)
    onTestFinished(() => world.clear())
    return world
  }

  async clear(): Promise<void> {
    await this.indexer.stop()
    await this.chain.stop()
    await this.db.drop()
  }

  /** A new address of a new user. It is ours once this resolves. */
  async newAddress(): Promise<string> {
    const address = this.chain.newAddress()
    await this.watch(address)
    return address
  }

  /** Makes an address ours. */
  async watch(address: string): Promise<void> {
    const {code} = this.under
    const {family} = registered(code)
    this.addresses.push(address)
    await watchAddress(this.db, this.merchantId, {address, family, watched: [code], chains: [code]})
  }

  // --- what happens on the chain ---

  async sign(outputs: Output[], insteadOf?: Payment): Promise<Payment> {
    const payment = await this.chain.sign(outputs, insteadOf)
    const source = insteadOf ? this.#signed.get(insteadOf.txid)!.source : payment.txid
    this.#signed.set(payment.txid, {payment, source, place: undefined, losses: 0})
    return payment
  }

  /** Signs, and sends to the mempool. */
  async pay(...outputs: Output[]): Promise<Payment> {
    const payment = await this.sign(outputs)
    await this.send(payment)
    return payment
  }

  async send(payment: Payment): Promise<void> {
    await this.chain.send(payment)
    await this.#poll()
  }

  async forget(payment: Payment): Promise<void> {
    await this.chain.forget(payment)
    await this.#poll()
  }

  async mine(blocks?: number): Promise<BlockRef> {
    const head = await this.chain.mine(blocks)
    await this.#poll()
    return head
  }

  async reorg(depth: number, again?: Record<number, Payment[]>): Promise<BlockRef> {
    const head = await this.chain.reorg(depth, again)
    await this.#poll()
    return head
  }

  /** Like `reorg`, and the payments of the replaced blocks return to the mempool. */
  async unmine(depth: number): Promise<BlockRef> {
    const above = (await this.chain.head()).height - depth
    const left = this.signed.filter(({place}) => typeof place === 'object' && place.height > above)
    const head = await this.chain.reorg(depth)
    for (const {payment} of left) await this.chain.send(payment)
    await this.#poll()
    return head
  }

  /** Every signed payment, and where it is. */
  get signed(): {payment: Payment; place: Place}[] {
    return [...this.#signed.values()]
  }

  async #poll(): Promise<void> {
    const all = [...this.#signed.values()]
    const places = await this.chain.places(all.map(({payment}) => payment))
    for (const [i, signed] of all.entries()) {
      const before = this.#shows(signed)
      signed.place = places[i]
      if (before && !this.#shows(signed)) signed.losses += 1
    }
  }

  /** Whether the chain shows the payment. */
  #shows({place}: Signed): boolean {
    return place === 'unconfirmed' ? this.under.showsUnconfirmed : place !== undefined
  }

  // --- what the database has ---

  /** The deposits of a payment, by their outputs. */
  deposits({txid}: Payment): Promise<Deposit[]> {
    return this.db.rows<Deposit>(
      `select id, address, amount::text, status, block_height as height, block_hash as hash, coalesce((select
         string_agg(substr(type, 9), ' ' order by position) from app.event where subject_id = d.id), '') as events
       from app.deposit d where chain = $1 and txid = $2 order by output_index, seq`,
      [this.under.code, txid],
    )
  }

  /** The only deposit of a payment. */
  async deposit(payment: Payment): Promise<Deposit | undefined> {
    const [deposit, ...others] = await this.deposits(payment)
    if (others.length) throw new Error(`${payment.txid} has more than one deposit`)
    return deposit
  }

  async balance(): Promise<bigint> {
    const [row] = await this.db.rows<{amount: string}>('select sum(amount)::text as amount from app.balance_now')
    return BigInt(row!.amount ?? 0)
  }

  /** Waits until the database equals the chain. */
  async settled(): Promise<void> {
    const truth = await this.#truth()
    let differences: string[] = []
    await until(
      async () => {
        await this.#moveClock()
        differences = await this.#differences(truth)
        return differences.length === 0
      },
      {timeoutMs: settleTimeoutMs, what: 'the database to equal the chain', intervalMs: 50},
    ).catch((error: Error) => {
      const {ends, logs} = this.indexer
      const said = logs.slice(-10).map(line => JSON.stringify(line))
      const lines = [error.message, ...differences, `the indexer ended with ${ends}; its last log lines:`, ...said]
      throw new Error(lines.join('\n  '), {cause: error})
    })
    for (const [key, events] of truth.seen) this.#told.set(key, events)
    for (const signed of this.#signed.values()) signed.losses = 0
  }

  /**
   * Lets the time pass after which a missing unconfirmed deposit counts as gone. Deposits that a double spend excludes
   * need no wait.
   */
  async #moveClock(): Promise<void> {
    if (!this.under.showsUnconfirmed) return
    const all = [...this.#signed.values()]
    const spent = new Set(all.filter(({place}) => typeof place === 'object').map(({source}) => source))
    const gone = all.filter(({place, source}) => !place && !spent.has(source)).map(({payment}) => payment.txid)
    await this.db.rows(
      `update chain.unconfirmed set missed_since = missed_since - $3 * interval '1 ms'
       where chain = $1 and txid = any($2) and missed_since > now() - $3 * interval '1 ms'`,
      [this.under.code, gone, graceMs],
    )
  }

  async #truth(): Promise<Truth> {
    const head = await this.chain.head()
    const expected = new Map<string, string>()
    const sums = new Map(this.addresses.map(address => [address, 0n]))
    const [{token: native}] = registered(this.under.code).assets
    let balance = 0n
    for (const {payment, place} of this.#signed.values()) {
      if (!place || (place === 'unconfirmed' && !this.under.showsUnconfirmed)) continue
      for (const {index, to, amount, token = native} of payment.outputs) {
        const sum = sums.get(to)
        if (sum === undefined) continue // not ours
        const mined = place === 'unconfirmed' ? undefined : place
        const isFinal = mined !== undefined && mined.height <= head.height - finalDepth
        const where = mined ? `block ${mined.height} ${mined.hash}` : 'no block'
        expected.set(
          `${payment.txid}:${index} ${to}`,
          `${amount} ${token} ${isFinal ? 'final' : 'pending'} in ${where}`,
        )
        if (mined) sums.set(to, sum + amount)
        if (isFinal) balance += amount
      }
    }
    // The payments of the driver, compared with the node's view of our addresses.
    for (const [address, sum] of sums) {
      const received = await this.chain.received(address)
      if (received !== sum) throw new Error(`the chain paid ${received} to ${address}, the payments say ${sum}`)
    }
    const heights = Array.from({length: 2 * finalDepth}, (_, i) => head.height - i).filter(height => height >= 0)
    const blocks = await Promise.all(heights.map(async height => [height, await this.chain.hashAt(height)] as const))
    return {head, blocks: new Map(blocks), expected, balance, seen: new Map()}
  }

  async #differences(truth: Truth): Promise<string[]> {
    const {code} = this.under
    const {head, expected, balance} = truth
    const wrong: string[] = []
    const [cursor] = await this.db.rows<{head: string; final: number}>(
      'select head_hash as head, final_height as final from chain.cursor where chain = $1',
      [code],
    )
    if (cursor?.head !== head.hash) return [`the head is ${cursor?.head}, on the chain ${head.height} ${head.hash}`]
    if (cursor.final !== Math.max(head.height - finalDepth, cursor.final))
      wrong.push(`final up to ${cursor.final}, on the chain up to ${head.height - finalDepth}`)

    const blocks = await this.db.rows<BlockRef>('select height, hash from chain.block where chain = $1', [code])
    for (const {height, hash} of blocks)
      if (truth.blocks.has(height) && truth.blocks.get(height) !== hash) wrong.push(`block ${height} is ${hash} here`)

    const rows = await this.db.rows<Row>(
      `select d.txid || ':' || d.output_index || ' ' || d.address as key, d.status, d.version,
         d.amount || ' ' || d.token || ' ' || d.status || ' in ' || coalesce('block ' || d.block_height || ' ' || d.block_hash, 'no block') as state,
         (select array_agg(e.version order by position) from app.event e where subject_id = d.id) as versions,
         (select string_agg(substr(e.type, 9), ' ' order by position) from app.event e where subject_id = d.id) as events
       from app.deposit d where chain = $1`,
      [code],
    )
    const alive = new Set<string>()
    for (const row of rows) {
      truth.seen.set(row.key, row.events ?? '')
      wrong.push(...this.#tellingWrong(row))
      if (row.status === 'reorged') continue
      alive.add(row.key)
      if (expected.get(row.key) !== row.state)
        wrong.push(`${row.key} is ${row.state}, on the chain ${expected.get(row.key) ?? 'nowhere'}`)
    }
    for (const [key, state] of expected) if (!alive.has(key)) wrong.push(`${key} is no deposit, on the chain ${state}`)

    if ((await this.balance()) !== balance)
      wrong.push(`the balance is ${await this.balance()}, on the chain ${balance}`)
    const leftOver = await this.db.rows(
      `select 'incident' as what, kind || ' ' || details as which from app.incident
       union all select 'difference in the books', b::text from app.balance_audit b
       union all select 'unsettled', id from chain.touched union all select 'unsettled', chain from chain.touched_chain`,
    )
    wrong.push(...leftOver.map(({what, which}) => `${what}: ${which}`))
    return wrong
  }

  /** The errors in the events of a deposit. They must report each change once, and nothing else. */
  #tellingWrong({key, status, version, versions, events}: Row): string[] {
    const shape =
      status === 'final'
        ? /^(pending reorged )*pending confirmed$/
        : status === 'pending'
          ? /^(pending reorged )*pending$/
          : /^pending reorged( pending reorged)*$/
    const before = this.#told.get(key) ?? ''
    const losses = this.#signed.get(key.slice(0, key.indexOf(':')))?.losses ?? 0
    const told = events ?? ''
    const reorged = (text: string) => text.split('reorged').length - 1
    const right =
      shape.test(told) &&
      told.startsWith(before) &&
      versions?.length === version &&
      versions.every((number, i) => number === i + 1) &&
      reorged(told) - reorged(before) <= losses
    return right
      ? []
      : [`${key} (${status}, lost ${losses} times since "${before}") has the events "${told}" ${versions}`]
  }

  /** All rows that an indexer can have written, without times of writing. */
  async everything(): Promise<unknown> {
    const [row] = await this.db.rows(
      `select (select json_agg(b order by height) from chain.block b) as blocks,
         (select json_agg(t order by id) from chain.transfer t) as transfers,
         (select json_agg(d order by seq) from app.deposit d) as deposits,
         (select json_agg(e order by position) from app.event e) as events,
         (select json_agg(b) from app.balance_delta b) as balances,
         (select json_agg(json_build_array(head_hash, final_hash)) from chain.cursor c) as cursors`,
    )
    return row
  }
}

interface Truth {
  head: BlockRef
  /** Hashes of the newest blocks. */
  blocks: Map<number, string | undefined>
  /** The expected rows by txid, output index and address. */
  expected: Map<string, string>
  balance: bigint
  /** The events of our rows, as they were last read. */
  seen: Map<string, string>
}

interface Row {
  key: string
  status: string
  version: number
  state: string
  versions: number[] | null
  events: string | null
}
