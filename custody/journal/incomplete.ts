// A mark beside the journal's file: the journal may lack entries, because it came from a backup, was missing, or was
// far behind the database. It stays as long as the file, so that an older copy of the database, which does not know, is
// told again. Custody then waits before it signs for the first time (db/functions/custody/unproven_copy.sql). The
// conflict key does not exclude a second payment: an older copy gives a payment another nonce, or other outputs.
import {readFileSync, renameSync, rmSync} from 'node:fs'
import path from 'node:path'
import {syncDirectory, writeDurably} from '../keys/seed.ts'

const markOf = (journal: string) => path.join(path.dirname(journal), 'journal.incomplete')

/** When it returns, the mark is on disk. A new mark replaces an earlier one. */
export function markIncomplete(journal: string, why: string): void {
  const file = markOf(journal)
  const next = `${file}.next`
  rmSync(next, {force: true}) // left by a killed process
  writeDurably(next, [`${new Date().toISOString()}: ${why}`])
  renameSync(next, file)
  syncDirectory(path.dirname(file))
}

/** When and why the journal was found incomplete; undefined if it is complete. */
export function incompleteMark(journal: string): string | undefined {
  try {
    return readFileSync(markOf(journal), 'utf8').trim()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
