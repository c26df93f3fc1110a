// Work that may take minutes, on a separate connection, because the worker's other connections limit the time of a
// query. Promises: a worker that stops does not wait for it.
import type pg from 'pg'

export interface LongWork {
  /** Connects, works, and ends the connection. Rejects at once when the worker stops. */
  on(db: pg.Client, work: (db: pg.Client) => Promise<void>): Promise<void>
  /** Aborts current work, and takes no new work. */
  stop(): void
}

export function longWork(): LongWork {
  const stopping = Promise.withResolvers<never>()
  stopping.promise.catch(() => {})
  return {
    on: async (db, work) => {
      db.on('error', () => {}) // the current query fails with the error
      try {
        await Promise.race([db.connect().then(() => work(db)), stopping.promise])
      } finally {
        await db.end()
      }
    },
    stop: () => stopping.reject(new Error('the worker stops')),
  }
}
