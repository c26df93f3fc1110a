// Writes a batch of blocks, what they moved to addresses of ours, and what addresses of ours sent. Promises: addresses are looked up in
// the transaction that writes the blocks, so one that was handed out a moment before its first deposit is found; a block that does not
// link to the one below it is refused, and nothing of its batch is written; what is not ours is never stored; a transaction of ours
// succeeded only if it moved what it was signed for; on a chain with outputs, what a block spends of ours, and what it makes of what was
// unmined, is written with it.
import type {Store} from '@subsquid/typeorm-store'
import type {EntityManager} from 'typeorm'
import {RetryableError} from '../base/errors.ts'
import {Block, Inclusion, Transfer} from './entities.ts'

/** A block as every chain's reader hands it over. */
export interface ReadBlock {
  height: number
  hash: string
  parentHash: string
  time: Date
  /** Every transfer in it that may be to us; which are is decided here. */
  candidates: Candidate[]
  /** Where transactions are of an address and have a nonce: all of them; which are of addresses of ours is decided here. */
  sent: SentTransaction[]
  /** Where transactions spend outputs: each that may concern us. */
  spends: SpendingTransaction[]
  /** Who sent these transactions of it, where the source has to ask for that; its candidates' senders hold for what is left out. Asked only of what is ours, because it takes time. */
  sendersOf?(txids: string[]): Promise<Map<string, string>>
}

export interface Candidate {
  txid: string
  outputIndex: number
  /** Token code, or the contract's address where the token is none of ours. */
  token: string
  /** In base units, above 0. */
  amount: bigint
  sender: string
  /** The recipient in the form of app.address.match_key. */
  recipientKey: string
}

export interface SentTransaction {
  txid: string
  /** The sender in the form of custody.address.match_key. */
  senderKey: string
  nonce: number
  /** False if it was reverted. */
  executed: boolean
  /** What it cost, in base units of the native coin. */
  fee: bigint
}

export interface SpendingTransaction {
  txid: string
  /** What it spends: txid:vout, in the order of its inputs. */
  outpoints: string[]
  /** What its outputs hold together, in base units. */
  outputSum: bigint
  /** In hex. */
  raw?: string
}

export interface WriteOptions {
  chain: string
  /** The form in which people see an address that came in the form of a match key. */
  display: (address: string) => string
}

/** Asks the database, in the transaction that writes. */
export type Query = <T>(sql: string, values: unknown[]) => Promise<T[]>

/** Inserts blocks, in ascending order and without holes, through the store. Throws RetryableError if they do not link. */
export async function writeBlocks(store: Store, blocks: ReadBlock[], options: WriteOptions): Promise<void> {
  const first = blocks[0]
  if (!first) return
  const {chain} = options
  const query: Query = (sql, values) => (store as unknown as {em(): EntityManager}).em().query(sql, values) // private; reading through it is all we do
  const found = await lookUp(query, chain, blocks)
  assertLinked(blocks, found.parentHash)

  await store.insert(
    blocks.map(({height, hash, parentHash, time}) => {
      return new Block({id: `${chain}:${height}`, chain, height, hash, parentHash, time})
    }),
  )
  await store.insert(transfersIn(blocks, found, options))
  await store.insert(await inclusionsIn(query, blocks, found, options))
  await noteMined(query, chain, blocks, () => true)
}

/** What moved to addresses of ours. */
export function transfersIn(
  blocks: ReadBlock[],
  {addresses, askedSenders}: Found,
  {chain, display}: WriteOptions,
): Transfer[] {
  return blocks.flatMap(block =>
    block.candidates.flatMap(candidate => {
      const {txid, outputIndex, token, amount, recipientKey} = candidate
      const recipient = addresses[recipientKey]
      if (!recipient) return []
      const id = `${chain}:${txid}:${outputIndex}`
      const sender = display(askedSenders.get(txid) ?? candidate.sender)
      return [new Transfer({id, chain, txid, outputIndex, ...at(block), token, amount, sender, recipient})]
    }),
  )
}

/** What addresses of ours sent, once the transfers of these blocks are written. */
export async function inclusionsIn(
  query: Query,
  blocks: ReadBlock[],
  found: Found,
  options: WriteOptions,
): Promise<Inclusion[]> {
  return [...(await spentIn(query, options.chain, blocks)), ...(await sentIn(query, blocks, found, options))]
}

async function sentIn(
  query: Query,
  blocks: ReadBlock[],
  {senders}: Found,
  {chain, display}: WriteOptions,
): Promise<Inclusion[]> {
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
  return ours.map(({block, transaction: {txid, nonce, executed, fee}, sender}) => {
    const purpose = purposes.get(txid)
    const success = executed && (!purpose || isFulfilled(purpose, block, display))
    return new Inclusion({id: `${chain}:${txid}`, chain, txid, ...at(block), sender, nonce, success, fee})
  })
}

