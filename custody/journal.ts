// What custody signed, twice: in custody.journal, and in a file outside the database (journal-file.ts). Promises: an entry is committed to
// the database first, then on disk in the file, and only then is what it signs given out. So a process that dies in between leaves a file
// that lags, and the missing lines are appended; a file that is ahead means that the database is an older copy, and its stream signs
// nothing until an operator has entered what is missing (sluice custody reconcile).
//
// One process writes at a time (it holds the advisory lock), and one turn after the other; the connection is the one that holds the lock.
import type pg from 'pg'
import {PermanentError} from '../service/errors.ts'
import {step} from '../service/step.ts'
import {type Entry, follows, type Head, hashOf, JournalFile, noHead, readEntries} from './journal-file.ts'

const page = 1000

/** An entry before it has its place in the stream. */
export type Draft = Omit<Entry, 'seq' | 'hash'>

const columns = `stream, seq, kind, subject_id, merchant_id, token, amount, destination, source, sender, nonce, max_fee, txid, raw, details,
  signed_at, hash`

/** As the file has it: what JSON would not keep exactly is text. */
export const selectEntries = `select stream, seq::int as seq, kind, subject_id, merchant_id, token, amount::text as amount, destination, source, sender,
  nonce::int as nonce, max_fee::text as max_fee, txid, raw, details,
  to_char(signed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as signed_at, hash from custody.journal`

export class Journal {
  readonly file: JournalFile
  readonly #client: pg.Client
  readonly #chainStreams: string[]
  readonly #heads = new Map<string, Head>()
  readonly #ahead = new Map<string, string>()

  constructor(client: pg.Client, file: string, streams: string[]) {
    this.#client = client
    this.#chainStreams = streams
    this.file = new JournalFile(file)
  }

  /** Why nothing is signed for a stream; undefined if all is well. True as of the last level() or write(). */
  whyBlocked(stream: string): string | undefined {
    return this.#ahead.get(stream)
  }

  /** Compares database and file, and appends to the file what only the database has. */
  async level(): Promise<void> {
    this.file.refresh()
    this.#ahead.clear()
    const streams = [...new Set([...this.#chainStreams, ...this.file.streams])]
    const heads = await headsOf(this.#client, streams)
    for (const stream of streams) {
      const head = heads.get(stream) ?? noHead
      this.#heads.set(stream, head)
      await this.#compare(stream, head)
    }
  }

  async #compare(stream: string, inDatabase: Head): Promise<void> {
    const inFile = this.file.head(stream)
    const where = `${this.file.file}, stream ${stream}`
    if (inFile.seq > inDatabase.seq) {
      const more = inFile.seq - inDatabase.seq
      this.#ahead.set(
        stream,
        `${where}: the file has ${more} ${more === 1 ? 'entry' : 'entries'} more than the database, which is an older copy; run sluice custody reconcile`,
      )
    } else if (inFile.seq > 0 && (await this.#hashAt(stream, inFile.seq)) !== inFile.hash) {
      this.#ahead.set(
        stream,
        `${where}: file and database differ at or before entry ${inFile.seq}, so one of them is not of this service; restore the one that is`,
      )
    } else if (inFile.seq < inDatabase.seq) await this.#append(stream, inFile.seq)
  }

  async #hashAt(stream: string, seq: number): Promise<string | undefined> {
    const {rows} = await this.#client.query<{hash: string}>({
      name: 'journal_hash',
      text: 'select hash from custody.journal where stream = $1 and seq = $2',
      values: [stream, seq],
    })
    return rows[0]?.hash
  }

  async #append(stream: string, after: number): Promise<void> {
    for (let last = after; ; ) {
      const {rows} = await this.#client.query<Entry>(
        `${selectEntries} where stream = $1 and seq > $2 order by seq limit $3`,
        [stream, last, page],
      )
      if (!rows.length) return
      let previous: Head = this.file.head(stream)
      for (const entry of rows) {
        if (!follows(previous, entry))
          throw new PermanentError(
            `custody.journal: entry ${entry.seq} of ${stream} does not follow from the one before it; the table was changed, restore it`,
          )
        previous = entry
      }
      this.file.append(rows)
      last = rows.at(-1)!.seq
    }
  }

  /**
   * Runs `work` in a transaction in which entries can be added, and resolves to its result once all of them are in the database and on
   * disk in the file. If it throws, nothing was added.
   */
  async write<T>(work: (add: (draft: Draft) => Promise<void>) => Promise<T>): Promise<T> {
    await this.level()
    const heads = new Map(this.#heads)
    const added: Entry[] = []
    const add = async (draft: Draft) => {
      if (this.#ahead.has(draft.stream)) throw new Error(`nothing can be added: ${this.#ahead.get(draft.stream)}`)
      const previous = heads.get(draft.stream) ?? noHead
      const placed = {...draft, seq: previous.seq + 1}
      const entry: Entry = {...placed, hash: hashOf(previous.hash, placed)}
      await insertEntry(this.#client, entry)
      heads.set(entry.stream, {seq: entry.seq, hash: entry.hash})
      added.push(entry)
    }
    step('custody: before journal')
    await this.#client.query('begin')
    let result: T
    try {
      result = await work(add)
      await this.#client.query('commit')
    } catch (error) {
      await this.#client.query('rollback')
      throw error
    }
    step('custody: after database')
    if (added.length) this.file.append(added)
    step('custody: after file')
    for (const [stream, head] of heads) this.#heads.set(stream, head)
    return result
  }
}

/** The last entry of each stream in the database. */
async function headsOf(client: pg.ClientBase, streams: string[]): Promise<Map<string, Head>> {
  const {rows} = await client.query<Head & {stream: string}>({
    name: 'journal_heads',
    text: `select s.stream, h.seq::int as seq, h.hash from unnest($1::text[]) s (stream)
      cross join lateral (select seq, hash from custody.journal j where j.stream = s.stream order by seq desc limit 1) h`,
    values: [streams],
  })
  return new Map(rows.map(({stream, seq, hash}) => [stream, {seq, hash}]))
}

/** The wanted entries of the file that the database lacks. Throws PermanentError where they do not continue those that it has. */
export async function missingEntries(
  client: pg.ClientBase,
  file: string,
  isWanted: (entry: Entry) => boolean,
): Promise<Entry[]> {
  const entries = [...readEntries(file)].map(({entry}) => entry).filter(isWanted)
  const heads = await headsOf(client, [...new Set(entries.map(({stream}) => stream))])
  const headOf = ({stream}: Entry) => heads.get(stream) ?? noHead
  const other = entries.find(entry => entry.seq === headOf(entry).seq && entry.hash !== headOf(entry).hash)
  if (other)
    throw new PermanentError(
      `${file}: entry ${other.seq} of ${other.stream} is another one than the database has, so they are not of one service; ` +
        'restore the file, or the database, that belong together',
    )
  return entries.filter(entry => entry.seq > headOf(entry).seq)
}

export async function insertEntry(client: pg.ClientBase, entry: Entry): Promise<void> {
  await client.query({
    name: 'insert_entry',
    text: `insert into custody.journal (${columns})
      values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`,
    values: [
      entry.stream,
      entry.seq,
      entry.kind,
      entry.subject_id,
      entry.merchant_id,
      entry.token,
      entry.amount,
      entry.destination,
      entry.source,
      entry.sender,
      entry.nonce,
      entry.max_fee,
      entry.txid,
      entry.raw,
      JSON.stringify(entry.details),
      entry.signed_at,
      entry.hash,
    ],
  })
}
