// What the database server must be: PostgreSQL of a version that has what the schema uses, with connections for every
// process.
import type pg from 'pg'
import {PermanentError} from '../../base/errors.ts'
import {withClient} from '../client/pool.ts'

const oldestMajor = 18
/** What the shares of the roles are made for (client/connections.ts). */
const connectionsWanted = 200

export interface Server {
  /** As Postgres counts: 180004 is 18.4. */
  number: number
  version: string
  connections: number
}

export async function describeServer(client: pg.Client): Promise<Server> {
  const {rows} = await client.query<Server>(
    `select current_setting('server_version_num')::int as number, current_setting('server_version') as version,
       current_setting('max_connections')::int as connections`,
  )
  return rows[0]!
}

/** Throws PermanentError if a server is too old for the schema. */
export function requireVersion({number, version}: Server): void {
  if (number >= oldestMajor * 10_000) return
  throw new PermanentError(
    `the database server is PostgreSQL ${version}, and Sluice needs version ${oldestMajor} or newer; nothing was changed. ` +
      'Name a newer server in DATABASE_URL; docs/operations/backup.md says how to move a database there',
  )
}

/**
 * In words, that a server allows fewer connections than the processes of a usual service open; undefined if it does
 * not.
 */
export function tooFewConnections({connections}: Server): string | undefined {
  if (connections >= connectionsWanted) return undefined
  return (
    `the database server allows ${connections} connections, and Sluice is made for ${connectionsWanted}: with fewer, some processes may be refused; ` +
    `set max_connections = ${connectionsWanted}, restart the server, then run sluice migrate (docs/database.md says how many are enough for what)`
  )
}

/** The same, of the server of this URL. */
export async function connectionsLacking(ownerUrl: string): Promise<string | undefined> {
  return await withClient(ownerUrl, 'sluice-settings', async client => {
    return tooFewConnections(await describeServer(client))
  })
}
