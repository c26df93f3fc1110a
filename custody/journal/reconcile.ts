// Imports journal entries that a restored, older database is missing. Promises: it imports all of them or none, and
// only entries that continue the database's own. Running it again changes nothing. db/functions/custody says what
// follows from an entry.
import type pg from 'pg'
import {missingEntries} from './journal.ts'

export interface Reconciled {
  entries: number
  payouts: number
  /** Cancels whose purpose is no longer known. */
  without_purpose: number
}

export async function reconcile(client: pg.Client, file: string): Promise<Reconciled> {
  // Custody recovers its address pools itself when it starts.
  const missing = await missingEntries(client, file, ({kind}) => kind !== 'pool')
  if (!missing.length) return {entries: 0, payouts: 0, without_purpose: 0}
  const {rows} = await client.query<{done: Reconciled}>('select custody.reconcile($1) as done', [
    JSON.stringify(missing),
  ])
  return rows[0]!.done
}
