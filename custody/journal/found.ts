// Rebuilds entries of a lost journal from the chains: what custody signed after the copy of the database was made is in
// blocks, as unknown transactions, and db/functions/custody/recognise.sql says which of them were what. Promises: an
// entry is sealed and continues the database's journal, so custody takes it over into its file; each is entered with
// all that follows from it, or not at all. Running it again enters only what has become recognisable.
import type pg from 'pg'
import {PermanentError} from '../../base/errors.ts'
import {type ChainCode, chain} from '../../chains/registry.ts'
import {familyOf} from '../families.ts'
import type {Seal} from '../keys/seal.ts'
import {noHead, parseEntry} from './file.ts'
import {type Draft, entryAfter, headsOf} from './journal.ts'

/** Of PostgreSQL's advisory locks: of no other use in this database. */
const lock = [0x51_0c_e0, 0xf0_0d]

/** A transaction of ours that neither the journal nor the database has. */
export interface Unknown {
  chain: ChainCode
  txid: string
  incident: number
  isFinal: boolean
  /** What it took out of our addresses, in words; null if nothing. */
  paid: string | null
}

export interface Found {
  entered: (Unknown & {what: string})[]
  /** With the reason, if it was recognised and does not fit. */
  left: (Unknown & {why?: string})[]
}

/**
 * Throws PermanentError if another one is at it. Also a killed one holds the lock until its last statement has ended.
 */
export async function enterFound(client: pg.Client, seal: () => Promise<Seal>): Promise<Found> {
  const {rows} = await client.query<{taken: boolean}>('select pg_try_advisory_lock($1, $2) as taken', lock)
  if (!rows[0]!.taken) throw new PermanentError('sluice custody reconcile runs already; wait until it has ended')
  try {
    return await enterAll(client, seal)
  } finally {
    await client.query('select pg_advisory_unlock($1, $2)', lock)
  }
}

async function enterAll(client: pg.Client, seal: () => Promise<Seal>): Promise<Found> {
  const found: Found = {entered: [], left: []}
  for (const unknown of await unknownTransactions(client)) {
    const {rows} = await client.query<{draft: Draft | null}>('select custody.recognise($1, $2) as draft', [
      unknown.chain,
      unknown.txid,
    ])
    const {draft} = rows[0]!
    if (!draft) found.left.push(unknown)
    else {
      const what = await inWords(client, draft)
      const why = await enter(client, draft, await seal())
      if (why === undefined) found.entered.push({...unknown, what})
      else found.left.push({...unknown, why})
    }
  }
  return found
}

/** In the order of the chain, so that nonces are entered in theirs. */
async function unknownTransactions(client: pg.Client): Promise<Unknown[]> {
  const {rows} = await client.query<Unknown>(
    `select u.chain, u.txid, u.incident_id::int as incident, coalesce(i.height <= c.final_height, false) as "isFinal",
       custody.paid_in_words(u.chain, u.txid) as paid
     from app.unknown_transaction u join app.incident k on k.id = u.incident_id and k.resolved_at is null
     left join chain.cursor c on c.chain = u.chain
     left join lateral (select max(i.block_height) as height, max(i.nonce) as nonce from chain.confirmed_tx i where i.chain = u.chain and i.txid = u.txid) i on true
     where not exists (select from custody.journal j where j.stream = u.chain and j.txid = u.txid)
     order by u.chain, i.height, i.nonce, u.txid`,
  )
  return rows
}

/** Resolves to why it was not entered; undefined if it was. */
async function enter(client: pg.Client, draft: Draft, seal: Seal): Promise<string | undefined> {
  const {stream, max_fee} = draft
  const fees = familyOf(chain(stream as ChainCode)).found?.(max_fee!)
  const head = (await headsOf(client, [stream])).get(stream) ?? noHead
  const entry = entryAfter(head, {...draft, details: {...draft.details, ...fees}}, seal)
  if (!parseEntry(JSON.stringify(entry))) throw new Error(`${draft.txid} makes no entry of the journal`)
  try {
    await client.query('select custody.reconcile($1)', [JSON.stringify([entry])])
    return undefined
  } catch (error) {
    const {code, message} = error as pg.DatabaseError
    if (code === '23505')
      throw new PermanentError('custody signed something at this moment; run it again', {cause: error})
    if (code === 'P0003' || /^2[23]/.test(code ?? '')) return message // data that does not fit: the others may
    throw error
  }
}

/** What a transaction was, before it is entered. */
async function inWords(client: pg.Client, {kind, subject_id, source, destination}: Draft): Promise<string> {
  if (kind === 'sweep') return source === destination ? 'a sweep' : `a sweep of ${source}` // of outputs, or of an address
  if (kind === 'fund') return `gas for ${destination}`
  if (kind === 'defund') return `gas of ${source}`
  const [table, what] = kind === 'pay' ? ['app.payout', 'payout'] : ['app.outgoing_payment', 'withdrawal']
  const {rows} = await client.query<{id: string; isThere: boolean}>(
    `select case $2 when 'pay' then app.public_id('pay', $1) else $1::text end as id, exists (select from ${table} where id = $1) as "isThere"`,
    [subject_id, kind],
  )
  const {id, isThere} = rows[0]!
  return isThere ? `${what} ${id}` : `a ${what} that this copy does not have: it is ${id} from now on`
}
