// What is on its way to us and in no block yet. Promises: what the database is told is all that the source shows at one moment, or nothing:
// silence of the source is no absence, nor is being in a block that was not written yet.
import {setTimeout as sleep} from 'node:timers/promises'
import type pg from 'pg'
import type {Logger} from '../../base/log.ts'
import {inWords} from '../../db/failure.ts'
import type {ChainCursor} from '../cursor.ts'
import {candidatesOf, type KnownTransaction, type Network} from './read-block.ts'

export interface Unmined {
  /** Hash of the newest block: every transaction that may pay to us is in a block up to it, or here, or nowhere. */
  head: string
  transactions: KnownTransaction[]
}

export interface UnminedSource {
  /** What the source shows now; undefined while that is not known. */
  unmined(): Promise<Unmined | undefined>
}

export interface UnminedOptions {
  db: pg.Pool
  cursor: ChainCursor
  network: Network
  log: Logger
  intervalMs: number
}

/** Looks again and again, until the process ends. */
export async function watchUnmined(source: UnminedSource, options: UnminedOptions): Promise<never> {
  for (;;) {
    try {
      await lookOnce(source, options)
    } catch (error) {
      options.log.warn({error: inWords(error)}, 'could not look at what is unmined')
    }
    await sleep(options.intervalMs)
  }
}

export async function lookOnce(source: UnminedSource, {db, cursor, network}: UnminedOptions): Promise<void> {
  const unmined = await source.unmined()
  if (!unmined || unmined.head !== (await cursor.read())?.headHash) return
  const seen = unmined.transactions.flatMap(one => {
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
