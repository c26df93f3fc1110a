// Enters what the journal's file has and the database lacks: the database is an older copy. Promises: all of it or nothing; only what
// continues the database's own entries; running it again changes nothing. What follows from an entry is in db/migrations/014_reconcile.sql.
import type pg from 'pg'
import {PermanentError} from '../service/errors.ts'
import {type Entry, type Head, noHead, readEntries} from './journal-file.ts'

export interface Reconciled {
  entries: number
  payouts: number
  /** Cancels of something that cannot be told any more. */
  without_purpose: number
}

export async function reconcile(client: pg.Client, file: string): Promise<Reconciled> {
  const missing = await missingEntries(client, file)
  if (!missing.length) return {entries: 0, payouts: 0, without_purpose: 0}
  const {rows} = await client.query<{done: Reconciled}>('select custody.reconcile($1) as done', [
    JSON.stringify(missing),
  ])
  return rows[0]!.done
}

/** Those of the chains' streams; what was handed out of the pool is custody's own affair, and done when it starts. */
async function missingEntries(client: pg.Client, file: string): Promise<Entry[]> {
  const {rows} = await client.query<Head & {stream: string}>(
    'select distinct on (stream) stream, seq::int as seq, hash from custody.journal order by stream, seq desc',
  )
  const heads = new Map<string, Head>(rows.map(({stream, seq, hash}) => [stream, {seq, hash}]))
  const missing: Entry[] = []
  for (const {entry} of readEntries(file)) {
    const head = heads.get(entry.stream) ?? noHead
    if (entry.kind === 'pool' || entry.seq < head.seq) continue
    if (entry.seq > head.seq) missing.push(entry)
    else if (entry.hash !== head.hash)
      throw new PermanentError(
        `${file}: entry ${entry.seq} of ${entry.stream} is another one than the database has; they are not of the same service. ` +
          'Restore the file, or the database, that belong together',
      )
  }
  return missing
}
