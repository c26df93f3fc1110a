// Everything that clients of a local chain have seen: its blocks with their transactions, receipts and traces, the
// unconfirmed transactions, and states to restart from. One SQLite file. A block is committed here with fsync before
// any client sees it, and a reorganisation is one transaction. So whatever is killed, the chain continues from what
// clients saw last.
import type {SQLOutputValue} from 'node:sqlite'
import {deflateRawSync, inflateRawSync} from 'node:zlib'
import {z} from 'zod'
import {columnOf, JournalFile} from '../sqlite.ts'
import type {LocalChainCode} from './constants.ts'

const Hex = z.string().regex(/^0x[0-9a-f]*$/)

/** A transaction in JSON-RPC form, with the fields that are read here; the rest is stored unchanged. */
const Transaction = z.looseObject({hash: Hex})
export const Block = z.looseObject({
  number: Hex,
  hash: Hex,
  parentHash: Hex,
  timestamp: Hex,
  miner: Hex,
  transactions: z.array(Transaction),
})
export type Block = z.infer<typeof Block>

export const Log = z.looseObject({address: Hex, topics: z.array(Hex)})
export const Receipt = z.looseObject({transactionHash: Hex, logs: z.array(Log)})

/** A block and all its data; the lists follow the order of its transactions. */
export const FullBlock = z.object({
  block: Block,
  raw: z.array(Hex),
  receipts: z.array(Receipt),
  /** debug_traceBlockByHash with callTracer. */
  callTraces: z.array(z.unknown()),
  /** trace_block. */
  traces: z.array(z.unknown()),
})
export type FullBlock = z.infer<typeof FullBlock>

export class Journal extends JournalFile {
  constructor(file: string, code: LocalChainCode) {
    super(file, code, {
      block: ['transaction_count integer not null', 'body blob not null'], // FullBlock as JSON, deflated
      included: ['position integer not null'],
      more: 'create table if not exists snapshot (height integer primary key, state blob not null) strict;',
    })
  }

  /** A block by height or hash; undefined if the chain has none. */
  block(key: number | string): FullBlock | undefined {
    const row = this.get(`select body from block where ${columnOf(key)} = ?`, key)
    return row && unpack(row.body)
  }

  /** A block that the chain has. */
  mustHave(height: number): FullBlock {
    const block = this.block(height)
    if (!block) throw new Error(`the journal has no block ${height}`)
    return block
  }

  /** The blocks from `from` to `to` that have transactions. */
  *blocksWithTransactions(from: number, to: number): Generator<FullBlock> {
    const sql = 'select body from block where height between ? and ? and transaction_count > 0 order by height'
    for (const row of this.statement(sql).iterate(from, to)) yield unpack(row.body)
  }

  /** The block of a transaction, and its position there. */
  confirmedTx(txid: string): {block: FullBlock; position: number} | undefined {
    const row = this.get('select body, position from included join block using (height) where txid = ?', txid)
    return row && {block: unpack(row.body), position: z.int().parse(row.position)}
  }

  /**
   * Makes `blocks` the end of the chain in one transaction: they follow the head, or replace it from their first height
   * on. Their transactions leave the mempool. Throws if they do not link to each other and to the block before them.
   */
  commit(blocks: FullBlock[]): void {
    const first = blocks[0]
    if (!first) return
    const from = Number(first.block.number)
    this.#assertLinked(from, blocks)
    this.transaction(() => {
      this.cut(from - 1)
      this.run('delete from snapshot where height >= ?', from)
      for (const full of blocks) this.#insert(full)
    })
    this.readHead()
  }

  #assertLinked(from: number, blocks: FullBlock[]): void {
    let parent = from === 0 ? undefined : this.block(from - 1)?.block
    if (from > 0 && !parent) throw new Error(`the chain has no block ${from - 1}, the parent of block ${from}`)
    for (const {block} of blocks) {
      if (parent && (block.parentHash !== parent.hash || Number(block.number) !== Number(parent.number) + 1))
        throw new Error(`block ${Number(block.number)} ${block.hash} does not link to ${parent.hash}`)
      parent = block
    }
  }

  #insert(full: FullBlock): void {
    const {number, hash, timestamp, transactions} = full.block
    const height = Number(number)
    const body = deflateRawSync(JSON.stringify(full))
    this.insertBlock(height, hash, Number(timestamp), transactions.length, body)
    transactions.forEach((transaction, position) => {
      this.insertIncluded(transaction.hash, height, position)
    })
  }

  saveSnapshot(height: number, state: Uint8Array): void {
    this.run('insert or replace into snapshot values (?, ?)', height, state)
  }

  /** The newest `limit` states of the chain at or below a height, the newest first. */
  snapshots(atOrBelow: number, limit: number): {height: number; state: Uint8Array}[] {
    const sql = 'select height, state from snapshot where height <= ? order by height desc limit ?'
    return z
      .array(z.object({height: z.int(), state: z.instanceof(Uint8Array)}))
      .parse(this.statement(sql).all(atOrBelow, limit))
  }
}

function unpack(body: SQLOutputValue | undefined): FullBlock {
  return FullBlock.parse(JSON.parse(inflateRawSync(z.instanceof(Uint8Array).parse(body)).toString()))
}
