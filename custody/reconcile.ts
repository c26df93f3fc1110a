// Enters what the journal's file has and the database lacks: the database is an older copy. Promises: all of it or nothing; only what
// continues the database's own entries; running it again changes nothing. What follows from an entry is in db/functions/custody.
import type pg from 'pg'
import {missingEntries} from './journal.ts'

export interface Reconciled {
  entries: number
  payouts: number
  /** Cancels of something that cannot be told any more. */
  without_purpose: number
}

export async function reconcile(client: pg.Client, file: string): Promise<Reconciled> {
  // What was handed out of the pools is custody's own affair, and done when it starts.
  const missing = await missingEntries(client, file, ({kind}) => kind !== 'pool')
  if (!missing.length) return {entries: 0, payouts: 0, without_purpose: 0}
  const {rows} = await client.query<{done: Reconciled}>('select custody.reconcile($1) as done', [
    JSON.stringify(missing),
  ])
  return rows[0]!.done
}
