// A process of the service as the model has it: a role's connections, and memory. Promises: when it dies, its
// connections are gone before anything else happens, and nothing that still runs in its name can open another one.
import type {Socket} from 'node:net'
import pg from 'pg'
import type {Role} from '../../db/migrate/migrate.ts'
import {type ModelDatabase, prepareEach} from './database.ts'

class Dead extends Error {
  constructor() {
    super('the process is dead')
  }
}

export class Connections {
  readonly pool: pg.Pool
  readonly #db: ModelDatabase
  readonly #name: string
  readonly #clients = new Set<pg.Client>()
  #only: pg.Client | undefined
  isDead = false

  constructor(db: ModelDatabase, role: Role, max: number) {
    this.#db = db
    this.#name = `${role} ${process.pid} ${++Connections.#count}` // other processes have databases on the same server
    this.pool = new pg.Pool({connectionString: db.url(role), max, application_name: this.#name, idleTimeoutMillis: 0})
    this.pool.on('error', () => {})
    this.pool.on('connect', client => {
      client.on('error', () => {})
      prepareEach(client)
      this.#clients.add(client)
    })
  }

  static #count = 0

  kill(): void {
    if (this.isDead) return
    this.isDead = true
    const refuse = () => Promise.reject(new Dead())
    Object.assign(this.pool, {query: refuse, connect: refuse})
    for (const client of this.#clients) {
      const {connection} = client as unknown as {connection: {stream: Socket}}
      connection.stream.destroy()
    }
  }

  /** Resolves once the server has given up what it held. */
  async gone(): Promise<void> {
    const ended = 'select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1'
    while ((await this.#db.rows(ended, [this.#name])).length);
  }

  /** The one connection of a process that needs no other. */
  async only(): Promise<pg.Client> {
    this.#only ??= (await this.pool.connect()) as unknown as pg.Client
    return this.#only
  }
}
