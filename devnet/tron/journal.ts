// Everything that clients of a local Tron chain have seen: its blocks with what came of their transactions, the
// accounts after each block, and the transactions that wait. Each is committed with fsync before any client sees it,
// and a reorganisation is one transaction.
import {deserialize, serialize} from 'node:v8'
import {z} from 'zod'
import type {Header} from '../../chains/tron/block.ts'
import type {Transaction} from '../../chains/tron/transaction.ts'
import {JournalFile} from '../sqlite.ts'
import type {Account} from './accounts.ts'
import type {Executed} from './execute.ts'

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

export class TronJournal extends JournalFile {
  constructor(file: string, code: string) {
    super(file, code, {
      block: ['body blob not null'],
      included: [],
      more: `create table if not exists account (
        address text not null, height integer not null, state blob not null, primary key (address, height)
      ) strict, without rowid;`,
    })
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
    const newest = 'select state from account where address = ? and height <= ? order by height desc limit 1'
    const row = this.get(newest, address, height)
    return row && deserialize(Bytes.parse(row.state))
  }

  /** Gives an account that no block has changed a balance, as if it had been there from the first block on. */
  endow(address: string, balance: bigint): void {
    const account: Account = {balance, used: 0, usedAt: 0}
    this.run('insert into account values (?, 0, ?)', address, serialize(account))
  }

  /** Makes `blocks`, each with the accounts that it changes, the end of the chain, from their first height on. */
  commit(blocks: {block: LocalBlock; changed: ReadonlyMap<string, Account>}[]): void {
    const above = blocks[0]!.block.header.height - 1
    this.transaction(() => {
      this.cut(above)
      this.run('delete from account where height > max(?, 0)', above)
      for (const {block, changed} of blocks) {
        const {hash, header, transactions} = block
        this.insertBlock(header.height, hash, Math.floor(header.time / 1000), serialize(block))
        for (const {transaction} of transactions) this.insertIncluded(transaction.txid, header.height)
        for (const [address, account] of changed)
          this.run('insert into account values (?, ?, ?)', address, header.height, serialize(account))
      }
    })
    this.readHead()
  }
}
