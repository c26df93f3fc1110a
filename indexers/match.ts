// Writes a batch of blocks, what they moved to addresses of ours, and what addresses of ours sent. Promises: what is
// ours is looked up in the writing transaction (look-up.ts), and nothing else is stored. If a block does not link to
// the one below it, nothing of its batch is written. Changes to unconfirmed payments are written together with the
// block that causes them.
import type {Store} from '@subsquid/typeorm-store'
import {RetryableError} from '../base/errors.ts'
import {at, type ReadBlock, spendsIn, type WriteOptions} from './block.ts'
import {confirmedTxsIn, noteMoved} from './confirmed-txs.ts'
import {Block, Transfer} from './entities.ts'
import {type Found, lookUp, type Query} from './look-up.ts'
import {queryOf} from './subsquid/store.ts'

/**
 * Inserts blocks, in ascending order and without holes, through the store. Throws RetryableError if they do not link.
 */
export async function writeBlocks(store: Store, blocks: ReadBlock[], options: WriteOptions): Promise<void> {
  const first = blocks[0]
  if (!first) return
  const {chain} = options
  const query = queryOf(store)
  const found = await lookUp(query, chain, blocks)
  assertLinked(blocks, found.parentHash)

  await store.insert(
    blocks.map(({height, hash, parentHash, time}) => {
      return new Block({id: `${chain}:${height}`, chain, height, hash, parentHash, time})
    }),
  )
  await store.insert(transfersIn(blocks, found, options))
  const confirmedTxs = await confirmedTxsIn(query, blocks, found, options)
  await store.insert(confirmedTxs)
  await noteMoved(query, blocks, confirmedTxs, options)
  await noteMined(query, chain, blocks, () => true)
}

/** What moved to addresses of ours. */
export function transfersIn(blocks: ReadBlock[], {paid}: Found, {chain, display}: WriteOptions): Transfer[] {
  return blocks.flatMap(block =>
    block.candidates.flatMap(candidate => {
      const ours = paid(candidate)
      if (!ours) return []
      const {txid, outputIndex, kind: transferKind, token, amount} = candidate
      const {recipient} = ours
      const place = {id: `${chain}:${txid}:${outputIndex}`, chain, txid, outputIndex, ...at(block)}
      return [new Transfer({...place, token, amount, sender: display(ours.sender), recipient, transferKind})]
    }),
  )
}

/**
 * Updates unconfirmed payments after these blocks. `isTracked` says, by id, which transfers to us must stay tracked
 * until they are final.
 */
export async function noteMined(
  query: Query,
  chain: string,
  blocks: ReadBlock[],
  isTracked: (id: string) => boolean,
): Promise<void> {
  const spends = spendsIn(blocks)
  if (!spends.length) return
  const transfers = await query<Record<string, unknown> & {id: string; txid: string}>(
    `select t.id, t.txid, t.output_index, t.token, t.amount::text as amount, t.sender, t.recipient from chain.transfer t
     where t.chain = $1 and t.block_height between $2 and $3`,
    [chain, spends[0]!.block.height, spends.at(-1)!.block.height],
  )
  const transactions = new Map(spends.map(transaction => [transaction.txid, transaction]))
  const withInputs = transfers
    .filter(({id}) => isTracked(id))
    .map(({id: _, ...row}) => {
      const {outpoints = [], raw} = transactions.get(row.txid) ?? {}
      return {...row, inputs: outpoints, raw}
    })
  await query('select chain.note_mined($1, $2, $3, $4)', [
    chain,
    JSON.stringify(withInputs),
    spends.flatMap(({txid, outpoints}) => outpoints.map(() => txid)),
    spends.flatMap(({outpoints}) => outpoints),
  ])
}

function assertLinked(blocks: ReadBlock[], parentHash: string | null): void {
  let below = parentHash
  let height = blocks[0]!.height
  for (const block of blocks) {
    if (block.parentHash !== below || block.height !== height) {
      throw new RetryableError(`block ${block.height} (${block.hash}) does not link to the block below it (${below})`)
    }
    below = block.hash
    height += 1
  }
}
