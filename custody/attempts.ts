// Earlier attempts, from the journal. Promises: the rows read from the table match the file, and no attempt of a payout or a withdrawal is
// missing; otherwise nothing is signed.

import type {Journal} from './journal.ts'
import type {Entry} from './journal-file.ts'
import {type Kind, Refusal} from './refusal.ts'

export type Details = Entry['details']

export interface Attempt<D extends Details = Details> {
  kind: Kind
  subjectId: string | null
  token: string
  amount: bigint
  destination: string
  source: string
  sender: string
  nonce: number
  details: D
  txid: string
  raw: string
}

/** A journal row (entryColumns) that signs something. */
export type AttemptRow<D extends Details = Details> = Omit<Entry, keyof Attempt> &
  Omit<Attempt<D>, 'amount' | 'subjectId'> & {amount: string}

/** Rows that include everything signed for this subject, if there is one, on any chain. */
export function attemptsOf<D extends Details>(
  {journal}: {journal: Journal},
  chain: string,
  subjectId: string | null,
  rows: AttemptRow<D>[],
): Attempt<D>[] {
  checkRows(journal.checkAttempts(rows, chain, subjectId))
  const other = rows.find(({stream}) => stream !== chain)
  if (other) throw new Refusal('settlement_changed', `it was signed on ${other.stream} before`)
  return rows.map(({subject_id, amount, ...row}) => ({...row, subjectId: subject_id, amount: BigInt(amount)}))
}

/** The attempts signed for the same purpose. */
export function attemptsFor<A extends Attempt>(attempts: A[], kind: Kind, subjectId: string): A[] {
  return attempts.filter(attempt => attempt.kind === kind && attempt.subjectId === subjectId)
}

/** Throws a Refusal if journal rows are not authentic; `wrong` says why. */
export function checkRows(wrong: string | undefined): void {
  if (wrong) throw new Refusal('journal_changed', wrong)
}

export function checkJournal({journal}: {journal: Journal}, chain: string): void {
  const blocked = journal.whyBlocked(chain)
  if (blocked) throw new Refusal(blocked.code, blocked.why)
}
