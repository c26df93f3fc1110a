// What is on its way to us and in no block yet. Promises: what the database is told is all that the source shows at one moment, or nothing:
// silence of the source is no absence, nor is being in a block that was not written yet.
import {setTimeout as sleep} from 'node:timers/promises'
import type pg from 'pg'
import type {Logger} from '../../base/log.ts'
import {inWords} from '../../db/failure.ts'
import type {ChainCursor} from '../cursor.ts'
import {candidatesOf, type KnownTransaction, type Network} from './read-block.ts'

export interface Unconfirmed {
  /** Hash of the newest block: every transaction that may pay to us is in a block up to it, or here, or nowhere. */
  head: string
  transactions: KnownTransaction[]
}

export interface UnconfirmedSource {
  /** What the source shows now; undefined while that is not known. */
  unconfirmed(): Promise<Unconfirmed | undefined>
}

export interface UnconfirmedOptions {
  db: pg.Pool
  cursor: ChainCursor
  network: Network
  log: Logger
  intervalMs: number
}

/** Looks again and again, until the process ends. */
export async function watchUnconfirmed(source: UnconfirmedSource, options: UnconfirmedOptions): Promise<never> {
  for (;;) {
    try {
      await pollOnce(source, options)
    } catch (error) {
      options.log.warn({error: inWords(error)}, 'could not look at what is unconfirmed')
    }
    await sleep(options.intervalMs)
  }
}

export async function pollOnce(source: UnconfirmedSource, {db, cursor, network}: UnconfirmedOptions): Promise<void> {
  const unconfirmed = await source.unconfirmed()
  if (!unconfirmed || unconfirmed.head !== (await cursor.read())?.headHash) return
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
}
