// A backup of what only custody has: the encrypted seed and the journal, in one file. Promises: the backup is on disk
// in full under its name, or does not exist. Neither a backup nor a restore overwrites an existing file. A backup
// contains no secret except those that are encrypted in the seed file.
import {createReadStream, existsSync, linkSync, readFileSync, unlinkSync} from 'node:fs'
import path from 'node:path'
import {createInterface} from 'node:readline'
import {z} from 'zod'
import {PermanentError} from '../../base/errors.ts'
import {placeFile, seedFile, syncDirectory, writeDurably} from '../keys/seed.ts'
import {follows, type Head, journalFile, noHead, parseEntry, readEntries, readLines} from './file.ts'
import {markIncomplete} from './incomplete.ts'

const Header = z.object({
  sluice_custody_backup: z.literal(1),
  made_at: z.iso.datetime(),
  entries: z.int(),
  seed: z.string(),
})

/** Writes the backup of a directory. Resolves to the number of journal entries in it. */
export function writeBackup(home: string, file: string): number {
  if (!existsSync(seedFile(home))) throw new PermanentError(`${seedFile(home)} is missing; there is nothing to back up`)
  if (existsSync(file)) throw new PermanentError(`${file} exists; give the name of a new file`)
  const journal = existsSync(journalFile(home)) ? [...readEntries(journalFile(home))] : []
  const header: z.infer<typeof Header> = {
    sluice_custody_backup: 1,
    made_at: new Date().toISOString(),
    entries: journal.length,
    seed: readFileSync(seedFile(home), 'utf8'),
  }
  const lines = [header, ...journal.map(({entry}) => entry)].map(line => JSON.stringify(line))
  const temporary = `${file}.${process.pid}.tmp`
  writeDurably(temporary, lines)
  try {
    linkSync(temporary, file)
  } finally {
    unlinkSync(temporary)
  }
  syncDirectory(path.dirname(path.resolve(file)))
  return journal.length
}

export interface Backup {
  /** The content of the seed file. */
  seed: string
  /** The last entry of each stream. */
  heads: Map<string, Head>
}

/** Reads a backup and checks its journal. Throws PermanentError if the file is no backup, or is damaged. */
export async function readBackup(file: string): Promise<Backup> {
  if (!existsSync(file)) throw new PermanentError(`${file} does not exist`)
  const damaged = new PermanentError(`${file} is not a backup of custody, or is damaged; use another backup`)
  const heads: Backup['heads'] = new Map()
  let header: z.infer<typeof Header> | undefined
  let entries = 0
  for await (const line of createInterface({input: createReadStream(file)})) {
    if (!header) {
      header = parseHeader(line)
      if (!header) throw damaged
      continue
    }
    const entry = parseEntry(line)
    if (!entry || !follows(heads.get(entry.stream) ?? noHead, entry)) throw damaged
    heads.set(entry.stream, {seq: entry.seq, hash: entry.hash})
    entries++
  }
  if (!header || entries !== header.entries) throw damaged
  return {seed: header.seed, heads}
}

/**
 * Restores the seed and the journal of a backup to custody's directory. Existing files stay, because they are newer.
 * Resolves to what was restored. Throws PermanentError if the directory has another seed. A restored journal is marked:
 * something may have been signed since.
 */
export async function restoreBackup(home: string, file: string): Promise<('seed' | 'journal')[]> {
  const {seed} = await readBackup(file)
  const put: ('seed' | 'journal')[] = []
  if (!existsSync(seedFile(home))) {
    placeFile(seedFile(home), [seed.trimEnd()])
    put.push('seed')
  } else if (readFileSync(seedFile(home), 'utf8').trim() !== seed.trim())
    throw new PermanentError(`${seedFile(home)} is not the seed of ${file}; give another directory`)
  if (!existsSync(journalFile(home))) {
    markIncomplete(journalFile(home), `it was restored from ${path.basename(file)}`) // first: the journal is never there without it
    placeFile(journalFile(home), entriesOf(file))
    put.push('journal')
  }
  return put
}

function* entriesOf(file: string): Generator<string> {
  let isHeader = true
  for (const {line} of readLines(file)) {
    if (!isHeader) yield line
    isHeader = false
  }
}

function parseHeader(line: string): z.infer<typeof Header> | undefined {
  try {
    return Header.safeParse(JSON.parse(line)).data
  } catch {
    return undefined
  }
}
