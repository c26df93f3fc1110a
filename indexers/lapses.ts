// Finds out which transactions of ours expired in no block, on chains whose transactions expire. Promises: only a
// transaction that is past its end is asked about, and only what the family proves is noted; chain.note_lapse checks
// again what SQL can know. What is not proven stays open and is asked about again; if it stays so for long, it is an
// incident that says why (chain.note_unproven). A source that fails proves nothing: the poll fails.
import type {ChainCursor, Expired} from './cursor.ts'

export interface LapseSource {
  /**
   * What completes the evidence that none of the chain's blocks holds the transaction, beyond the blocks that were
   * followed; or why that is not proven, in words for operators. Rejects if the source fails. Absent where transactions
   * do not expire.
   */
  proveAbsent?(expired: Expired): Promise<object | string>
}

export async function noteLapses(cursor: ChainCursor, source: LapseSource): Promise<void> {
  if (!source.proveAbsent) return
  for (const expired of await cursor.expired()) {
    const {txid, notFollowed} = expired
    const proof = notFollowed ?? (await source.proveAbsent(expired))
    if (typeof proof === 'string') await cursor.noteUnproven(txid, proof)
    else await cursor.noteLapse(txid, proof) // false: the chain moved meanwhile, or is halted
  }
}
