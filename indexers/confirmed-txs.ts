// Confirmed transactions: what used the authority of addresses of ours. Promises: transactions that are not ours are
// left out. A transaction of ours succeeded only if it moved what it was signed for. On a chain with outputs, each
// output of ours that a block spends is one row, including outputs that the same blocks created.
import {at, type ReadBlock, spendsIn, type WriteOptions} from './block.ts'
import {ConfirmedTx} from './entities.ts'
import type {Found, Query} from './look-up.ts'

/** What addresses of ours sent in these blocks. Their transfers must be written first. */
export async function confirmedTxsIn(
  query: Query,
  blocks: ReadBlock[],
  found: Found,
  options: WriteOptions,
): Promise<ConfirmedTx[]> {
  return [...(await spentIn(query, options.chain, blocks)), ...(await sentIn(query, blocks, found, options))]
}

async function sentIn(
  query: Query,
  blocks: ReadBlock[],
  {senders}: Found,
  {chain, display}: WriteOptions,
): Promise<ConfirmedTx[]> {
  const ours = blocks.flatMap(block =>
    block.sent.flatMap(transaction => {
      const sender = senders[transaction.senderKey]
      return sender ? [{block, transaction, sender}] : []
    }),
  )
  if (!ours.length) return []
  const purposes = await purposesOf(
    query,
    chain,
    ours.map(({transaction}) => transaction.txid),
  )
  return ours.map(({block, transaction: {txid, nonce, executed, fee, position}, sender}) => {
    const purpose = purposes.get(txid)
    const success = executed && (!purpose || isFulfilled(purpose, block, display))
    const id = position ? `${chain}:${txid}:${position}` : `${chain}:${txid}`
    return new ConfirmedTx({id, chain, txid, ...at(block), account: sender, nonce, success, fee})
  })
}

/** Outputs of ours that were spent, including outputs of the same blocks. */
async function spentIn(query: Query, chain: string, blocks: ReadBlock[]): Promise<ConfirmedTx[]> {
  const spends = spendsIn(blocks)
  if (!spends.length) return []
  const rows = await query<{outpoint: string; account: string; amount: string}>(
    `select t.txid || ':' || t.output_index as outpoint, t.recipient as account, t.amount from unnest($2::text[]) o
     cross join lateral (select * from chain.transfer t where t.id = $1 || ':' || o offset 0) t`,
    [chain, spends.flatMap(({outpoints}) => outpoints)],
  )
  const own = new Map(rows.map(({outpoint, account, amount}) => [outpoint, {account, amount: BigInt(amount)}]))
  return spends.flatMap(({block, txid, outpoints, outputSum}) => {
    const ours = outpoints.map((outpoint, input) => ({outpoint, input})).filter(({outpoint}) => own.has(outpoint))
    const brought = ours.reduce((sum, {outpoint}) => sum + own.get(outpoint)!.amount, 0n)
    const fee = ours.length === outpoints.length ? brought - outputSum : 0n
    return ours.map(({outpoint, input}) => {
      const id = `${chain}:${txid}:${input}`
      const {account} = own.get(outpoint)!
      return new ConfirmedTx({id, chain, txid, ...at(block), account, outpoint, success: true, fee})
    })
  })
}

/**
 * Tells the database what these transactions of ours moved; it keeps that of the unknown ones. Their blocks must be
 * written first.
 */
export async function noteMoved(
  query: Query,
  blocks: ReadBlock[],
  ours: Pick<ConfirmedTx, 'txid'>[],
  {chain, display}: WriteOptions,
): Promise<void> {
  if (!ours.length) return
  const moved: Record<string, object[]> = Object.fromEntries(ours.map(({txid}) => [txid, []]))
  for (const {txid, sender, recipientKey, token, amount} of blocks.flatMap(({candidates}) => candidates))
    moved[txid]?.push({sender: display(sender), recipient: display(recipientKey), token, amount: String(amount)})
  await query('select chain.note_moved($1, $2)', [chain, JSON.stringify(moved)])
}

/** What a transaction of ours was signed for. */
interface Purpose {
  txid: string
  token: string
  source: string
  recipient: string
  /** In base units, decimal; 0 if it moves nothing. */
  amount: string
}

// Read from custody's journal, which is written before a signature leaves custody. The worker's rows may lag, and a
// payment would seem failed.
async function purposesOf(query: Query, chain: string, txids: string[]): Promise<Map<string, Purpose>> {
  const rows = await query<Purpose>(
    'select txid, token, source, destination as recipient, amount from custody.journal where stream = $1 and txid = any($2)',
    [chain, txids],
  )
  return new Map(rows.map(row => [row.txid, row]))
}

/**
 * Whether a block has exactly the transfer that a transaction in it was signed for. Execution alone proves nothing: a
 * token need not revert.
 */
function isFulfilled(
  {txid, token, source, recipient, amount}: Purpose,
  {candidates}: Pick<ReadBlock, 'candidates'>,
  display: WriteOptions['display'],
): boolean {
  if (amount === '0') return true
  return candidates.some(
    transfer =>
      transfer.txid === txid &&
      transfer.token === token &&
      transfer.amount === BigInt(amount) &&
      display(transfer.sender) === source &&
      display(transfer.recipientKey) === recipient,
  )
}
