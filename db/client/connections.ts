// How many connections to Postgres each role may have open at once, and how many each of its processes opens. Promises:
// with the password of one role, a program cannot keep the other roles or the owner from connecting; the shares leave a
// tenth of the server's connections to the owner (migrations, the command line, backups). sluice migrate sets the
// limits anew, by the server's max_connections.

interface Connections {
  /** Of the server's max_connections. */
  share: number
  /** At most, of each process: in its pool, and one by one beside it. */
  pool: number
  beside: number
}

export const connections = {
  sluice_api: {share: 0.28, pool: 10, beside: 1}, // beside: the connection that listens for revoked keys
  sluice_jobs: {share: 0.23, pool: 20, beside: 3}, // liveness, the daily audit, materialised views
  sluice_indexer: {share: 0.18, pool: 3, beside: 3}, // of each chain; beside: the store, on Bitcoin the addresses, and the lock, which chains of one process share. A standby has the lock alone
  sluice_custody: {share: 0.05, pool: 0, beside: 2}, // beside: the one that it works with, and the one that notices when the database is away
  sluice_auth: {share: 0.04, pool: 3, beside: 1}, // beside: the one that notices that, here and in the next
  sluice_dashboard: {share: 0.06, pool: 5, beside: 1},
  sluice_analyst: {share: 0.06, pool: 0, beside: 1},
} as const satisfies Record<string, Connections>

/** At least as many as one process opens. */
export function connectionLimit(role: keyof typeof connections, maxConnections: number): number {
  const {share, pool, beside} = connections[role]
  return Math.max(pool + beside, Math.floor(share * maxConnections))
}
