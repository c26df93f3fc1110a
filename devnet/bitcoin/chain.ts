// A local Bitcoin chain: a node checks blocks, the journal stores them. Blocks are made here (block.ts), committed to
// the journal, and only then given to the node. After every change and at every start the node is made to agree with
// the journal (agreed-node.ts). Promises: the journal is the chain. Changes happen one at a time; each resolves when
// the node and the index show it.
import {EventEmitter} from 'node:events'
import type {Transaction} from 'bitcoinjs-lib'
import {z} from 'zod'
import type {Head} from '../client.ts'
import {RpcError, Turns} from '../engine.ts'
import type {Waiting} from '../sqlite.ts'
import {AgreedNode, batchBlocks, Rejected, Txids} from './agreed-node.ts'
import {displayed, maxWeight} from './block.ts'
import {newBranch} from './branch.ts'
import {type Payee, pay} from './faucet.ts'
import type {BitcoinJournal} from './journal.ts'
import {Ledger, outpointsSpent} from './ledger.ts'
import type {BitcoinNode, NodeKind} from './node.ts'
import {decode, feeOf, ownOutput, replacementOf} from './replacement.ts'

/** Enough for segregated witness to be active on bcoin, and for the faucet to be rich. */
const firstBlocks = 440
const defaultFeeRate = 2

/** What happens to the transactions of replaced blocks. */
export type Fate = 'dropped' | 'unconfirmed' | 'same-height' | 'later'

export interface Reorg {
  transactions?: Fate
  /** Raw transactions for the first new block. */
  include?: string[]
  /** Only these are mined again; the others follow `rest`. */
  only?: string[]
  rest?: 'dropped' | 'unconfirmed'
}

export interface MineOptions {
  only?: string[]
  include?: string[]
  script?: Uint8Array
}

export interface Change {
  /** Scripts whose histories may have changed. */
  touched: Set<string>
  /** Whether the head changed. */
  head: boolean
}

export class BitcoinChain extends EventEmitter<{change: [Change]}> {
  readonly kind: NodeKind
  readonly journal: BitcoinJournal
  readonly ledger = new Ledger()
  readonly #node: AgreedNode
  readonly #turns = new Turns()

