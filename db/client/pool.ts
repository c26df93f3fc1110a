// Connections to Postgres. Promises: every connection names its process. A connection lost while idle never ends the
// process; a pool replaces it. An error of a connection is recognised as one of the database (failure.ts). No
// connection is made to a server that takes no writes, unless it is for reads only; one to a server that is no primary
// any more is closed, never used again. A database that does not respond gives an error within half a minute, unless
// held-connection.ts has noticed it before.
import pg from 'pg'
import type {Logger} from '../../base/log.ts'
import {fromDatabase, isNoPrimary, NoPrimaryError, noteOfDatabase} from './failure.ts'

interface PoolOptions {
  name: string
  max: number
  log?: Logger
  /** 0 if the caller has its own timeout: pg's own timer costs each statement some microseconds. */
  queryTimeoutMs?: number
  /** For a new connection, and for a free one. */
  connectTimeoutMs?: number
  /** Any server will do, also a standby. */
  isForReads?: boolean
}

/** Settings of which a server tells the value to each new connection, from PostgreSQL 14 on. On: it takes no writes. */
const readOnlySettings = ['in_hot_standby', 'default_transaction_read_only']

/**
 * Connects to a server that takes writes only: a proxy may lead to a standby for a moment, which answers, and may be
 * behind. Ends when the server says that it is no primary any more. Whoever made the statement may not know what the
 * error means.
 */
export class Client extends pg.Client {
  #refusal: NoPrimaryError | undefined

  constructor(config?: pg.ClientConfig) {
    super(config)
    this.on('error', noteOfDatabase) // the failing statement reports it
    this.connection.on('errorMessage', ({code}: pg.DatabaseError) => {
      if (isNoPrimary(code)) this.#leave()
    })
    this.connection.on('parameterStatus', ({parameterName, parameterValue}: Setting) => {
      if (readOnlySettings.includes(parameterName) && parameterValue === 'on')
        this.#refusal = new NoPrimaryError(`${parameterName} is on`)
    })
  }

  override connect(): Promise<pg.Client>
  override connect(callback: (error: Error) => void): void
  override connect(callback?: (error: Error) => void): Promise<pg.Client> | undefined {
    if (!callback) return fromDatabase(super.connect().then(() => this.#orRefusal()))
    super.connect((error?: Error) => {
      if (!error && this.#refusal) this.#leave()
      if (error) noteOfDatabase(error) // typeorm's pool is not ours
      callback((error ?? this.#refusal)!)
    })
  }

  #orRefusal(): this {
    if (!this.#refusal) return this
    this.#leave()
    throw this.#refusal
  }

  #leave(): void {
    this.end().catch(() => {})
  }
}

/** Works with one connection to a server that takes writes, as a role that may write. */
export async function withClient<T>(url: string, name: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new Client({connectionString: url, application_name: name})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

interface Setting {
  parameterName: string
  parameterValue: string
}

/** Its errors are noted as those of the database. */
export class Pool extends pg.Pool {
  readonly #open = new Set<pg.PoolClient>()

  constructor(options: pg.PoolConfig) {
    super(options)
    this.on('connect', client => client.on('error', noteOfDatabase)) // before the error of a statement under way is reported
    this.on('connect', client => this.#open.add(client))
    this.on('remove', client => this.#open.delete(client))
  }

  /** Closes every connection at once; statements under way fail. Later statements open new ones. */
  cut(): void {
    for (const client of this.#open)
      client.connection.stream.destroy(new Error('Connection terminated: the database is away'))
  }

  override connect(): Promise<pg.PoolClient>
  override connect(callback: Connected): void
  override connect(callback?: Connected): Promise<pg.PoolClient> | undefined {
    if (!callback) return fromDatabase(super.connect())
    super.connect((error, client, done) => {
      if (error) noteOfDatabase(error)
      callback(error, client, done)
    })
  }
}

type Connected = (
  error: Error | undefined,
  client: pg.PoolClient | undefined,
  done: (release?: unknown) => void,
) => void

/** A pool of at most `max` connections. bigint and numeric columns arrive as strings: money never becomes a float. */
export function openPool(url: string, options: PoolOptions): Pool {
  const {name, max, log, queryTimeoutMs = 30_000, connectTimeoutMs = 10_000, isForReads = false} = options
  const pool = new Pool({
    connectionString: url,
    max,
    application_name: name,
    keepAlive: true,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: queryTimeoutMs,
    Client: isForReads ? pg.Client : Client,
  })
  pool.on('error', error =>
    log?.debug({error: error.message}, 'a database connection was lost; a new one is made when it is needed'),
  )
  return pool
}

/** Each query waits for the one before: pg warns if it has to queue them itself, and its next version does not. */
class SharedClient extends Client {
  #before: Promise<unknown> = Promise.resolve()

  constructor(config: pg.ClientConfig) {
    super(config)
    const send = this.query.bind(this) as (...query: unknown[]) => Promise<unknown>
    this.query = ((...query: unknown[]) => {
      const result = this.#before.then(() => send(...query))
      this.#before = result.catch(() => {})
      return result
    }) as typeof this.query
  }
}

/**
 * A connection that holds advisory locks for as long as its process lives and reaches the database. Several parts of
 * the process use it. Postgres frees them within 25 seconds after the machine vanished (with its defaults it would take
 * two hours). Not connected yet.
 */
export function lockConnection(url: string, name: string, more: pg.ClientConfig = {}): pg.Client {
  return new SharedClient({
    connectionString: url,
    application_name: name,
    keepAlive: true,
    connectionTimeoutMillis: 10_000,
    options: '-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3',
    ...more,
  })
}
