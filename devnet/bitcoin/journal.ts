// Everything that the local Bitcoin chain has ever told anybody: its blocks, and the transactions that wait for one. A block or a
// transaction is told to nobody before it is committed here with fsync, and a reorganisation is one transaction, so that whatever is
// killed, the chain goes on from what was seen last.
import {Block} from 'bitcoinjs-lib'
import {z} from 'zod'
import {JournalFile} from '../sqlite.ts'
import {displayed} from './block.ts'

export type Head = {height: number; hash: string; timestamp: number}
export type Waiting = {txid: string; raw: string}

const Bytes = z.instanceof(Uint8Array).transform(bytes => Buffer.from(bytes))
const HeadRow = z.object({height: z.int(), hash: z.string(), timestamp: z.int()})
const headColumns = 'height, hash, timestamp'

export class BitcoinJournal extends JournalFile {
  #head: Head | undefined

  constructor(file: string) {
    super(
      file,
      'BTC',
      `create table if not exists block (
         height integer primary key,
         hash text not null unique,
         timestamp integer not null,
         raw blob not null
       ) strict;
       create table if not exists included (
         txid text primary key, height integer not null, position integer not null, length integer not null
       ) strict; -- where its bytes are in the block
       create index if not exists included_height on included (height);
       create table if not exists pool (seq integer primary key, txid text not null unique, raw text not null) strict;`,
    )
    this.#readHead()
  }

  #readHead(): void {
    const row = this.get(`select ${headColumns} from block order by height desc limit 1`)
    this.#head = row && HeadRow.parse(row)
  }

  /** The block that the chain ends with; undefined before the first commit. */
  get head(): Head | undefined {
    return this.#head
  }

  /** A block of the chain by height or hash. */
  find(key: number | string): Head | undefined {
    const row = this.get(
      `select ${headColumns} from block where ${typeof key === 'number' ? 'height' : 'hash'} = ?`,
      key,
    )
    return row && HeadRow.parse(row)
  }

  /** The bytes of the block at a height. */
  rawBlock(height: number): Buffer | undefined {
    const row = this.get('select raw from block where height = ?', height)
    return row && Bytes.parse(row.raw)
  }

  /** The bytes of a transaction that is in a block of the chain, or waits for one. */
  rawTransaction(txid: string): string | undefined {
    const mined = this.get(
      'select substr(raw, position + 1, length) as raw from included join block using (height) where txid = ?',
      txid,
    )
    if (mined) return Bytes.parse(mined.raw).toString('hex')
    const waiting = this.get('select raw from pool where txid = ?', txid)
    return waiting && z.string().parse(waiting.raw)
  }

  /** Raw transactions that wait for a block, in the order in which they can be mined. */
  pool(): Waiting[] {
    const rows = this.statement('select txid, raw from pool order by seq').all()
    return z.array(z.object({txid: z.string(), raw: z.string()})).parse(rows)
  }

  addToPool({txid, raw}: Waiting): void {
    this.run('insert into pool (txid, raw) values (?, ?) on conflict do nothing', txid, raw)
  }

  removeFromPool(txids: string[]): void {
    this.transaction(() => {
      for (const txid of txids) this.run('delete from pool where txid = ?', txid)
    })
  }

  /**
   * Makes `blocks` follow the block at height `fork` in one transaction: whatever was above is gone. What waits is `pool`, without what
   * the blocks have. Throws when they do not link to each other and to the block below.
   */
  commit(fork: number, blocks: Buffer[], pool: Waiting[]): void {
    this.transaction(() => {
      for (const table of ['block', 'included']) this.run(`delete from ${table} where height > ?`, fork)
      this.run('delete from pool')
      for (const waiting of pool) this.addToPool(waiting)
      let parent = fork < 0 ? '00'.repeat(32) : this.find(fork)?.hash
      blocks.forEach((raw, i) => {
        const block = Block.fromBuffer(raw)
        if (displayed(block.prevHash!) !== parent)
          throw new Error(`block ${fork + 1 + i} does not go on from ${parent}`)
        parent = block.getId()
        this.#insert(fork + 1 + i, block, raw)
      })
    })
    this.#readHead()
  }

  #insert(height: number, block: Block, raw: Buffer): void {
    this.run('insert into block values (?, ?, ?, ?)', height, block.getId(), block.timestamp, raw)
    const transactions = block.transactions ?? []
    let position = raw.length - transactions.reduce((total, transaction) => total + transaction.byteLength(), 0)
    for (const transaction of transactions) {
      const txid = transaction.getId()
      this.run('insert into included values (?, ?, ?, ?)', txid, height, position, transaction.byteLength())
      this.run('delete from pool where txid = ?', txid)
      position += transaction.byteLength()
    }
  }
}
