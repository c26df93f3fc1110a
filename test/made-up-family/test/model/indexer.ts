// The indexer of the model's chain: it writes blocks with the real SQL as the store does, moves finality, proves what expired, and rewinds. Promises: it
// writes what the node's chain holds, and nothing else; only `prove` may lie. Like the real one it halts the chain at a fork below the final block.
import type pg from 'pg'
import {ChainCursor, type Cursor} from '../../indexers/cursor.ts'
import {type LapseSource, noteLapses} from '../../indexers/lapses.ts'
import {type Block, branch, type ModelChain} from './chain.ts'
import type {Kind} from './kinds.ts'

export class Indexer {
  readonly #pool: pg.Pool
  readonly #kind: Kind
  readonly #own: Set<string>
  readonly cursor: ChainCursor
  /** The newest block that was read. */
  #head: Block | undefined

  constructor(pool: pg.Pool, kind: Kind, own: string[]) {
    this.#pool = pool
    this.#kind = kind
    this.#own = new Set(own)
    this.cursor = new ChainCursor(this.#pool, kind.chain)
  }

  async anchor(block: Block): Promise<void> {
    await this.cursor.anchor('model', block.height, block.hash, new Date(block.time))
    this.#head = block
  }

  async begin(head: Block): Promise<void> {
    this.#head = head
    for (const block of branch(head)) this.seen.set(block.hash, block)
  }

  get head(): Block {
    return this.#head!
  }

  async at(): Promise<Cursor> {
    return (await this.cursor.read())!
  }

  /** Reads what the database has: it may be an older copy. */
  async resume(): Promise<void> {
    const {headHash} = await this.at()
    this.#head = this.seen.get(headHash)!
  }

  /** All blocks that were read, by hash. */
  readonly seen = new Map<string, Block>()

  /** Reads up to so many blocks of the node's chain. False if the final block is not on it: then nothing was written. */
  async read(chain: ModelChain, most = Number.POSITIVE_INFINITY): Promise<boolean> {
    const theirs = new Set([...branch(chain.head)])
    let base = this.head
    while (!theirs.has(base)) base = base.parent!
    const all = [...branch(chain.head)].filter(({height}) => height > base.height).reverse()
    // A replacement ends no lower than what it replaces.
    const add = all.slice(0, Math.max(most, this.head.height - base.height))
    if (!add.length || add.at(-1)!.height < this.head.height) return true
    try {
      await this.#write(base, add)
    } catch (error) {
      if ((error as {code?: string}).code === 'P0003') return false
      throw error
    }
    return true
  }

  async #write(base: Block, add: Block[]): Promise<void> {
    const {chain} = this.#kind
    await this.#transaction(async client => {
      for (const [table, height] of [
        ['confirmed_tx', 'block_height'],
        ['transfer', 'block_height'],
        ['block', 'height'],
      ])
        await client.query(`delete from chain.${table} where chain = $1 and ${height} > $2`, [chain, base.height])
      await insert(
        client,
        'block',
        add.map(block => this.#block(block)),
      )
      await insert(
        client,
        'transfer',
        add.flatMap(block => this.transfers(block)),
      )
      await insert(
        client,
        'confirmed_tx',
        add.flatMap(block => this.confirmed(block)),
      )
      await client.query(`update squid_${chain.toLowerCase()}.status set nonce = nonce + 1 where id = 0`)
    })
    this.#head = add.at(-1)!
    for (const block of add) this.seen.set(block.hash, block)
  }

  #block({height, hash, parent, time}: Block): object {
    const {chain} = this.#kind
    return {id: `${chain}:${height}`, chain, height, hash, parent_hash: parent!.hash, time: new Date(time)}
  }

  #at({height, hash, time}: Block): object {
    return {chain: this.#kind.chain, block_height: height, block_hash: hash, block_time: new Date(time)}
  }

  /** What arrived at addresses of ours. */
  transfers(block: Block): object[] {
    const {chain} = this.#kind
    return block.included.flatMap(({transaction: {txid, from, outputs}, failed}) =>
      (failed ? [] : outputs).flatMap(({to, token, amount}, output_index) =>
        this.#own.has(to)
          ? [
              {
                id: `${chain}:${txid}:${output_index}`,
                ...this.#at(block),
                txid,
                output_index,
                token,
                amount: String(amount),
                sender: from,
                recipient: to,
              },
            ]
          : [],
      ),
    )
  }

  /** What addresses of ours sent. */
  confirmed(block: Block): object[] {
    const {chain} = this.#kind
    return block.included.flatMap(({transaction: {txid, from, fee, nonce}, failed}) =>
      this.#own.has(from)
        ? [
            {
              id: `${chain}:${txid}`,
              ...this.#at(block),
              txid,
              account: from,
              nonce: nonce ?? null,
              success: !failed,
              fee: String(fee),
            },
          ]
        : [],
    )
  }

  /** The newest of our blocks that the node calls final, too, is final. */
  async finalize(chain: ModelChain): Promise<void> {
    const ours = new Set(branch(this.head))
    for (const block of branch(chain.final))
      if (ours.has(block)) {
        await this.cursor.finalize(block.height, block.hash)
        return
      }
  }

  async noteLapses(proveAbsent: NonNullable<LapseSource['proveAbsent']>): Promise<void> {
    await noteLapses(this.cursor, {proveAbsent})
  }

  /** As an operator asked for it. */
  async rewind(height: number): Promise<void> {
    let to = this.head
    while (to.height > height) to = to.parent!
    await this.cursor.rewind(to)
    this.#head = to
    this.seen.set(to.hash, to)
  }

  async #transaction(work: (client: pg.PoolClient) => Promise<void>): Promise<void> {
    const client = await this.#pool.connect()
    try {
      await client.query('begin')
      await work(client)
      await client.query('commit')
    } catch (error) {
      await client.query('rollback')
      throw error
    } finally {
      client.release()
    }
  }
}

async function insert(client: pg.PoolClient, table: string, rows: object[]): Promise<void> {
  if (!rows.length) return
  const columns = Object.keys(rows[0]!)
  await client.query(
    `insert into chain.${table} (${columns}) select ${columns} from jsonb_populate_recordset(null::chain.${table}, $1)`,
    [JSON.stringify(rows)],
  )
}
