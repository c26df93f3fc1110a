// Work of a worker that may take minutes, on a connection of its own, because the worker's others have a time limit for a query. Promises:
// a worker that stops does not wait for it.
import type pg from 'pg'

export interface LongWork {
  /** Connects, works, and ends the connection. Rejects at once when the worker stops. */
  on(db: pg.Client, work: (db: pg.Client) => Promise<void>): Promise<void>
  /** Gives up what is under way, and what would begin. */
  stop(): void
}

export function longWork(): LongWork {
  const stopping = Promise.withResolvers<never>()
  stopping.promise.catch(() => {})
  return {
    on: async (db, work) => {
      db.on('error', () => {}) // the query under way fails, and says so
      try {
        await Promise.race([db.connect().then(() => work(db)), stopping.promise])
      } finally {
        await db.end()
      }
    },
    stop: () => stopping.reject(new Error('the worker stops')),
  }
}
