// Calls that hand out addresses of the pool. Promises: if the pool is empty, a call waits a few seconds for custody to
// fill it, then returns 503.
import {setTimeout as sleep} from 'node:timers/promises'
import type {DatabaseError} from 'pg'
import {type Database, type Statement, statement} from './database.ts'
import type {Queries} from './replica.ts'

const timeoutMs = 3_000
const pollMs = 50

const askForAddresses = statement('ask_for_addresses', `select pg_notify('address_pool_low', '')`)

/**
 * The row of a call that changes nothing if it finds no free address. If so, custody is notified, and the call is
 * repeated until there is one.
 */
export async function withAddresses<Row extends unknown[]>(
  db: Queries,
  query: Statement,
  values: Parameters<Database['change']>[1],
): Promise<Row> {
  const deadline = performance.now() + timeoutMs
  for (let attempt = 1; ; attempt++) {
    try {
      return (await db.change<Row>(query, values))!
    } catch (error) {
      if ((error as DatabaseError).code !== 'SL503' || performance.now() > deadline) throw error
      if (attempt === 1) await db.change(askForAddresses, [])
      await sleep(pollMs)
    }
  }
}
