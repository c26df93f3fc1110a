// What is on its way to us and in no block yet. Promises: what the database is told is all that the source shows at one moment, or nothing:
// silence of the source is no absence.
import {setTimeout as sleep} from 'node:timers/promises'
import type pg from 'pg'
import type {ChainCode} from '../../chains/registry.ts'
import type {AddressFormat} from '../../service/bitcoin/script.ts'
import type {Logger} from '../../service/log.ts'
import {candidatesOf, type KnownTransaction} from './read-block.ts'

export interface UnminedSource {
  /** Every unmined transaction that may pay to us, as the source shows them now; undefined while that is not known. */
  unmined(): Promise<KnownTransaction[] | undefined>
}

export interface UnminedOptions {
  db: pg.Pool
  chain: ChainCode
  format: AddressFormat
  log: Logger
  intervalMs: number
}

/** Looks again and again, until the process ends. */
export async function watchUnmined(source: UnminedSource, options: UnminedOptions): Promise<never> {
  for (;;) {
    try {
      await lookOnce(source, options)
    } catch (error) {
      options.log.warn({error: (error as Error).message}, 'could not look at what is unmined')
    }
    await sleep(options.intervalMs)
  }
}

export async function lookOnce(source: UnminedSource, {db, chain, format}: UnminedOptions): Promise<void> {
  const known = await source.unmined()
  if (!known) return
  const seen = known.flatMap(one => {
    const inputs = one.transaction.inputs.map(({outpoint}) => outpoint)
    return candidatesOf(one, format).map(({txid, outputIndex, token, amount, sender, recipientKey}) => {
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
  await db.query('select chain.look_unmined($1, $2)', [chain, JSON.stringify(seen)])
}
