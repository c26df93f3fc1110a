// What custody signed, recorded twice: in custody.journal, and in a file outside the database (file.ts). Promises: an
// entry is committed to the database first, then written to disk in the file, and only then is the signature given out.
// So after a crash the file may lag, and the missing lines are appended if custody wrote them (keys/seal.ts). A file
// that is ahead means that the database is an older copy. Its stream then signs nothing until an operator has imported
// the missing entries (sluice custody reconcile).
//
// Others can write to the table; only custody writes to the file. So each row is compared with the file before it is
// used to judge (check), and all rows are compared page by page in the background (compareSome). A row that was
// changed, is missing, or is not custody's blocks its stream until the whole stream is right again.
//
// One process writes at a time (it holds the advisory lock), one turn at a time. The connection is the one that holds
// the lock.
import type pg from 'pg'
import {PermanentError} from '../../base/errors.ts'
import {step} from '../../base/step.ts'
import type {Seal} from '../keys/seal.ts'
import {type Entry, follows, type Head, hashOf, JournalFile, noHead, readEntries, sealedText} from './file.ts'
import {incompleteMark, markIncomplete} from './incomplete.ts'
import type {Known} from './known.ts'

/** Entries per read. One read takes less than 0.1 s, and requests for signatures wait for it. */
const page = 1000

/** An entry before it has its number in the stream. */
export type Draft = Omit<Entry, 'seq' | 'hash'>

/** The columns that an entry is written to; the database computes the others. */
export const columns = `stream, seq, kind, subject_id, merchant_id, token, amount, destination, source, sender, nonce, max_fee, txid, raw, details,
  signed_at, hash`

/** A row of custody.journal j as the file has it. Values that JSON cannot hold exactly are text. */
export const entryColumns = `j.stream, j.seq::int as seq, j.kind, j.subject_id, j.merchant_id, j.token, j.amount::text as amount, j.destination, j.source,
  j.sender, j.nonce::int as nonce, j.max_fee::text as max_fee, j.txid, j.raw, j.details,
  to_char(j.signed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as signed_at, j.hash`

/** Why nothing is signed for a stream. */
export interface Blocked {
  code: 'journal_ahead' | 'journal_changed'
  why: string
}

export class Journal {
  readonly file: JournalFile
  readonly #client: pg.Client
  readonly #seal: Seal
  readonly #chainStreams: string[]
  readonly #heads = new Map<string, Head>()
  /** Set by the last level(). */
  readonly #outOfStep = new Map<string, Blocked>()
  /** An entry stays until the whole stream was compared and is right. */
  readonly #changed = new Map<string, string>()
  /** Why nothing is signed for the first time, by chain. Set by the last level(). */
  #unproven = new Map<string, string>()
  /** The mark of an incomplete journal after which every chain is proven. */
  #provenMark: string | undefined
  /** What is compared next. */
  #place = {stream: 0, after: 0}

  constructor(client: pg.Client, file: string, streams: string[], seal: Seal) {
    this.#client = client
    this.#seal = seal
    this.#chainStreams = streams
    this.file = new JournalFile(file)
  }

  /** Undefined if all is well. True as of the last level(), write(), check() or comparison. */
  whyBlocked(stream: string): Blocked | undefined {
    const why = this.#changed.get(stream)
    return this.#outOfStep.get(stream) ?? (why === undefined ? undefined : {code: 'journal_changed', why})
  }

