// Connections to Postgres. Promises: every connection says which process it belongs to; a connection lost while idle is replaced and
// never ends the process.
import pg from 'pg'
import type {Logger} from '../service/log.ts'

/** A pool of at most `max` connections. bigint and numeric columns arrive as strings: money never becomes a float. */
export function openPool(url: string, {name, max, log}: {name: string; max: number; log?: Logger}): pg.Pool {
  const pool = new pg.Pool({connectionString: url, max, application_name: name, keepAlive: true})
  pool.on('error', error =>
    log?.warn({error: error.message}, 'a database connection was lost; a new one is made when it is needed'),
  )
  return pool
}
