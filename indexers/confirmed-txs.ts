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
  const short: {purpose: Purpose; moved: bigint}[] = []
  const rows = ours.map(({block, transaction: {txid, nonce, executed, fee, position}, sender}) => {
    const purpose = purposes.get(txid)
    const moved = purpose && movedFor(purpose, block, display)
    if (executed && purpose && moved !== undefined && moved < BigInt(purpose.amount)) short.push({purpose, moved})
    const success = executed && (!purpose || moved !== undefined)
    const id = position ? `${chain}:${txid}:${position}` : `${chain}:${txid}`
    return new ConfirmedTx({id, chain, txid, ...at(block), account: sender, nonce, success, fee})
  })
  for (const {purpose, moved} of short)
    await query('select chain.note_short($1, $2, $3, $4, $5)', [
      chain,
      purpose.token,
      purpose.txid,
      purpose.amount,
      String(moved),
    ])
  return rows
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
  /** As the source of blocks calls it: a token that was added (app.token) by its contract. */
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
    `select j.txid, coalesce(k.contract, j.token) as token, j.source, j.destination as recipient, j.amount from custody.journal j
     left join app.token k on k.chain = j.stream and k.token = j.token where j.stream = $1 and j.txid = any($2)`,
    [chain, txids],
  )
  return new Map(rows.map(row => [row.txid, row]))
}

/**
 * What moved in a block of what a transaction in it was signed for: all of it; less, if the token kept a part, and what
 * was sent has left all the same (no token keeps half); undefined if nothing did. Execution alone proves nothing: a
 * token need not revert.
 */
function movedFor(
  {txid, token, source, recipient, amount}: Purpose,
  {candidates}: Pick<ReadBlock, 'candidates'>,
  display: WriteOptions['display'],
): bigint | undefined {
  if (amount === '0') return 0n
  const moved = candidates
    .filter(
      transfer =>
        transfer.txid === txid &&
        transfer.token === token &&
        (transfer.amount === BigInt(amount) ||
          (transfer.kind === 'token' && isMost(transfer.amount, BigInt(amount)))) &&
        display(transfer.sender) === source &&
        display(transfer.recipientKey) === recipient,
    )
    .map(transfer => transfer.amount)
  return moved.find(some => some === BigInt(amount)) ?? moved[0]
}

const isMost = (part: bigint, whole: bigint) => part < whole && 2n * part > whole