  get streams(): string[] {
    return [...new Set([...this.#chainStreams, ...this.file.streams])]
  }

  /** What the file and the open transaction say. */
  get known(): Known {
    return this.file.known
  }

  /**
   * Why nothing may be signed for the first time where transactions expire; undefined if something may. True as of the
   * last level().
   */
  whyUnproven(chain: string): string | undefined {
    return this.#unproven.get(chain)
  }

  /**
   * Compares the last entries of database and file, and appends to the file what only the database has. A file that
   * lacks more than a crash explains is marked as incomplete first, and the database is told before anything else is
   * done.
   */
  async level(): Promise<void> {
    this.file.refresh()
    this.#outOfStep.clear()
    const {isSealed} = this.file // before anything is appended to it
    const heads = await headsOf(this.#client, this.streams)
    if (await this.#lacksMoreThanATurn(heads)) markIncomplete(this.file.file, 'it lacked entries that the database has')
    await this.#followUnproven()
    for (const stream of this.streams) {
      const head = heads.get(stream) ?? noHead
      this.#heads.set(stream, head)
      await this.#compareEnds(stream, head, isSealed)
    }
  }

  /**
   * A crash keeps at most the entries of one turn from the file, which are of one transaction. An older file lacks
   * those of several; or all of them, and others, have the transaction that restored the database. If in doubt, it is
   * more than a turn. What sluice custody reconcile found in blocks, and entered, does not count.
   */
  async #lacksMoreThanATurn(heads: Map<string, Head>): Promise<boolean> {
    const {streams} = this
    const inFile = streams.map(stream => this.file.head(stream).seq)
    if (streams.every((stream, n) => (heads.get(stream) ?? noHead).seq <= inFile[n]!)) return false
    const {rows} = await this.#client.query<{lacking: string[]; had: string[]; signed: boolean}>({
      name: 'journal_lacks',
      text: `select coalesce(array_agg(distinct j.xmin::text) filter (where j.seq > f.seq and not j.details ? 'found'), '{}') as lacking,
          coalesce(array_agg(distinct j.xmin::text) filter (where j.seq = f.seq), '{}') as had, bool_or(j.seq > f.seq and j.kind <> 'pool') as signed
        from unnest($1::text[], $2::bigint[]) f (stream, seq) join custody.journal j on j.stream = f.stream and j.seq >= f.seq`,
      values: [streams, inFile],
    })
    const {lacking, had, signed} = rows[0]!
    if (!lacking.length) return false
    const isFirstTurn = inFile.every(seq => seq === 0) && !signed // custody makes addresses before it signs
    return lacking.length > 1 || (had.length ? had.includes(lacking[0]!) : !isFirstTurn)
  }

  async #followUnproven(): Promise<void> {
    const mark = incompleteMark(this.file.file)
    if (mark === undefined || mark === this.#provenMark) return this.#unproven.clear()
    const {rows} = await this.#client.query<{chain: string; why: string}>({
      name: 'follow_unproven_copies',
      text: 'select chain, why from custody.follow_unproven_copies($1)',
      values: [mark],
    })
    this.#unproven = new Map(rows.map(({chain, why}) => [chain, why]))
    if (!rows.length) this.#provenMark = mark
  }

  async #compareEnds(stream: string, inDatabase: Head, isSealed: boolean): Promise<void> {
    const inFile = this.file.head(stream)
    const where = `${this.file.file}, stream ${stream}`
    const ahead = (why: string) => this.#outOfStep.set(stream, {code: 'journal_ahead', why: `${where}: ${why}`})
    if (inFile.seq > inDatabase.seq) {
      const more = inFile.seq - inDatabase.seq
      ahead(
        `the file has ${more} ${more === 1 ? 'entry' : 'entries'} more than the database: the database is an older copy; run sluice custody reconcile`,
      )
    } else if (inFile.seq > 0 && (await this.#hashAt(stream, inFile.seq, inDatabase)) !== inFile.hash) {
      ahead(
        `file and database differ at or before entry ${inFile.seq}: one of them is from another service; restore the right one`,
      )
    } else if (inFile.seq < inDatabase.seq) await this.#append(stream, inFile.seq, isSealed)
  }

