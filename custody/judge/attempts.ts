// Earlier attempts, from the journal, and what becomes of each (app.attempt_fate). Promises: the rows read from the
// table match the file, and no attempt of a payout or a withdrawal is missing; otherwise nothing is signed.
import type pg from 'pg'
import type {Kind} from '../intents.ts'
import type {Entry} from '../journal/file.ts'
import {entryColumns, type Journal} from '../journal/journal.ts'
import {Refusal} from './refusal.ts'

export type Details = Entry['details']

export interface Attempt<D extends Details = Details> {
  kind: Kind
  subjectId: string | null
  token: string
  amount: bigint
  destination: string
  source: string
  sender: string
  nonce: number | null
  details: D
  txid: string
  raw: string
  fate: Fate
  /** It is dead because it expired in no block. */
  lapsed: boolean
}

/**
 * As in app.attempt_fate. Only an attempt that is dead can certainly never have its effect; only one that is open or in
 * a block can still change.
 */
export type Fate = 'open' | 'in_block' | 'final' | 'dead'

/** A journal row (entryColumns) that signs something. */
export type AttemptRow<D extends Details = Details> = Omit<Entry, keyof Attempt> &
  Omit<Attempt<D>, 'amount' | 'subjectId'> & {amount: string}

/** Everything that was signed with any of these conflict keys, or for this subject on any chain, in order. */
export async function findAttempts<D extends Details>(
  {client, journal}: {client: pg.Client; journal: Journal},
  chain: string,
  keys: string[],
  subjectId: string | null,
): Promise<Attempt<D>[]> {
  const {rows: found} = await client.query<AttemptRow<D> & {fate: Fate; lapsed: boolean}>({
    name: 'find_attempts',
    text: `with known as (
        select k.stream, k.seq from unnest($2::text[]) o (key) join custody.journal_key k on k.stream = $1 and k.conflict_key = o.key
        union
        select stream, seq from custody.journal where subject_id = $3
      )
      select ${entryColumns}, f.fate, f.lapsed from known
      cross join lateral (select * from custody.journal j where j.stream = known.stream and j.seq = known.seq offset 0) j
      cross join lateral (select fate, lapsed from app.attempt_fate f where f.chain = known.stream and f.seq = known.seq offset 0) f
      order by j.seq`,
    values: [chain, keys, subjectId],
  })
  const fates = found.map(({fate, lapsed}) => ({fate, lapsed}))
  const rows = found.map(({fate: _, lapsed: __, ...entry}) => entry)
  checkRows(journal.checkAttempts(rows, chain, subjectId))
  const other = rows.find(({stream}) => stream !== chain)
  if (other) throw new Refusal('settlement_changed', `it was signed on ${other.stream} before`)
  return rows.map(({subject_id, amount, ...row}, n) => ({
    ...row,
    subjectId: subject_id,
    amount: BigInt(amount),
    ...fates[n]!,
  }))
}

/**
 * What the attempt uses up, so that no other one with it can be mined: its nonce, or its first input. Null if it
 * expires.
 */
export function conflictKeyOf({sender, nonce, details}: Attempt): string | null {
  if (nonce !== null) return `${sender}:${nonce}`
  const {inputs} = details
  return Array.isArray(inputs) ? inputs[0]! : null
}

/** The attempts signed for the same purpose. */
export function attemptsFor(attempts: Attempt[], kind: Kind, subjectId: string): Attempt[] {
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
