// The databases that serve requests: the primary and, if one is set, a streaming replica that takes the reads.
// Promises: every change goes to the primary. A merchant's later reads see its own changes, and a merchant never sees
// an older state than before (within this process; across several processes, while the replica is less than a second
// behind). What the replica lacks is looked up on the primary. A replica that fails, is more than 10 seconds behind, or
// is no replica, serves nothing; the primary takes its place.
//
// A position is a place in the primary's WAL. A merchant is held if its reads must see a position that the replica may
// not have reached: its reads go to the primary until the replica has reached it.
import {setTimeout as sleep} from 'node:timers/promises'
import pg from 'pg'
import {Gauge} from 'prom-client'
import type {Logger} from '../base/log.ts'
import {registry} from '../base/observe.ts'
import {type Database, type Statement, statement} from './database.ts'

/** How long a change waits for the replica. After that, its merchant is held. */
const changeTimeoutMs = 1000
const heldIntervalMs = 20
const idleIntervalMs = 1000
const mostLagMs = 10_000

export type Queries = Pick<Database, 'read' | 'change'>
type Values = Parameters<Database['read']>[1]

const readPosition = statement(
  'read_position',
  `select (pg_current_wal_insert_lsn() - '0/0')::text, (select system_identifier::text from pg_control_system())`,
)
const readReplayed = statement(
  'read_replayed',
  `select (pg_last_wal_replay_lsn() - '0/0')::text, (select system_identifier::text from pg_control_system()) where pg_is_in_recovery()`,
)

/** The position that a merchant's reads must see; unknown until it is read. */
interface Hold {
  position?: bigint
  /** Changes that wait until the merchant is no longer held. */
  readonly waiting: (() => void)[]
}

export interface ReplicaState {
  /** Whether the replica takes reads. */
  serving: boolean
  /** The longest time that the replica may be behind; null while it is unknown. */
  lag_seconds: number | null
}

export class Databases {
  readonly primary: Database
  readonly #replica: Database | undefined
  readonly #log: Logger
  readonly #holds = new Map<string, Hold>()
  /** Positions of the primary that the replica has not reached, or has just reached, and when they were read. */
  #seen: {at: number; position: bigint}[] = []
  #isUp = false
  #reachedAt: number | undefined
  #wake = () => {}
  readonly #closing = new AbortController()
  readonly #following: Promise<void>

  constructor(primary: Database, replica: Database | undefined, log: Logger) {
    this.primary = primary
    this.#replica = replica
    this.#log = log
    this.#following = replica ? this.#follow(replica) : Promise.resolve()
    if (replica) this.#measure()
  }

  #measure(): void {
    gauge('sluice_replica_serving', '1 while the replica serves the reads of the API.', () => Number(this.#isServing()))
    gauge('sluice_replica_lag_seconds', 'The most that the replica may be behind the primary.', () =>
      Number(this.replica?.lag_seconds ?? Number.NaN),
    )
  }

  /** Reads and changes of a merchant. */
  of(merchantId: string): Queries {
    if (!this.#replica) return this.primary
    return {
      read: (query, values) => this.#read(merchantId, query, values),
      change: (query, values) => this.#change(merchantId, query, values),
    }
  }

  /** Undefined if there is no replica. */
  get replica(): ReplicaState | undefined {
    if (!this.#replica) return undefined
    const lag = this.#reachedAt === undefined ? null : (performance.now() - this.#reachedAt) / 1000
    return {serving: this.#isServing(), lag_seconds: lag}
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#following
    await Promise.all([this.primary.close(), this.#replica?.close()])
  }

  #isServing(): boolean {
    return this.#isUp && this.#reachedAt !== undefined && performance.now() - this.#reachedAt < mostLagMs
  }

  async #read<Row extends unknown[]>(merchantId: string, query: Statement, values: Values): Promise<Row | undefined> {
    if (this.#isServing() && !this.#holds.has(merchantId)) {
      const row = await this.#replica!.read<Row>(query, values).catch(error => this.#fail(error))
      if (row) return row
    }
    const row = await this.primary.read<Row>(query, values)
    this.#hold(merchantId) // the primary's reply may be newer than the replica
    return row
  }

  async #change<Row extends unknown[]>(merchantId: string, query: Statement, values: Values): Promise<Row | undefined> {
    try {
      return await this.primary.change<Row>(query, values)
    } finally {
      const {waiting} = this.#hold(merchantId)
      if (this.#isServing()) {
        const {promise: reached, resolve} = Promise.withResolvers<void>()
        waiting.push(resolve)
        await Promise.race([reached, sleep(changeTimeoutMs, undefined, {ref: false})])
      }
    }
  }

  /** Holds a merchant until the replica has what the primary has now. */
  #hold(merchantId: string): Hold {
    const hold = {waiting: this.#holds.get(merchantId)?.waiting ?? []}
    this.#holds.set(merchantId, hold)
    this.#wake()
    return hold
  }

  /** Polls both positions: often while any merchant is held, otherwise to know how far the replica is behind. */
  async #follow(replica: Database): Promise<void> {
    const {signal} = this.#closing
    while (!signal.aborted) {
      const {promise: woken, resolve} = Promise.withResolvers<void>()
      await this.#compare(replica).catch(error => this.#fail(error))
      const isAwaited = this.#isServing() && this.#holds.size > 0
      if (this.#isServing() && !isAwaited) this.#wake = resolve
      await Promise.race([
        woken,
        sleep(isAwaited ? heldIntervalMs : idleIntervalMs, undefined, {signal}).catch(() => {}),
      ])
      this.#wake = () => {}
    }
  }

  async #compare(replica: Database): Promise<void> {
    const unplaced = [...this.#holds.values()].filter(({position}) => position === undefined)
    const at = performance.now()
    const [position, system] = await this.#positionOf(this.primary, readPosition)
    for (const hold of unplaced) hold.position = position
    if (this.#seen.at(-1)?.position === position) this.#seen.pop()
    this.#seen.push({at, position})
    const [replayed, replicated] = await this.#positionOf(replica, readReplayed)
    if (replicated !== system) throw new Error('it is a replica of another cluster')
    this.#reach(replayed)
    if (!this.#isUp) this.#log.info('the replica takes reads')
    this.#isUp = true
  }

  async #positionOf(database: Database, query: Statement): Promise<[position: bigint, system: string]> {
    const found = await database.read<[string | null, string]>(query, [])
    if (!found?.[0]) throw new Error('it is no replica')
    return [BigInt(found[0]), found[1]]
  }

  #reach(replayed: bigint): void {
    const reached = this.#seen.findLast(({position}) => position <= replayed)
    if (reached) {
      this.#reachedAt = reached.at
      this.#seen = this.#seen.filter(({at}) => at >= reached.at)
    }
    for (const [merchantId, hold] of this.#holds) {
      if (hold.position === undefined || hold.position > replayed) continue
      this.#holds.delete(merchantId)
      for (const go of hold.waiting) go()
    }
  }

  /**
   * After a refusal, such as a read that the replica's replay cancelled, the primary is asked. Any other error ends the
   * replica's service.
   */
  #fail(error: unknown): undefined {
    if (this.#closing.signal.aborted || (error instanceof pg.DatabaseError && error.severity === 'ERROR')) return
    if (this.#isUp)
      this.#log.warn(
        {error: (error as Error).message},
        'the replica fails; the primary serves the reads until the replica is back',
      )
    this.#isUp = false
  }
}

function gauge(name: string, help: string, read: () => number): void {
  registry.removeSingleMetric(name) // of a server before, in this process
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(read())
    },
  })
}