  private constructor(kind: NodeKind, directory: string, journal: BitcoinJournal) {
    super()
    this.kind = kind
    this.journal = journal
    this.#node = new AgreedNode({
      kind,
      directory,
      journal,
      onAgreed: () => this.#index(),
      onDeath: () => this.#change(() => this.#node.agree()).catch(() => {}), // a killed node is replaced at once
    })
  }

  /** Continues the chain of the journal, or begins it. */
  static async open(kind: NodeKind, directory: string, journal: BitcoinJournal): Promise<BitcoinChain> {
    const chain = new BitcoinChain(kind, directory, journal)
    try {
      await chain.#change(() => chain.#begin())
    } catch (error) {
      await chain.close()
      throw error
    }
    return chain
  }

  async #begin(): Promise<void> {
    if (!this.journal.head) {
      const node = await this.#node.start()
      const raw = await node.call('getblock', [await node.call('getblockhash', [0]), false])
      this.journal.commit(-1, [Buffer.from(z.string().parse(raw), 'hex')], [])
    }
    await this.#node.agree()
    if (this.head.height < firstBlocks) await this.#mine(firstBlocks - this.head.height, {})
  }

  get head(): Head {
    const {head} = this.journal
    if (!head) throw new Error('the chain has no block yet')
    return head
  }

  // --- reading ---

  /** Calls the node, after the pending changes. Rejects with RpcError if it refuses. */
  async query(method: string, params: unknown[]): Promise<unknown> {
    return await this.#read(node => node.call(method, params))
  }

  /** Passes a request to the node unchanged. */
  async forward(target: string, body?: string): Promise<{status: number; body: Buffer}> {
    return await this.#read(node => node.forward(target, body))
  }

  async #read<T>(work: (node: BitcoinNode) => Promise<T>): Promise<T> {
    const settled = async (node: BitcoinNode) => {
      await this.#turns.over()
      return await work(node)
    }
    return await this.#node.with(settled, () => this.#change(() => this.#node.agree()))
  }

  /** Reads the journal and the index between two changes, so that they agree. */
  async settled<T>(read: () => T): Promise<T> {
    return await this.#turns.take(async () => read())
  }

  /** A block by height or hash, and its transactions. */
  block(key: number | string): {height: number; hash: string; txids: string[]} {
    const found = this.journal.find(key)
    if (!found) throw new RangeError(`the chain has no block ${key}`)
    return {height: found.height, hash: found.hash, txids: this.ledger.block(found.height)!.txids}
  }

  /** The payers, like in bitcoind's getblock with verbosity 3. It works on every node; bcoin lacks that verbosity. */
  withPrevouts(hash: string): object {
    if (!this.journal.find(hash)) throw new RpcError({code: -5, message: 'Block not found'})
    const {txids} = this.block(hash)
    const tx = txids.map(txid => ({
      txid,
      vin: decode(this.journal.rawTransaction(txid)!).ins.map(({hash, index}) => {
        const spent = this.journal.rawTransaction(displayed(hash)) // none for the coinbase
        const script = spent && decode(spent).outs[index]!.script
        return script ? {prevout: {scriptPubKey: {hex: Buffer.from(script).toString('hex')}}} : {}
      }),
    }))
    return {hash, tx}
  }

  // --- transactions ---

  /** Puts raw transactions into the mempool, where they stay until they are mined or replaced. */
  async submit(raw: string, ...more: unknown[]): Promise<string> {
    return await this.#change(() => this.#submit(raw, more))
  }

  async #submit(raw: string, more: unknown[] = []): Promise<string> {
    const transaction = decode(raw)
    const txid = transaction.getId()
    if (this.ledger.unconfirmed(txid)) return txid
    this.journal.addToPool({txid, raw: raw.toLowerCase()})
    try {
      await this.#node.ask('sendrawtransaction', [raw, ...more])
    } catch (error) {
      if (error instanceof RpcError) {
        this.journal.removeFromPool([txid])
        if (this.ledger.unconfirmed(txid)) await this.#node.agree() // the node died in between; the next one got all unconfirmed transactions
      }
      throw error
    }
    if (outpointsSpent(transaction).some(outpoint => this.ledger.spender(outpoint))) await this.#node.agree()
    else {
      this.ledger.addUnconfirmed(raw)
      this.#tell(false)
    }
    return txid
  }

  /** bitcoind's submitpackage; resolves to its response. */
  async submitPackage(raws: string[], ...more: unknown[]): Promise<unknown> {
    return await this.#change(async () => {
      for (const raw of raws) this.journal.addToPool({txid: decode(raw).getId(), raw})
      try {
        return await this.#node.ask('submitpackage', [raws, ...more])
      } finally {
        await this.#node.agree()
      }
    })
  }

  /** Pays from the faucet, in the mempool. Inputs are outpoints of the faucet. */
  async pay(payees: Payee[], {feeRate = defaultFeeRate, inputs = []}: {feeRate?: number; inputs?: string[]}) {
    return await this.#change(async () => {
      const spent = inputs.map(outpoint => ownOutput(this.ledger, outpoint))
      const raw = pay(this.ledger, payees, vsize => feeOf(vsize, feeRate), spent).toHex()
      return {txid: await this.#submit(raw, [0]), raw}
    })
  }

  /**
   * Replaces an unconfirmed transaction of the faucet by one with a higher fee, which pays the same, or the given
   * outputs.
   */
  async replace(txid: string, payees?: Payee[], feeRate?: number): Promise<{txid: string; raw: string}> {
    return await this.#change(async () => {
      const {raw} = replacementOf(txid, this, payees, feeRate)
      return {txid: await this.#submit(raw, [0]), raw}
    })
  }

  /** The transaction that replace would send, without sending it. */
  conflict(txid: string, payees?: Payee[], feeRate?: number): Promise<{txid: string; raw: string}> {
    return this.#change(async () => replacementOf(txid, this, payees, feeRate))
  }

  /** Removes unconfirmed transactions and their descendants from the mempool. */
  async forget(txids: string[]): Promise<void> {
    await this.#change(async () => {
      this.journal.removeFromPool(txids)
      await this.#node.agree()
    })
  }

  // --- blocks ---

  /**
   * Mines this many blocks. The first has `include`, then the unconfirmed transactions, or `only` these. Coinbases pay
   * the faucet, or `script`.
   */
  async mine(count: number, options: MineOptions = {}): Promise<Head> {
    return await this.#change(() => this.#mine(count, options))
  }

  async #mine(count: number, {only, include = [], script}: MineOptions): Promise<Head> {
    const target = this.head.height + count
    let transactions = [...include.map(decode), ...(await this.#toMine(only, include))]
    while (this.head.height < target) {
      const blocks: Buffer[] = []
      const branch = newBranch(this.journal, this.head.height, script)
      while (branch.height < target && blocks.length < batchBlocks) {
        blocks.push(branch.extend(transactions, target - branch.height - 1))
        transactions = []
      }
      await this.#commit(this.head.height, blocks, this.journal.pool())
    }
    return this.head
  }

  async #toMine(only: string[] | undefined, include: string[]): Promise<Transaction[]> {
    const inMempool = new Set(Txids.parse(await this.#node.ask('getrawmempool', [])))
    const waiting = this.journal.pool().filter(({txid}) => inMempool.has(txid) && (only?.includes(txid) ?? true))
    const {kept} = separate(waiting, include)
    let weight = include.reduce((total, raw) => total + decode(raw).weight(), 0)
    return kept
      .map(({raw}) => decode(raw))
      .filter(transaction => {
        weight += transaction.weight()
        return weight <= maxWeight
      })
  }

  /**
   * Replaces the top `depth` blocks by `depth + 1` new ones. Rejects with RangeError unless 1 <= depth <= height of the
   * head.
   */
  async reorg(
    depth: number,
    {transactions = 'dropped', include = [], only, rest = 'dropped'}: Reorg = {},
  ): Promise<Head> {
    return await this.#change(async () => {
      const fork = this.journal.below(depth)
      const mined = this.#transactionsAbove(fork)
      const again = transactions === 'same-height' || transactions === 'later'
      const excluded = mined.filter(({txid}) => !again || (only && !only.includes(txid)))
      const {kept, others} = separate(mined, include, new Set(excluded.map(({txid}) => txid)))
      const shift = transactions === 'later' ? 1 : 0
      const branch = newBranch(this.journal, fork)
      const blocks: Buffer[] = []
      for (let height = fork + 1; height <= fork + depth + 1; height++) {
        const again = kept.filter(one => one.height + shift === height).map(({raw}) => decode(raw))
        const first = height === fork + 1 ? include.map(decode) : []
        blocks.push(branch.extend([...first, ...again], fork + depth + 1 - height))
      }
      const back = transactions === 'unconfirmed' || (again && rest === 'unconfirmed') ? others : []
      await this.#commit(fork, blocks, [...back, ...this.journal.pool()])
      return this.head
    })
  }

  /** Removes the top `depth` blocks without replacing them. */
  async invalidate(
    depth: number,
    {transactions = 'unconfirmed'}: {transactions?: 'dropped' | 'unconfirmed'} = {},
  ): Promise<Head> {
    return await this.#change(async () => {
      const fork = this.journal.below(depth)
      const back = transactions === 'unconfirmed' ? this.#transactionsAbove(fork) : []
      this.journal.countFork()
      await this.#commit(fork, [], [...back, ...this.journal.pool()])
      return this.head
    })
  }

  /** All but coinbases, in the order of the chain. */
  #transactionsAbove(fork: number): (Waiting & {height: number})[] {
    const mined: (Waiting & {height: number})[] = []
    for (let height = fork + 1; height <= this.head.height; height++)
      for (const txid of this.ledger.block(height)!.txids.slice(1))
        mined.push({txid, raw: this.journal.rawTransaction(txid)!, height})
    return mined
  }

  /** Makes the blocks the end of the chain, above `fork`. If the node refuses them, everything stays as before. */
  async #commit(fork: number, blocks: Buffer[], pool: Waiting[]): Promise<void> {
    const before = {pool: this.journal.pool(), blocks: [] as Buffer[]}
    for (let height = fork + 1; height <= this.head.height; height++) before.blocks.push(this.journal.rawBlock(height)!)
    this.journal.commit(fork, blocks, pool)
    try {
      await this.#node.agree()
    } catch (error) {
      if (!(error instanceof Rejected)) throw error
      this.journal.commit(fork, before.blocks, before.pool)
      await this.#node.stop() // a bcoin stays where it left its branch for an invalid one
      await this.#node.agree()
      throw new RangeError(error.message)
    }
  }

  // --- the index ---

  #index(): void {
    const before = this.ledger.block(this.ledger.height)?.hash
    while (this.ledger.height >= 0 && this.#topHash() !== this.journal.find(this.ledger.height)?.hash)
      this.ledger.disconnect()
    while (this.ledger.height < this.head.height) this.ledger.connect(this.journal.rawBlock(this.ledger.height + 1)!)
    this.ledger.setUnconfirmed(this.journal.pool().map(({raw}) => raw))
    this.#tell(this.#topHash() !== before)
  }

  #topHash(): string | undefined {
    return this.ledger.block(this.ledger.height)?.hash
  }

  #tell(head: boolean): void {
    this.emit('change', {touched: this.ledger.takeTouched(), head})
  }

  /** Ends the node. */
  async close(): Promise<void> {
    await this.#node.close(() => this.#turns.over())
  }

  async #change<T>(work: () => Promise<T>): Promise<T> {
    return await this.#turns.take(work)
  }
}

/**
 * Splits transactions into those compatible with `include`, and those that conflict with it, are excluded, or descend
 * from such a one.
 */
function separate<T extends Waiting>(list: T[], include: string[], excluded = new Set<string>()) {
  const taken = new Set(include.flatMap(raw => outpointsSpent(decode(raw))))
  const included = new Set(include.map(raw => decode(raw).getId()))
  const out = new Set(excluded)
  for (const {txid, raw} of list) {
    const spent = outpointsSpent(decode(raw))
    if (included.has(txid) || spent.some(outpoint => taken.has(outpoint) || out.has(outpoint.slice(0, 64))))
      out.add(txid)
  }
  return {kept: list.filter(({txid}) => !out.has(txid)), others: list.filter(({txid}) => out.has(txid))}
}