  async #hashAt(stream: string, seq: number, head: Head): Promise<string | undefined> {
    if (seq === head.seq) return head.hash
    const {rows} = await this.#client.query<{hash: string}>({
      name: 'journal_hash',
      text: 'select hash from custody.journal where stream = $1 and seq = $2',
      values: [stream, seq],
    })
    return rows[0]?.hash
  }

  /**
   * Appends the entries that custody wrote and the file lacks. An entry that custody did not write is not appended, and
   * blocks the stream.
   */
  async #append(stream: string, after: number, isSealed: boolean): Promise<void> {
    for (let last = after, mustBeSealed = isSealed; ; ) {
      const rows = await this.#read(stream, last, page)
      let previous: Head = this.file.head(stream)
      const own: Entry[] = []
      for (const entry of rows) {
        const isOwn = entry.details.seal
          ? entry.details.seal === this.#seal(sealedText(previous.hash, entry))
          : !mustBeSealed // from before there were seals
        if (!isOwn || !follows(previous, entry)) break
        mustBeSealed ||= entry.details.seal !== undefined
        previous = entry
        own.push(entry)
      }
      if (own.length) this.file.append(own)
      if (own.length < rows.length) {
        const {seq} = rows[own.length]!
        const why = `custody.journal: entry ${seq} of ${stream} is not one that this custody wrote; the table was changed, restore it`
        this.#outOfStep.set(stream, {code: 'journal_changed', why})
        return
      }
      if (rows.length < page) return
      last = rows.at(-1)!.seq
    }
  }

  async #read(stream: string, after: number, most: number): Promise<Entry[]> {
    const {rows} = await this.#client.query<Entry>({
      name: 'journal_page',
      text: `select ${entryColumns} from custody.journal j where j.stream = $1 and j.seq > $2 order by j.seq limit $3`,
      values: [stream, after, most],
    })
    return rows
  }

  // --- what was changed ---

  /** Why rows of the table cannot be believed: one differs from the file. Undefined if none does. */
  check(rows: Entry[]): string | undefined {
    const wrong = rows.find(row => !this.#isRight(row))
    return wrong && this.#block(wrong.stream, `entry ${wrong.seq} differs from the file`)
  }

  /** Like check(), for rows that must include every attempt of a payout or a withdrawal on this stream. */
  checkAttempts(rows: Entry[], stream: string, subjectId: string | null): string | undefined {
    const found = rows.filter(
      ({kind, subject_id}) => subject_id === subjectId && (kind === 'pay' || kind === 'withdraw'),
    )
    const missing = this.known.attemptsOf(subjectId) - found.length
    return (
      this.check(rows) ?? (missing ? this.#block(stream, `entries of ${subjectId} are missing: ${missing}`) : undefined)
    )
  }

  #isRight(row: Entry): boolean {
    const previous = this.known.hashAt(row.stream, row.seq - 1)
    return (
      previous !== undefined &&
      row.hash === this.known.hashAt(row.stream, row.seq) &&
      row.hash === hashOf(previous, row)
    )
  }

  #block(stream: string, what: string): string {
    const why = `custody.journal, stream ${stream}: ${what}; the table was changed by hand. Restore its rows from ${this.file.file}, and find out who did it`
    this.#changed.set(stream, why)
    return why
  }

  /** Compares all entries once. */
  async compareAll(): Promise<void> {
    this.#place = {stream: 0, after: 0}
    while (!(await this.compareSome()));
  }

  /**
   * Compares a page of a stream in the table with the file, and unblocks the stream if all of it is right. True once
   * all streams were compared.
   */
  async compareSome(): Promise<boolean> {
    const {streams} = this
    const {stream: n, after} = this.#place
    const stream = streams[n]
    const compared = stream === undefined || this.#outOfStep.has(stream) ? 0 : await this.#compare(stream, after, page)
    this.#place = compared === page ? {stream: n, after: after + compared} : {stream: n + 1, after: 0}
    if (this.#place.stream < streams.length) return false
    this.#place = {stream: 0, after: 0}
    return true
  }

  /** Resolves to the number of right entries if there are more to compare, else to 0. */
  async #compare(stream: string, after: number, most: number): Promise<number> {
    const end = this.file.head(stream).seq
    const rows = await this.#read(stream, after, Math.min(most, end - after))
    const gap = rows.findIndex(({seq}, n) => seq !== after + n + 1)
    const last = after + (gap === -1 ? rows.length : gap)
    if (last < Math.min(end, after + most)) this.#block(stream, `entry ${last + 1} is missing`)
    else if (!this.check(rows)) {
      const wrong = await this.#wrongKeys(stream, after, last)
      if (wrong) this.#block(stream, `the conflict keys of entry ${wrong} are not its own`)
      else if (last < end) return rows.length
      else this.#changed.delete(stream)
    }
    return 0
  }

  /**
   * The first entry whose conflict keys, there or in custody.journal_key, do not follow from what is compared with the
   * file. With one missing, a search by that nonce or output would not find the entry; with one too many, it would seem
   * dead.
   */
  async #wrongKeys(stream: string, after: number, last: number): Promise<number | undefined> {
    const {rows} = await this.#client.query<{seq: number}>({
      name: 'journal_wrong_keys',
      text: `select j.seq::int as seq from custody.journal j
        cross join lateral (select coalesce(j.details #>> '{inputs,0}', j.sender || ':' || j.nonce) as key) own
        where j.stream = $1 and j.seq > $2 and j.seq <= $3 and (j.conflict_key is distinct from own.key
          or array(select n.conflict_key from custody.journal_key n where n.stream = j.stream and n.seq = j.seq order by 1)
            <> array(select jsonb_array_elements_text(j.details -> 'inputs') union select own.key where own.key is not null order by 1))
        order by j.seq limit 1`,
      values: [stream, after, last],
    })
    return rows[0]?.seq
  }

  /**
   * Runs `work` in a transaction that can add entries. Resolves to its result once all entries are in the database and
   * on disk in the file. If it throws, nothing was added.
   */
  async write<T>(work: (add: (draft: Draft) => Promise<void>) => Promise<T>): Promise<T> {
    await this.level()
    const heads = new Map(this.#heads)
    const added: Entry[] = []
    const add = async (draft: Draft) => {
      const blocked = this.whyBlocked(draft.stream)
      if (blocked) throw new Error(`nothing can be added: ${blocked.why}`)
      const entry = entryAfter(heads.get(draft.stream) ?? noHead, draft, this.#seal)
      await insertEntry(this.#client, entry)
      this.known.note(entry)
      heads.set(entry.stream, {seq: entry.seq, hash: entry.hash})
      added.push(entry)
    }
    step('custody: before journal')
    await this.#client.query('begin isolation level read committed') // what is read after a lock is newer than the lock
    let result: T
    try {
      result = await work(add)
      step('custody: judged')
      await this.#client.query('commit')
    } catch (error) {
      await this.#client.query('rollback')
      throw error
    } finally {
      for (const entry of added.toReversed()) this.known.forget(entry) // it is known once it is in the file
    }
    step('custody: after database')
    if (added.length) this.file.append(added)
    step('custody: after file')
    for (const [stream, head] of heads) this.#heads.set(stream, head)
    return result
  }
}

/** The sealed entry that follows the last one of its stream. */
export function entryAfter({seq, hash}: Head, draft: Draft, seal: Seal): Entry {
  const numbered = {...draft, seq: seq + 1}
  const placed = {...numbered, details: {...draft.details, seal: seal(sealedText(hash, numbered))}}
  return {...placed, hash: hashOf(hash, placed)}
}

/** The last entry of each stream in the database. */
export async function headsOf(client: pg.ClientBase, streams: string[]): Promise<Map<string, Head>> {
  const {rows} = await client.query<Head & {stream: string}>({
    name: 'journal_heads',
    text: `select s.stream, h.seq::int as seq, h.hash from unnest($1::text[]) s (stream)
      cross join lateral (select seq, hash from custody.journal j where j.stream = s.stream order by seq desc limit 1) h`,
    values: [streams],
  })
  return new Map(rows.map(({stream, seq, hash}) => [stream, {seq, hash}]))
}

/**
 * The wanted entries of the file that the database lacks. Throws PermanentError if they do not continue the database's
 * entries.
 */
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
      `${file}: entry ${other.seq} of ${other.stream} differs from the database: file and database are from different services; ` +
        'restore a file and a database that belong together',
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
