// Keeps the materialised views of analysts fresh. Promises: one view at a time, each at most a small share of the time (app.refresh_analytics),
// on a connection of its own, because it may take minutes; a worker that ends does not wait for it.
import pg from 'pg'

export interface AnalyticsRefresh {
  /** Computes every view that is due. */
  run(): Promise<void>
  /** Gives up what is under way; run rejects. */
  stop(): Promise<void>
}

export function analyticsRefresh(databaseUrl: string): AnalyticsRefresh {
  let isStopped = false
  let client: pg.Client | undefined
  const stopping = Promise.withResolvers<never>()
  stopping.promise.catch(() => {})
  return {
    async run() {
      client = connection(databaseUrl)
      try {
        await Promise.race([client.connect(), stopping.promise]) // a connection that is ended while it is made never says so
        while (!isStopped && (await refreshOne(client)));
      } finally {
        await client.end()
      }
    },
    async stop() {
      isStopped = true
      stopping.reject(new Error('the worker stops'))
      await client?.end()
    },
  }
}

/** False if no view is due, or another worker is at it. */
async function refreshOne(client: pg.Client): Promise<boolean> {
  const {rows} = await client.query<{view: string | null}>('select app.refresh_analytics() as view')
  return rows[0]!.view !== null
}

function connection(databaseUrl: string): pg.Client {
  const client = new pg.Client({
    connectionString: databaseUrl,
    application_name: 'sluice-analytics',
    keepAlive: true,
    connectionTimeoutMillis: 10_000,
    options: '-c client_connection_check_interval=1s', // the server gives a refresh up soon after its worker is gone
  })
  client.on('error', () => {}) // the query that it fails tells
  return client
}
