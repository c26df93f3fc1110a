// Everything that clients of a local Solana chain have seen: its blocks with what came of their transactions, the
// accounts after each block, and the transactions that wait. Each is committed with fsync before any client sees it,
// and a reorganisation is one transaction.
import {deserialize, serialize} from 'node:v8'
import {z} from 'zod'
import {JournalFile} from '../sqlite.ts'

export interface Account {
  lamports: bigint
  data: Uint8Array
  owner: string
  executable: boolean
}

/** As the RPC writes it. */
export type TransactionError = string | Record<string, unknown>

export interface TokenBalance {
  index: number
  mint: string
  owner: string
  program: string
  amount: bigint
  decimals: number
}

/** A transaction in a block, and what came of it. */
export interface Included {
  txid: string
  raw: Uint8Array
  error: TransactionError | null
  /** In lamports. */
  fee: bigint
  keys: string[]
  /** By key. */
  before: bigint[]
  after: bigint[]
  tokensBefore: TokenBalance[]
  tokensAfter: TokenBalance[]
  logs: string[]
  units: bigint
}

export interface LocalBlock {
  height: number
  slot: number
  hash: string
  parentSlot: number
  parentHash: string
  /** In seconds. */
  time: number
  transactions: Included[]
}

/** The accounts that a block changed; undefined where one is gone. */
export type Changes = ReadonlyMap<string, Account | undefined>

const Bytes = z.instanceof(Uint8Array)

export class SolanaJournal extends JournalFile {
  constructor(file: string, code: string) {
    super(file, code, {
      block: ['slot integer not null unique', 'body blob not null'],
      included: [],
      more: `create table if not exists account (
        address text not null, height integer not null, state blob, primary key (address, height)
      ) strict, without rowid;
      create table if not exists mention (
        address text not null, height integer not null, place integer not null, txid text not null, primary key (address, height, place)
      ) strict, without rowid;`,
    })
  }

  block(height: number): LocalBlock | undefined {
    const row = this.get('select body from block where height = ?', height)
    return row && deserialize(Bytes.parse(row.body))
  }

  blockIn(slot: number): LocalBlock | undefined {
    const row = this.get('select body from block where slot = ?', slot)
    return row && deserialize(Bytes.parse(row.body))
  }

  slots(from: number, to: number): number[] {
    const rows = this.statement('select slot from block where slot between ? and ? order by slot').all(from, to)
    return rows.map(({slot}) => Number(slot))
  }

  heightOfHash(hash: string): number | undefined {
    return this.find(hash)?.height
  }

  /** The height of the block that has a transaction. */
  heightOf(txid: string): number | undefined {
    const row = this.get('select height from included where txid = ?', txid)
    return row && z.int().parse(row.height)
  }

  /** After the block at this height. */
  account(address: string, height: number): Account | undefined {
    const newest = 'select state from account where address = ? and height <= ? order by height desc limit 1'
    const row = this.get(newest, address, height)
    return row?.state ? deserialize(Bytes.parse(row.state)) : undefined
  }

  /** Whether a block of the chain made or changed an account. */
  hasChanged(address: string): boolean {
    return this.get('select 1 from account where address = ? limit 1', address) !== undefined
  }

  /** Gives an account that no block has changed a state, as if it had been there from the first block on. */
  endow(address: string, account: Account): void {
    this.run('insert into account values (?, 0, ?)', address, serialize(account))
  }

  /** The transactions that name an address, up to a height, the newest first. */
  mentions(address: string, height: number): {txid: string; height: number}[] {
    const newest = 'select txid, height from mention where address = ? and height <= ? order by height desc, place desc'
    const rows = this.statement(newest).all(address, height)
    return rows.map(row => ({txid: String(row.txid), height: Number(row.height)}))
  }

  /** All accounts after the block at this height. */
  accounts(height: number): [string, Account][] {
    const newest = `select address, state, max(height) from account where height <= ? group by address` // state of the newest, in SQLite
    const rows = this.statement(newest).all(height)
    return rows.flatMap(({address, state}) => (state ? [[String(address), deserialize(Bytes.parse(state))]] : []))
  }

  /** The slot of the newest block that there ever was. */
  get lastSlot(): number {
    return Number(this.meta('slot') ?? 0)
  }

  /** Makes `blocks`, each with the accounts that it changes, the end of the chain, from their first height on. */
  commit(blocks: {block: LocalBlock; changes: Changes}[], lastSlot = blocks.at(-1)!.block.slot): void {
    const above = blocks[0]!.block.height - 1
    this.transaction(() => {
      this.cut(above)
      for (const table of ['account', 'mention']) this.run(`delete from ${table} where height > ?`, above)
      for (const {block, changes} of blocks) {
        this.insertBlock(block.height, block.hash, block.time, block.slot, serialize(block))
        for (const [place, {txid, keys}] of block.transactions.entries()) {
          this.insertIncluded(txid, block.height)
          for (const key of keys) this.run('insert into mention values (?, ?, ?, ?)', key, block.height, place, txid)
        }
        for (const [address, account] of changes)
          this.run('insert into account values (?, ?, ?)', address, block.height, account ? serialize(account) : null)
      }
      this.setMeta('slot', String(lastSlot))
    })
    this.readHead()
  }
}
