// Ends processes (with SIGKILL) and database connections at random moments. For half of the processes that write, it
// waits until they have an open transaction.
import {setTimeout as sleep} from 'node:timers/promises'
import {kill} from '../support/processes.ts'
import type {Random} from './random.ts'
import {chainCodes, type Service} from './service.ts'

const weights: Record<string, number> = {
  api: 3,
  jobs: 4,
  'the second worker': 3,
  custody: 3,
  postgres: 1,
  'a server process of postgres': 1,
  'a connection': 3,
  ...ofEachChain({indexer: 4, devnet: 0.6, node: 0.5}),
}

/** The application names of processes that write. */
const writers = new Map([
  ['jobs', 'sluice-jobs'],
  ...chainCodes.map(code => [`indexer-${code.toLowerCase()}`, `indexer-${code}`] as const),
])
const aimMs = 1000

export class Killer {
  readonly #service: Service
  readonly #random: Random
  #isStarting = false
  readonly counts: Record<string, number> = {}

  constructor(service: Service, random: Random) {
    this.#service = service
    this.#random = random.fork('killer')
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }

  async run(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      await sleep(this.#random.between(800, 3500))
      if (stopped.aborted) return
      if (this.#isStarting && this.#random.chance(0.8)) continue // most starts complete
      await this.#killOne(this.#random.weighted(weights)).catch(() => {}) // the database is down: there is no transaction to wait for
    }
  }

  /** Kills the supervisor, and starts it again a moment later. */
  async killSupervisor(): Promise<void> {
    await this.#service.killSupervisor()
    this.#count('supervisor')
    await sleep(this.#random.between(0, 3000))
    this.#isStarting = true
    await this.#service.start()
    this.#isStarting = false
  }

  async #killOne(victim: string): Promise<void> {
    if (victim === 'a connection' || victim === 'a server process of postgres') {
      await this.#endServerProcess(victim)
      return this.#count(victim)
    }
    const writer = writers.get(victim)
    const isWriting = writer !== undefined && this.#random.chance(0.5) && (await this.#aim(writer))
    if (!this.#service.kill(victim)) return
    this.#count(victim)
    if (isWriting) this.#count(`${victim}, writing`)
  }

  /** Waits, for a moment, until a process has a writing transaction open. */
  async #aim(writer: string): Promise<boolean> {
    return await this.#service.inDatabase(async db => {
      for (const deadline = Date.now() + aimMs; Date.now() < deadline; ) {
        const {rowCount} = await db.query(
          'select from pg_stat_activity where application_name = $1 and backend_xid is not null',
          [writer],
        )
        if (rowCount) return true
      }
      return false
    })
  }

  /**
   * Ends the server's side of a connection: with a function of the server, or with SIGKILL, which makes Postgres
   * restart all of them.
   */
  async #endServerProcess(how: 'a connection' | 'a server process of postgres'): Promise<void> {
    await this.#service.inDatabase(async db => {
      const {rows} = await db.query<{pid: number}>(
        `select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() order by pid`,
      )
      const {pid} = this.#random.pick(rows)
      if (how === 'a connection') await db.query('select pg_terminate_backend($1)', [pid])
      else kill(pid, 'SIGKILL')
    })
  }
}

function ofEachChain(weights: Record<string, number>): Record<string, number> {
  const each = chainCodes.flatMap(code =>
    Object.entries(weights).map(([kind, weight]) => [`${kind}-${code.toLowerCase()}`, weight] as const),
  )
  return Object.fromEntries(each)
}
