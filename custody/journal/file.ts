// The journal outside the database: one JSON line per entry in $SLUICE_HOME/custody/journal.jsonl, for all streams.
// Promises: once append() returns, the entries are on disk. The entries of a stream have no gaps, and each carries the
// hash of the one before it. A last line that a crash cut short is removed (its signature was never given out). Any
// other error in the file stops the process.
import {createHash} from 'node:crypto'
import {
  chmodSync,
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs'
import path from 'node:path'
import {z} from 'zod'
import {PermanentError} from '../../base/errors.ts'
import {syncDirectory} from '../keys/seed.ts'
import {Known} from './known.ts'

const units = z.string().regex(/^\d+$/).nullable()
const text = z.string().nullable()

const Entry = z.strictObject({
  stream: z.string(),
  seq: z.int().positive(),
  kind: z.enum([
    'pay',
    'sweep',
    'withdraw',
    'cancel',
    'fund',
    'defund',
    'delegate',
    'undelegate',
    'stake',
    'unstake',
    'reclaim',
    'authorise',
    'pool',
  ]),
  subject_id: text,
  merchant_id: text,
  token: text,
  amount: units,
  destination: text,
  source: text,
  sender: text,
  nonce: z.int().nullable(),
  max_fee: units,
  txid: text,
  raw: text,
  details: z.record(z.string(), z.union([z.string(), z.int(), z.array(z.string()), z.record(z.string(), z.int())])),
  signed_at: z.iso.datetime(),
  hash: z.string(),
})
export type Entry = z.infer<typeof Entry>

export interface Head {
  seq: number
  hash: string
}

export const noHead: Head = {seq: 0, hash: ''}
export const journalFile = (home: string) => path.join(home, 'custody', 'journal.jsonl')

/** The hash of an entry that follows the entry with the hash `previous`. */
export function hashOf(previous: string, {hash: _, ...entry}: Omit<Entry, 'hash'> & {hash?: string}): string {
  return createHash('sha256')
    .update(previous + canonical(entry))
    .digest('hex')
}

/** The text that an entry's seal covers: the hash of the previous entry, then the entry without its hash and seal. */
export function sealedText(previous: string, {hash: _, ...entry}: Omit<Entry, 'hash'> & {hash?: string}): string {
  const {seal: __, ...details} = entry.details
  return previous + canonical({...entry, details})
}

/** JSON with the keys of every object sorted, so that every writer gets the same text. */
function canonical(value: unknown): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  const pairs = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${pairs.map(([key, inner]) => `${JSON.stringify(key)}:${canonical(inner)}`).join(',')}}`
}

/** Whether an entry is the next one after `head`. */
export function follows({seq, hash}: Head, entry: Entry): boolean {
  return entry.seq === seq + 1 && entry.hash === hashOf(hash, entry)
}

/** Parses a line; undefined if it is no entry. */
export function parseEntry(line: string): Entry | undefined {
  try {
    return Entry.safeParse(JSON.parse(line)).data
  } catch {
    return undefined
  }
}

/**
 * Every entry of a journal file in order, checked, with the offset where its line ends. A line without an end is left
 * out.
 */
export function* readEntries(file: string): Generator<{entry: Entry; end: number}> {
  const heads = new Map<string, Head>()
  let number = 0
  for (const {line, end} of readLines(file)) {
    number++
    const entry = parseEntry(line)
    if (!entry || !follows(heads.get(entry.stream) ?? noHead, entry))
      throw new PermanentError(
        `${file}: line ${number} is damaged or was changed, so custody does not know what was signed; restore the file from a copy. ` +
          'If there is no copy, and the database is surely not an older copy, move the file away: custody writes it again from the database',
      )
    heads.set(entry.stream, entry)
    yield {entry, end}
  }
}

/** The last entry of each stream of a journal file; none if there is no file. */
export function readHeads(file: string): Map<string, Head> {
  const heads = new Map<string, Head>()
  if (existsSync(file))
    for (const {entry} of readEntries(file)) heads.set(entry.stream, {seq: entry.seq, hash: entry.hash})
  return heads
}

/** The part of a journal file that judging needs; empty if there is no file. */
export function readKnown(file: string): Known {
  const known = new Known()
  if (existsSync(file)) for (const {entry} of readEntries(file)) known.note(entry)
  return known
}

export class JournalFile {
  readonly file: string
  /** The content of the file, plus what an open transaction is adding. */
  readonly known = new Known()
  readonly #heads = new Map<string, Head>()
  #isSealed = false
  #descriptor = -1
  #size = 0

  constructor(file: string) {
    this.file = file
    this.#open()
  }

  #open(): void {
    const directory = path.dirname(this.file)
    mkdirSync(directory, {recursive: true})
    chmodSync(directory, 0o700)
    const existed = existsSync(this.file)
    for (const part of [this.#heads, this.known]) part.clear()
    this.#isSealed = false
    this.#size = 0
    if (existed) {
      for (const {entry, end} of readEntries(this.file)) {
        this.#note(entry)
        this.#size = end
      }
    }
    if (this.#descriptor !== -1) closeSync(this.#descriptor)
    this.#descriptor = openSync(this.file, 'a', 0o600)
    if (!existed) syncDirectory(directory)
    this.#cutTail()
  }

  get streams(): string[] {
    return [...this.#heads.keys()]
  }

  head(stream: string): Head {
    return this.#heads.get(stream) ?? noHead
  }

  /** Whether any entry has a seal. After the first seal, every entry of every stream has one. */
  get isSealed(): boolean {
    return this.#isSealed
  }

  #note(entry: Entry): void {
    const {stream, seq, hash, details} = entry
    this.#heads.set(stream, {seq, hash})
    if (details.seal) this.#isSealed = true
    this.known.note(entry)
  }

  /** Reads the file again if somebody replaced it or wrote to it. */
  refresh(): void {
    const now = statSync(this.file, {throwIfNoEntry: false})
    const known = fstatSync(this.#descriptor)
    if (now?.ino !== known.ino || now.size < this.#size) this.#open()
    else if (now.size > this.#size) this.#open() // or a write of ours failed half-way: complete lines are read, the rest is cut
  }

  /** When it returns, the entries are on disk. */
  append(entries: Entry[]): void {
    writeAll(this.#descriptor, entries.map(entry => `${canonical(entry)}\n`).join(''))
    fsyncSync(this.#descriptor)
    this.#size = fstatSync(this.#descriptor).size
    for (const entry of entries) this.#note(entry)
  }

  close(): void {
    closeSync(this.#descriptor)
  }

  #cutTail(): void {
    if (fstatSync(this.#descriptor).size === this.#size) return
    ftruncateSync(this.#descriptor, this.#size)
    fsyncSync(this.#descriptor)
  }
}

/** The complete lines of a file, each with the offset of its end. */
export function* readLines(file: string): Generator<{line: string; end: number}> {
  const descriptor = openSync(file, 'r')
  const chunk = Buffer.alloc(1024 * 1024)
  let rest = Buffer.alloc(0)
  let end = 0
  try {
    for (;;) {
      const count = readSync(descriptor, chunk)
      if (count === 0) return
      rest = Buffer.concat([rest, chunk.subarray(0, count)])
      for (let at = rest.indexOf(10); at !== -1; at = rest.indexOf(10)) {
        end += at + 1
        yield {line: rest.toString('utf8', 0, at), end}
        rest = rest.subarray(at + 1)
      }
    }
  } finally {
    closeSync(descriptor)
  }
}

function writeAll(descriptor: number, content: string): void {
  const bytes = Buffer.from(content)
  for (let done = 0; done < bytes.length; ) done += writeSync(descriptor, bytes, done)
}