/** Outputs of ours that were spent, those of the same blocks included. */
async function spentIn(query: Query, chain: string, blocks: ReadBlock[]): Promise<Inclusion[]> {
  const spends = spendsIn(blocks)
  if (!spends.length) return []
  const rows = await query<{outpoint: string; amount: string}>(
    `select t.txid || ':' || t.output_index as outpoint, t.amount from unnest($2::text[]) o
     cross join lateral (select * from chain.transfer t where t.id = $1 || ':' || o offset 0) t`,
    [chain, spends.flatMap(({outpoints}) => outpoints)],
  )
  const amounts = new Map(rows.map(({outpoint, amount}) => [outpoint, BigInt(amount)]))
  return spends.flatMap(({block, txid, outpoints, outputSum}) => {
    const ours = outpoints.map((outpoint, input) => ({outpoint, input})).filter(({outpoint}) => amounts.has(outpoint))
    const brought = ours.reduce((sum, {outpoint}) => sum + amounts.get(outpoint)!, 0n)
    const fee = ours.length === outpoints.length ? brought - outputSum : 0n
    return ours.map(({outpoint, input}) => {
      const id = `${chain}:${txid}:${input}`
      return new Inclusion({id, chain, txid, ...at(block), sender: outpoint, nonce: 0, success: true, fee})
    })
  })
}

function spendsIn(blocks: ReadBlock[]): ({block: ReadBlock} & SpendingTransaction)[] {
  return blocks.flatMap(block => block.spends.map(transaction => ({block, ...transaction})))
}

/** What becomes of what was unmined. Of the transfers to us in these blocks, those that are to be kept until they are final are named by their id. */
export async function noteMined(
  query: Query,
  chain: string,
  blocks: ReadBlock[],
  isKept: (id: string) => boolean,
): Promise<void> {
  const spends = spendsIn(blocks)
  if (!spends.length) return
  const kept = await query<Record<string, unknown> & {id: string; txid: string}>(
    `select t.id, t.txid, t.output_index, t.token, t.amount::text as amount, t.sender, t.recipient from chain.transfer t
     where t.chain = $1 and t.block_height between $2 and $3`,
    [chain, spends[0]!.block.height, spends.at(-1)!.block.height],
  )
  const transactions = new Map(spends.map(transaction => [transaction.txid, transaction]))
  const withInputs = kept
    .filter(({id}) => isKept(id))
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

function at({height, hash, time}: ReadBlock) {
  return {blockHeight: height, blockHash: hash, blockTime: time}
}

/** Of what blocks name, what is ours. */
export interface Found {
  /** Of the block below them. */
  parentHash: string | null
  addresses: Record<string, string>
  senders: Record<string, string>
  /** Who sent what is to us, by txid, where that had to be asked for. */
  askedSenders: Map<string, string>
}

// Each key is looked up by index (lateral with offset 0, which the planner cannot turn into a scan of all addresses: measured, with 20,000 keys
// and a million addresses it does, and takes ten times as long).
export async function lookUp(query: Query, chain: string, blocks: ReadBlock[]): Promise<Found> {
  const recipientKeys = new Set(blocks.flatMap(block => block.candidates.map(candidate => candidate.recipientKey)))
  const senderKeys = new Set(blocks.flatMap(block => block.sent.map(transaction => transaction.senderKey)))
  const [row] = await query<Omit<Found, 'askedSenders'>>(
    `select (select hash from chain.block where id = $1) as "parentHash",
       coalesce((select json_object_agg(match_key, address) from unnest($3::text[]) key cross join lateral (
         select match_key, address from app.address where chain = $2 and match_key = key offset 0) a), '{}') as addresses,
       coalesce((select json_object_agg(match_key, address) from unnest($4::text[]) key cross join lateral (
         select match_key, address from custody.address where match_key = key offset 0) a), '{}') as senders`,
    [`${chain}:${blocks[0]!.height - 1}`, chain, [...recipientKeys], [...senderKeys]],
  )
  return {...row!, askedSenders: await askSenders(blocks, row!.addresses)}
}

async function askSenders(blocks: ReadBlock[], addresses: Found['addresses']): Promise<Map<string, string>> {
  const asked = await Promise.all(
    blocks.map(async block => {
      const ours = block.sendersOf && block.candidates.filter(({recipientKey}) => addresses[recipientKey])
      return ours?.length ? [...(await block.sendersOf!([...new Set(ours.map(({txid}) => txid))]))] : []
    }),
  )
  return new Map(asked.flat())
}

/** What a transaction of ours was signed for. */
interface Purpose {
  txid: string
  token: string
  source: string
  recipient: string
  /** In base units, decimal; 0 where it moves nothing. */
  amount: string
}

// As custody wrote it down before its signature left: what the worker says of a transaction could make a payment look as if it had failed.
async function purposesOf(query: Query, chain: string, txids: string[]): Promise<Map<string, Purpose>> {
  const rows = await query<Purpose>(
    'select txid, token, source, destination as recipient, amount from custody.journal where stream = $1 and txid = any($2)',
    [chain, txids],
  )
  return new Map(rows.map(row => [row.txid, row]))
}

/** Whether a block has exactly the transfer that a transaction in it was signed for. That it ran says nothing: a token need not revert. */
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
