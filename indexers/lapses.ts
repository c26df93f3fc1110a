// Finds out which transactions of ours expired in no block, on chains whose transactions expire. Promises: only a transaction that is past its end is asked
// about, and only what the family proves is noted; chain.note_lapse checks again what SQL can know. A source that fails, or cannot tell, proves nothing:
// the transaction stays open, and is asked about again.
import type {ChainCursor, Expired} from './cursor.ts'

/** What completes the evidence that none of the chain's blocks holds the transaction, beyond the blocks that were followed; undefined if it is not proven. */
export type ProveAbsent = (expired: Expired) => Promise<object | undefined>

export async function noteLapses(cursor: ChainCursor, prove: ProveAbsent): Promise<void> {
  for (const expired of await cursor.expired()) {
    const evidence = await prove(expired)
    if (evidence) await cursor.noteLapse(expired.txid, evidence)
  }
}
