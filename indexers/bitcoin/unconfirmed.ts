// Unconfirmed payments to us. Promises: each write to the database holds everything that the source shows at one
// moment, or nothing is written. A source that does not respond makes no payment absent, nor does a block that is not
// written yet.
import {setTimeout as sleep} from 'node:timers/promises'
import type pg from 'pg'
import type {Logger} from '../../base/log.ts'
import {inWords} from '../../db/client/failure.ts'
import type {ChainCursor} from '../cursor.ts'
import {candidatesOf, type KnownTransaction, type Network} from './read-block.ts'

export interface Unconfirmed {
  /**
   * Hash of the newest block. Every transaction that may pay us is in a block up to this one, or in this list, or does
   * not exist.
   */
  head: string
  transactions: KnownTransaction[]
}

export interface UnconfirmedSource {
  /** What the source shows now; undefined while it is not known. */
  unconfirmed(): Promise<Unconfirmed | undefined>
}

export interface UnconfirmedOptions {
  db: pg.Pool
  cursor: ChainCursor
  network: Network
  log: Logger
  intervalMs: number
}

/** That the source shows no payment to us is written again after this time, at the latest. */
const repeatNoneMs = 10_000

/** Polls until the process ends. */
export async function watchUnconfirmed(source: UnconfirmedSource, options: UnconfirmedOptions): Promise<never> {
  let noneSince: number | undefined
  for (;;) {
    const isRepeat = noneSince !== undefined && performance.now() - noneSince < repeatNoneMs
    try {
      const count = await pollOnce(source, {...options, unlessNone: isRepeat})
      if (count !== 0) noneSince = undefined
      else if (!isRepeat) noneSince = performance.now()
    } catch (error) {
      noneSince = undefined
      options.log.warn({error: inWords(error)}, 'could not read unconfirmed payments; trying again')
    }
    await sleep(options.intervalMs)
  }
}

/**
 * Writes what the source shows. Resolves to the number of payments, or to undefined if it is not known. `unlessNone`:
 * that there is none was written a moment ago.
 */
export async function pollOnce(
  source: UnconfirmedSource,
  {db, cursor, network, unlessNone}: UnconfirmedOptions & {unlessNone?: boolean},
): Promise<number | undefined> {
  const unconfirmed = await source.unconfirmed()
  if (!unconfirmed) return
  if (unlessNone && !unconfirmed.transactions.length) return 0
  if (unconfirmed.head !== (await cursor.read())?.headHash) return
  const seen = unconfirmed.transactions.flatMap(one => {
    const inputs = one.transaction.inputs.map(({outpoint}) => outpoint)
    return candidatesOf(one, network).map(({txid, outputIndex, token, amount, sender, recipientKey}) => {
      const recipient = recipientKey
      return {
        txid,
        output_index: outputIndex,
        token,
        amount: amount.toString(),
        sender,
        recipient,
        inputs,
        raw: one.raw,
      }
    })
  })
  await db.query('select chain.note_unconfirmed($1, $2)', [cursor.chain, JSON.stringify(seen)])
  return seen.length
}
