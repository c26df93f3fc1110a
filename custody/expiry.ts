// Where transactions expire: what custody signs for a payment that it signed for before, and how long a signature is valid. Promises: a new transaction
// is signed only if every earlier one of the payment, by the journal, can never be mined; otherwise the earlier bytes are given again. Custody itself takes
// the lifetime from the blocks that the indexer linked, so that nobody who asks can name a false end. If it could, it would get a second signature.
import type {Attempt} from './attempts.ts'
import type {PolicyContext} from './policy.ts'
import {Refusal} from './refusal.ts'

/** As in the journal (details.lifetime): no block at or below `from` can hold the transaction, and none after the first one at or past `end`. */
export interface Lifetime {
  from: number
  /** A height, or the time of a block in ms. */
  end: number
  /** By this time the chain is past the end, unless it stands still. */
  clock_ms: number
}

/**
 * The earlier attempt whose bytes are given again; undefined if the next one is a first signature. `attempts` are all that the journal has for the
 * payment. After `mostLapses` of them expired, nothing more is signed.
 */
export function attemptToRepeat<A extends Attempt>(attempts: A[], mostLapses: number): A | undefined {
  const alive = attempts.filter(({fate}) => fate !== 'dead')
  if (alive.length > 1)
    throw new Refusal(
      'payment_contested',
      `${alive.length} transactions of this payment may still be mined: a rewind took back the proof that one had expired; wait until one is final`,
    )
  if (alive.length) return alive[0]
  const lapses = attempts.filter(({lapsed}) => lapsed).length
  if (lapses >= mostLapses)
    throw new Refusal('transaction_expired', `${lapses} transactions of this payment expired before a block took them`)
  return undefined
}

/**
 * Throws a Refusal that passes while the journal may lack a transaction that may still be mined, or that a block holds unknown to us. Custody calls it
 * before each new signature; only chains whose transactions expire are ever unproven, where each new signature is a first one.
 */
export function beforeFirstSignature({journal}: PolicyContext, chain: string): void {
  const why = journal.whyUnproven(chain)
  if (why !== undefined) throw new Refusal('copy_unproven', why)
}

/** Where the chain stands. */
export interface Linked {
  headHeight: number
  headHash: string
  headTimeMs: number
  finalHeight: number
  /** The clock of the database. */
  nowMs: number
}

/** Throws a Refusal that passes if the indexer linked no block for longer than `maxHeadAgeMs`: what it has not seen may be long past. */
export async function linkedNow({client}: PolicyContext, chain: string, maxHeadAgeMs: number): Promise<Linked> {
  const {rows} = await client.query<Linked & {headAgeMs: number}>({
    name: 'linked_now',
    text: `select head_height as "headHeight", head_hash as "headHash", final_height as "finalHeight",
        extract(epoch from head_time)::float8 * 1000 as "headTimeMs", extract(epoch from clock_timestamp())::float8 * 1000 as "nowMs",
        extract(epoch from clock_timestamp() - head_moved_at)::float8 * 1000 as "headAgeMs"
      from chain.cursor where chain = $1`,
    values: [chain],
  })
  const linked = rows[0]
  if (!linked || linked.headAgeMs > maxHeadAgeMs)
    throw new Refusal('head_stale', `the indexer of ${chain} linked no block for more than ${maxHeadAgeMs} ms`)
  return linked
}

/** Equal transactions have the same id, and only one of them pays. Throws a Refusal if something was signed with this id. */
export async function refuseKnown({client}: PolicyContext, chain: string, txid: string): Promise<void> {
  const {rowCount} = await client.query({
    name: 'find_txid',
    text: 'select from custody.journal where stream = $1 and txid = $2',
    values: [chain, txid],
  })
  if (rowCount) throw new Refusal('txid_taken', `${txid} was signed before, for something else`)
}
