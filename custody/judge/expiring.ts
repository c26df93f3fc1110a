// Where transactions expire: what is signed for a payment that was signed for before, and how long a signature is
// valid. Promises: a new transaction is signed only if every earlier one of the payment, by the journal, can never be
// mined; otherwise the earlier bytes are given again. Custody itself takes the lifetime from the blocks that the
// indexer linked, so that nobody who asks can name a false end. If it could, it would get a second signature. There are
// no cancels, because what is not signed again ends by itself.
import {type ExpirySettings, lifetimeMarginMs} from '../../chains/expiry-settings.ts'
import type {Attempt, Details} from './attempts.ts'
import type {Plan, PolicyContext} from './plan.ts'
import {Refusal} from './refusal.ts'

/**
 * As in the journal (details.lifetime): no block at or below `from` can hold the transaction, and none after the first
 * one at or past `end`.
 */
export interface Lifetime {
  from: number
  /** A height, or the time of a block in ms. */
  end: number
  /** By this time the chain is past the end, unless it stands still. */
  clock_ms: number
}

/**
 * The earlier attempt whose bytes are given again; undefined if the next one is a first signature. `attempts` are all
 * that the journal has for the payment.
 */
export function attemptToRepeat<A extends Attempt>(
  attempts: A[],
  {maxLapses}: Pick<ExpirySettings, 'maxLapses'>,
): A | undefined {
  const alive = attempts.filter(({fate}) => fate !== 'dead')
  if (alive.length > 1)
    throw new Refusal(
      'payment_contested',
      `${alive.length} transactions of this payment may still be mined: a rewind took back the proof that one had expired; wait until one is final`,
    )
  if (alive.length) return alive[0]
  const lapses = attempts.filter(({lapsed}) => lapsed).length
  if (lapses >= maxLapses)
    throw new Refusal('transaction_expired', `${lapses} transactions of this payment expired before a block took them`)
  return undefined
}

/** Where the chain stands. */
export interface Linked {
  headHeight: number
  headHash: string
  headTimeMs: number
  finalHeight: number
  finalHash: string
  /** The clock of the database. */
  nowMs: number
}

/**
 * Throws a Refusal that passes if the indexer linked no block for too long: what it has not seen may be long past.
 * Where the end is a time, also if the head's time is not the clock's: a node that forges a head in the future would
 * get a transaction that becomes valid later, without anybody asking.
 */
export async function linkedNow(
  {client}: Pick<PolicyContext, 'client'>,
  chain: string,
  {maxHeadAgeMs}: Pick<ExpirySettings, 'maxHeadAgeMs'>,
): Promise<Linked> {
  const {rows} = await client.query<Linked & {headAgeMs: number; endsBy: string | null}>({
    name: 'linked_now',
    text: `select c.head_height as "headHeight", c.head_hash as "headHash", c.final_height as "finalHeight", c.final_hash as "finalHash", k.ends_by as "endsBy",
        extract(epoch from c.head_time)::float8 * 1000 as "headTimeMs", extract(epoch from clock_timestamp())::float8 * 1000 as "nowMs",
        extract(epoch from clock_timestamp() - c.head_moved_at)::float8 * 1000 as "headAgeMs"
      from chain.cursor c join app.chain k using (chain) where c.chain = $1`,
    values: [chain],
  })
  const [linked] = rows
  if (!linked || linked.headAgeMs > maxHeadAgeMs)
    throw new Refusal('head_stale', `the indexer of ${chain} linked no block for more than ${maxHeadAgeMs} ms`)
  const aheadMs = linked.headTimeMs - linked.nowMs
  if (linked.endsBy === 'time' && Math.abs(aheadMs) > lifetimeMarginMs)
    throw new Refusal(
      'head_stale',
      `the time of the newest block of ${chain} is ${Math.round(Math.abs(aheadMs))} ms ${aheadMs > 0 ? 'ahead of' : 'behind'} the clock`,
    )
  return linked
}

/** A lifetime that ends `blocks` after the head; a block takes `blockMs` at most. */
export function lifetimeInBlocks({finalHeight, headHeight, nowMs}: Linked, blocks: number, blockMs: number): Lifetime {
  return {
    from: finalHeight,
    end: headHeight + blocks,
    clock_ms: Math.ceil(nowMs) + blocks * blockMs + lifetimeMarginMs,
  }
}

/**
 * A lifetime that ends `ms` after the head's time: never further ahead of the clock than that and the margin, as
 * linkedNow ensures.
 */
export function lifetimeInTime({finalHeight, headTimeMs}: Linked, ms: number): Lifetime {
  const end = Math.floor(headTimeMs) + ms
  return {from: finalHeight, end, clock_ms: end + lifetimeMarginMs}
}

/**
 * Equal transactions have the same id, and only one of them pays. Throws a Refusal if something was signed with this
 * id.
 */
async function refuseKnown({client}: PolicyContext, chain: string, txid: string): Promise<void> {
  const {rowCount} = await client.query({
    name: 'find_txid',
    text: 'select from custody.journal where stream = $1 and txid = $2',
    values: [chain, txid],
  })
  if (rowCount) throw new Refusal('txid_taken', `${txid} was signed before, for something else`)
}

/** The earlier transactions of the payment that are dead only because an operator decided that no block holds them. */
async function decidedAbsent({client}: PolicyContext, {chain, subjectId}: Plan): Promise<string[]> {
  const {rows} = await client.query<{txid: string}>({
    name: 'decided_absent',
    text: `select j.txid from custody.journal j join chain.lapse l on l.chain = j.stream and l.txid = j.txid
      where j.stream = $1 and j.subject_id = $2 and l.evidence ->> 'decided' = 'absent' order by j.seq`,
    values: [chain, subjectId],
  })
  return rows.map(({txid}) => txid)
}

/**
 * What the journal says of a new signature, where transactions expire: the operator's decisions that it rests on.
 * Throws a Refusal if it may not be made.
 */
export async function detailsOfNew(context: PolicyContext, plan: Plan, txid: string): Promise<Details> {
  await refuseKnown(context, plan.chain, txid)
  const absent = await decidedAbsent(context, plan)
  return absent.length ? {absent} : {}
}
