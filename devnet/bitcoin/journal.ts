// Everything that clients of the local Bitcoin chain have seen: its blocks, and the unconfirmed transactions. Each is
// committed here with fsync before any client sees it, and a reorganisation is one transaction. So whatever is killed,
// the chain continues from what clients saw last.
import {Block} from 'bitcoinjs-lib'
import {z} from 'zod'
import {JournalFile, type Waiting} from '../sqlite.ts'
import {displayed} from './block.ts'

const Bytes = z.instanceof(Uint8Array).transform(bytes => Buffer.from(bytes))

export class BitcoinJournal extends JournalFile {
  constructor(file: string, code: string) {
    super(file, code, {
      block: ['raw blob not null'],
      included: ['position integer not null', 'length integer not null'], // where its bytes are in the block
    })
  }

  /** The bytes of the block at a height. */
  rawBlock(height: number): Buffer | undefined {
    const row = this.get('select raw from block where height = ?', height)
    return row && Bytes.parse(row.raw)
  }

  /** The bytes of a transaction that is in a block of the chain, or unconfirmed. */
  rawTransaction(txid: string): string | undefined {
    const mined = this.get(
      'select substr(raw, position + 1, length) as raw from included join block using (height) where txid = ?',
      txid,
    )
    if (mined) return Bytes.parse(mined.raw).toString('hex')
    const waiting = this.get('select raw from pool where txid = ?', txid)
    return waiting && z.string().parse(waiting.raw)
  }

  /**
   * Makes `blocks` follow the block at height `fork` in one transaction; blocks above it are gone. `pool` is
   * unconfirmed, without what the blocks have. Throws if they do not link to each other and to the block below.
   */
  commit(fork: number, blocks: Buffer[], pool: Waiting[]): void {
    this.transaction(() => {
      this.cut(fork)
      this.run('delete from pool')
      for (const waiting of pool) this.addToPool(waiting)
      let parent = fork < 0 ? '00'.repeat(32) : this.find(fork)?.hash
      blocks.forEach((raw, i) => {
        const block = Block.fromBuffer(raw)
        if (displayed(block.prevHash!) !== parent) throw new Error(`block ${fork + 1 + i} does not link to ${parent}`)
        parent = block.getId()
        this.#insert(fork + 1 + i, block, raw)
      })
    })
    this.readHead()
  }

  #insert(height: number, block: Block, raw: Buffer): void {
    this.insertBlock(height, block.getId(), block.timestamp, raw)
    const transactions = block.transactions ?? []
    let position = raw.length - transactions.reduce((total, transaction) => total + transaction.byteLength(), 0)
    for (const transaction of transactions) {
      this.insertIncluded(transaction.getId(), height, position, transaction.byteLength())
      position += transaction.byteLength()
    }
  }
}
