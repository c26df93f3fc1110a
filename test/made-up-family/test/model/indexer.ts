// The indexer of the model's chain: it writes blocks with the real SQL as the store does. Finality, a fork below the
// final block, and where a chain begins are the real indexer's own doing. Promises: it writes what the node's chain
// holds, and nothing else, but for the transactions that the node omits; only what is said about absence may be a lie.
import type pg from 'pg'
import {silent} from '../../base/log.ts'
import {ChainCursor, type Cursor} from '../../indexers/cursor.ts'
import type {ChainView} from '../../indexers/family.ts'
import {advanceFinality, finalBlockAtNode} from '../../indexers/finality.ts'
import {type LapseSource, noteLapses} from '../../indexers/lapses.ts'
import {resume} from '../../indexers/resume.ts'
import {type Block, branch, type NodeView, outputsOn, spendsOutputs} from './chain.ts'
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

  /** Transactions that the node leaves out of its blocks, and the lowest block that was written without one. */
  readonly omitted = new Set<string>()
  #missingFrom: number | undefined
  /** The highest block below those that were skipped by an accepted gap. */
  #gapAbove: number | undefined

  /**
   * Where an operator reads again to have all that the node had omitted, or that was skipped; undefined if nothing is
   * missing.
   */
  get missingAbove(): number | undefined {
    const all = [this.#missingFrom === undefined ? undefined : this.#missingFrom - 1, this.#gapAbove]
    const known = all.filter(height => height !== undefined)
    return known.length ? Math.min(...known) : undefined
  }

  async anchor(block: Block): Promise<void> {
    await this.cursor.anchor(network, block.height, block.hash, new Date(block.time))
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

  /**
   * Reads up to so many blocks of the node's chain. False if nothing was written, because nothing is new, or the final
   * block is not on it.
   */
  async read(chain: NodeView, most = Number.POSITIVE_INFINITY): Promise<boolean> {
    const theirs = new Set([...branch(chain.head)])
    let base = this.head
    while (!theirs.has(base)) base = base.parent!
    const all = [...branch(chain.head)].filter(({height}) => height > base.height).reverse()
    // A replacement ends no lower than what it replaces.
    const add = all.slice(0, Math.max(most, this.head.height - base.height))
    if (!add.length || add.at(-1)!.height < this.head.height) return false
    try {
      await this.#write(base, add)
    } catch (error) {
      if ((error as {code?: string}).code === 'SLFRK') return false
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
    for (const block of add) {
      this.seen.set(block.hash, block)
      if (block.included.some(({transaction: {txid}}) => this.omitted.has(txid)))
        this.#missingFrom = Math.min(this.#missingFrom ?? block.height, block.height)
    }
  }

  #block({height, hash, parent, time}: Block): object {
    const {chain} = this.#kind
    return {id: `${chain}:${height}`, chain, height, hash, parent_hash: parent!.hash, time: new Date(time)}
  }

  #at({height, hash, time}: Block): object {
    return {chain: this.#kind.chain, block_height: height, block_hash: hash, block_time: new Date(time)}
  }

  #shown({included}: Block): Block['included'] {
    return included.filter(({transaction: {txid}}) => !this.omitted.has(txid))
  }

  /** What arrived at addresses of ours. */
  transfers(block: Block): object[] {
    const {chain} = this.#kind
    return this.#shown(block).flatMap(({transaction: {txid, from, outputs}, failed}) =>
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
    if (this.#kind.rules === spendsOutputs) return this.#spent(block)
    return this.#shown(block).flatMap(({transaction: {txid, from, feePayer = from, fee, nonce}, failed}) =>
      [...new Set([feePayer, from])].flatMap((account, n) =>
        this.#own.has(account)
          ? [
              {
                id: `${chain}:${txid}${n ? `:${n}` : ''}`,
                ...this.#at(block),
                txid,
                account,
                nonce: nonce ?? null,
                success: !failed,
                fee: String(n ? 0n : fee),
              },
            ]
          : [],
      ),
    )
  }

  /** Which outputs of ours it spends. */
  #spent(block: Block): object[] {
    const {chain} = this.#kind
    const {made} = outputsOn(block)
    return this.#shown(block).flatMap(({transaction: {txid, inputs = [], outputs}}) => {
      const all = inputs.map((outpoint, n) => ({outpoint, n, ...made.get(outpoint)!}))
      const ours = all.filter(({to}) => this.#own.has(to))
      const left = sum(all) - sum(outputs)
      const fee = String(ours.length === all.length ? left : 0n)
      return ours.map(({outpoint, n, to}) => {
        return {id: `${chain}:${txid}:${n}`, ...this.#at(block), txid, account: to, outpoint, success: true, fee}
      })
    })
  }

  /** As the node's statements have it. */
  async finalise(chain: NodeView): Promise<void> {
    await advanceFinality(viewOf(chain), this.cursor)
  }

  /** Whether the node has another block at the height of our final one. */
  async seesForkBelowFinal(chain: NodeView): Promise<boolean> {
    return typeof (await finalBlockAtNode(viewOf(chain), await this.at())) === 'object'
  }

  /** What the indexer does before it reads blocks. False if it does not go on, because the chain is halted. */
  async resumeReading(chain: NodeView): Promise<boolean> {
    const view = viewOf(chain)
    const {cursor} = this
    const halted = Promise.withResolvers<boolean>()
    view.network = async () => {
      if (!(await cursor.read())?.halted) return network
      halted.resolve(false)
      return await new Promise(() => {}) // nothing is asked any more
    }
    const options = {network, networkSettings: '', log: silent(), retryMs: 0}
    return await Promise.race([resume(view, cursor, options).then(() => true), halted.promise])
  }

  /**
   * In a database without the chain, an operator accepts that the blocks above our final one, up to this one, are never
   * read.
   */
  async skipTo(to: Block, chain: NodeView, owner: pg.Pool): Promise<void> {
    const {finalHeight} = await this.at()
    const code = this.#kind.chain
    const {rows} = await owner.query<{finalisation: string}>('select finalisation from chain.cursor where chain = $1', [
      code,
    ])
    const {finalisation} = rows[0]!
    const tables = [`squid_${code.toLowerCase()}.status`, `squid_${code.toLowerCase()}.hot_block`]
    await owner.query(`begin; set local session_replication_role = replica; ${tables.map(table => `delete from ${table};`).join('')}
      delete from chain.block where chain = '${code}'; delete from chain.cursor where chain = '${code}'; commit`)
    await owner.query('select app.accept_gap($1, $2, $3)', [code, to.height + 1, 'operator'])
    await this.resumeReading(chain)
    await owner.query('update chain.cursor set finalisation = $2 where chain = $1', [code, finalisation]) // the service never forgets it
    this.#head = to
    this.seen.set(to.hash, to)
    this.#gapAbove = Math.min(this.#gapAbove ?? finalHeight, finalHeight)
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
    if (this.#missingFrom !== undefined && height < this.#missingFrom) this.#missingFrom = undefined
    if (this.#gapAbove !== undefined && height <= this.#gapAbove) this.#gapAbove = undefined
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

/** The name of the model's network. */
const network = 'model'

/** The node as the real indexer asks it. */
function viewOf(chain: NodeView): ChainView {
  const hashAt = async (height: number) => chain.at(height)?.hash
  return {
    network: async () => network,
    finalBlock: async () => chain.final,
    confirmations: 1,
    hashAt,
    hashesAt: heights => Promise.all(heights.map(hashAt)),
    blockAt: async height => {
      const block = chain.at(height)
      return block && {height, hash: block.hash, time: new Date(block.time)}
    },
    lacks: async () => undefined,
    blockTimes: {medianOf: 1, marginMs: 0},
  }
}

const sum = (all: {amount: bigint}[]): bigint => all.reduce((sum, {amount}) => sum + amount, 0n)

async function insert(client: pg.PoolClient, table: string, rows: object[]): Promise<void> {
  if (!rows.length) return
  const columns = Object.keys(rows[0]!)
  await client.query(
    `insert into chain.${table} (${columns}) select ${columns} from jsonb_populate_recordset(null::chain.${table}, $1)`,
    [JSON.stringify(rows)],
  )
}
