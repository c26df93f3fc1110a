// Everything that clients of a local Tron chain have seen: its blocks with what came of their transactions, the
// state after each block, and the transactions that wait. Each is committed with fsync before any client sees it,
// and a reorganisation is one transaction.
import {deserialize, serialize} from 'node:v8'
import {z} from 'zod'
import type {Header} from '../../chains/tron/block.ts'
import type {Transaction} from '../../chains/tron/transaction.ts'
import {JournalFile} from '../sqlite.ts'
import type {Executed} from './execute.ts'
import {type Account, type Below, type Changed, newAccount} from './state.ts'

export interface Included {
  /** With its result. */
  transaction: Transaction
  executed: Executed
}

export interface LocalBlock {
  hash: string
  header: Header
  transactions: Included[]
}

const Bytes = z.instanceof(Uint8Array)

/** Of what is in the file. */
const format = '2'

export class TronJournal extends JournalFile {
  constructor(file: string, code: string) {
    super(file, code, {
      block: ['body blob not null'],
      included: [],
      more: ['account', 'other'].map(table).join(''),
    })
    if (!this.head) this.setMeta('format', format)
    if (this.meta('format') === format) return
    this.close()
    throw new Error(`${file} is of an earlier version: remove its directory, and the local chain begins again`)
  }

  block(height: number): LocalBlock | undefined {
    const row = this.get('select body from block where height = ?', height)
    return row && deserialize(Bytes.parse(row.body))
  }

  /** The height of the block that has a transaction. */
  heightOf(txid: string): number | undefined {
    const row = this.get('select height from included where txid = ?', txid)
    return row && z.int().parse(row.height)
  }

  /** After the block at this height. */
  account(address: string, height: number): Account | undefined {
    return this.at(height).account(address)
  }

  /** The state after the block at a height. */
  at(height: number): Below {
    return {
      account: address => this.#newest('account', address, height) as Account | undefined,
      other: key => this.#newest('other', key, height),
    }
  }

  #newest(table: 'account' | 'other', key: string, height: number): unknown {
    const newest = `select state from ${table} where key = ? and height <= ? order by height desc limit 1`
    const row = this.get(newest, key, height)
    return row && deserialize(Bytes.parse(row.state))
  }

  /** Gives an account that no block has changed a balance, as if it had been there from the first block on. */
  endow(address: string, balance: bigint): void {
    const account: Account = {...newAccount, balance}
    this.run('insert into account values (?, 0, ?)', address, serialize(account))
  }

  /** Makes `blocks`, each with the state that it changes (if any), the end of the chain, from their first height on. */
  commit(blocks: {block: LocalBlock; changed?: Changed}[]): void {
    const above = blocks[0]!.block.header.height - 1
    this.transaction(() => {
      this.cut(above)
      for (const table of ['account', 'other']) this.run(`delete from ${table} where height > max(?, 0)`, above)
      for (const {block, changed} of blocks) {
        const {hash, header, transactions} = block
        this.insertBlock(header.height, hash, Math.floor(header.time / 1000), serialize(block))
        for (const {transaction} of transactions) this.insertIncluded(transaction.txid, header.height)
        for (const [address, account] of changed?.accounts ?? [])
          this.run('insert into account values (?, ?, ?)', address, header.height, serialize(account))
        for (const [key, state] of changed?.others ?? [])
          this.run('insert into other values (?, ?, ?)', key, header.height, serialize(state))
      }
    })
    this.readHead()
  }
}

/** Accounts by their addresses, and what else there is by other keys (state.ts). */
function table(name: string): string {
  return `create table if not exists ${name} (
    key text not null, height integer not null, state blob not null, primary key (key, height)
  ) strict, without rowid;`
}
