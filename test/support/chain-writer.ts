// Writes chain rows like an indexer's store, with the indexer's role: one transaction deletes the rows of the blocks
// that left, inserts those of the new blocks, and updates the store's status row last. For tests that need no node.
import {createHash} from 'node:crypto'
import pg from 'pg'
import type {TransferKind} from '../../indexers/block.ts'
import type {TestDatabase} from './database.ts'

export interface TestTransfer {
  txid: string
  outputIndex?: number
  /** Null: as an indexer of the version before. */
  kind?: TransferKind | null
  token?: string
  amount: bigint
  recipient: string
  sender?: string
}

/** A transaction that uses the key of an address of ours. */
export interface TestConfirmedTx {
  txid: string
  /** By default the owner of the outpoint. */
  account?: string
  nonce?: number
  success?: boolean
  fee?: bigint
  /** On chains with outputs: the output that it spends, and the position of that input. */
  outpoint?: string
  input?: number
}

interface Contents {
  transfers?: TestTransfer[]
  confirmedTxs?: TestConfirmedTx[]
  /** The block's timestamp; by default now. */
  time?: Date
}

export interface TestBlock {
  height: number
  hash: string
  parentHash: string
  transfers: TestTransfer[]
  confirmedTxs: TestConfirmedTx[]
  time?: Date | undefined
}

export class ChainWriter {
  readonly #client: pg.Client
  readonly #chain: string
  /** From the anchor to the head. */
  readonly blocks: TestBlock[] = []
  #branches = 0

  private constructor(client: pg.Client, chain: string) {
    this.#client = client
    this.#chain = chain
  }

  static async open(db: Pick<TestDatabase, 'url'>, chain: string): Promise<ChainWriter> {
    const client = new pg.Client({connectionString: db.url('sluice_indexer')})
    await client.connect()
    const writer = new ChainWriter(client, chain)
    const anchor = {height: 0, hash: hashOf('anchor'), parentHash: '', transfers: [], confirmedTxs: []}
    await client.query('select chain.anchor($1, $2, 0, $3, now())', [chain, 'test', anchor.hash])
    writer.blocks.push(anchor)
    return writer
  }

  get head(): TestBlock {
    return this.blocks.at(-1)!
  }

  /**
   * One transaction: the newest `drop` blocks leave, and each list of transfers becomes a block. Rows that stay may be
   * written again.
   */
  async write({
    drop = 0,
    add = [],
    also = async () => {},
  }: {
    drop?: number
    add?: (TestTransfer[] | Contents)[]
    /** More statements in the same transaction. */
    also?: () => Promise<void>
  }): Promise<void> {
    const from = this.blocks.length - drop
    const dropped = this.blocks.splice(from)
    for (const contents of add) {
      const {height, hash} = this.head
      const {
        transfers = [],
        confirmedTxs = [],
        time = undefined,
      } = Array.isArray(contents) ? {transfers: contents} : contents
      this.#branches += 1
      this.blocks.push({
        height: height + 1,
        hash: hashOf(`${height + 1} ${this.#branches}`),
        parentHash: hash,
        transfers,
        confirmedTxs,
        time,
      })
    }
    await this.#replace(dropped, this.blocks.slice(from), also)
  }

  /** Like evm-processor after a restart: the newest blocks are deleted and inserted again in one transaction. */
  async readAgain(count: number): Promise<void> {
    const blocks = this.blocks.slice(1).slice(-count)
    await this.#replace(blocks, blocks)
  }

  /** Rewinds to a height; below the final one only if an operator requested it. */
  async rewind(height: number): Promise<void> {
    await this.#client.query('select chain.rewind($1, $2, $3)', [this.#chain, height, this.blocks[height]!.hash])
    this.blocks.length = height + 1
  }

  /** Finalises the block at this height, as a node would. */
  async finalise(height: number, hash = this.blocks[height]!.hash): Promise<boolean> {
    const {rows} = await this.#client.query('select chain.finalise($1, $2, $3) as done', [this.#chain, height, hash])
    return rows[0].done
  }

  async query(sql: string, values?: unknown[]): Promise<void> {
    await this.#client.query(sql, values)
  }

  close(): Promise<void> {
    return this.#client.end()
  }

  async #replace(gone: TestBlock[], come: TestBlock[], also = async () => {}): Promise<void> {
    await this.#client.query('begin')
    try {
      for (const block of gone.toReversed()) await this.#remove(block)
      for (const block of come) await this.#insert(block)
      await also()
      await this.#touchStatus()
      await this.#client.query('commit')
    } catch (error) {
      await this.#client.query('rollback')
      throw error
    }
  }

  async #remove({height, transfers, confirmedTxs}: TestBlock): Promise<void> {
    for (const confirmedTx of confirmedTxs) {
      await this.#client.query('delete from chain.confirmed_tx where id = $1', [this.#idOf(confirmedTx)])
    }
    for (const {txid, outputIndex = 0} of transfers) {
      await this.#client.query('delete from chain.transfer where id = $1', [`${this.#chain}:${txid}:${outputIndex}`])
    }
    await this.#client.query('delete from chain.block where id = $1', [`${this.#chain}:${height}`])
  }

  async #insert({height, hash, parentHash, transfers, confirmedTxs, time}: TestBlock): Promise<void> {
    const chain = this.#chain
    await this.#client.query(
      'insert into chain.block (id, chain, height, hash, parent_hash, time) values ($1, $2, $3, $4, $5, coalesce($6, now()))',
      [`${chain}:${height}`, chain, height, hash, parentHash, time],
    )
    for (const transfer of transfers) {
      const {txid, outputIndex = 0, kind = 'native', token = 'USDC', amount, recipient, sender = '0xSender'} = transfer
      await this.#client.query(
        `insert into chain.transfer (id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient, transfer_kind)
         values ($1, $2, $3, $4, $5, $6, coalesce($11, now()), $7, $8, $9, $10, $12)`,
        [
          `${chain}:${txid}:${outputIndex}`,
          chain,
          txid,
          outputIndex,
          height,
          hash,
          token,
          amount.toString(),
          sender,
          recipient,
          time,
          kind,
        ],
      )
    }
    for (const confirmedTx of confirmedTxs) {
      const {txid, account, nonce, outpoint, success = true, fee = 0n} = confirmedTx
      await this.#client.query(
        `insert into chain.confirmed_tx (id, chain, txid, block_height, block_hash, block_time, account, nonce, outpoint, success, fee)
         values ($1, $2, $3, $4, $5, now(), coalesce($6, (select recipient from chain.transfer where id = $2 || ':' || $8), $8), $7, $8, $9, $10)`,
        [this.#idOf(confirmedTx), chain, txid, height, hash, account, nonce, outpoint, success, fee.toString()],
      )
    }
  }

  #idOf({txid, input}: TestConfirmedTx): string {
    return `${this.#chain}:${txid}${input === undefined ? '' : `:${input}`}`
  }

  async #touchStatus(): Promise<void> {
    await this.#client.query(`update squid_${this.#chain.toLowerCase()}.status set nonce = nonce + 1 where id = 0`)
  }
}

export function hashOf(text: string): string {
  return `0x${createHash('sha256').update(text).digest('hex')}`
}
