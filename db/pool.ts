// Connections to Postgres. Promises: every connection says which process it belongs to; a connection lost while idle is replaced and
// never ends the process; a database that swallows what it is asked is an error within half a minute, not a silence.
import pg from 'pg'
import type {Logger} from '../base/log.ts'

interface PoolOptions {
  name: string
  max: number
  log?: Logger
  /** 0 where the caller sees to it: pg's own timer costs each statement some microseconds. */
  queryTimeoutMs?: number
}

/** A pool of at most `max` connections. bigint and numeric columns arrive as strings: money never becomes a float. */
export function openPool(url: string, {name, max, log, queryTimeoutMs = 30_000}: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max,
    application_name: name,
    keepAlive: true,
    connectionTimeoutMillis: 10_000,
    query_timeout: queryTimeoutMs,
  })
  pool.on('error', error =>
    log?.warn({error: error.message}, 'a database connection was lost; a new one is made when it is needed'),
  )
  return pool
}

/**
 * A connection that holds advisory locks for as long as its process lives and reaches the database. Postgres frees them within 25 seconds
 * after the machine vanished (with its defaults it would take two hours). Not connected yet.
 */
export function lockConnection(url: string, name: string): pg.Client {
  return new pg.Client({
    connectionString: url,
    application_name: name,
    keepAlive: true,
    connectionTimeoutMillis: 10_000,
    options: '-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3',
  })
}
