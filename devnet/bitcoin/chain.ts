// A local Bitcoin chain: a node checks blocks, the journal stores them. Blocks are made here (block.ts), committed to
// the journal, and only then given to the node. After every change and at every start the node is made to agree with
// the journal: missing blocks are submitted, extra ones are invalidated, and its mempool gets exactly the unconfirmed
// transactions. So both a bitcoind that lost unwritten blocks to kill -9 and a bcoin that has only its memory return
// with the state that clients saw. Promises: the journal is the chain. Changes happen one at a time; each resolves when
// the node and the index show it.
import {EventEmitter} from 'node:events'
import {Transaction} from 'bitcoinjs-lib'
import {z} from 'zod'
import {scripthashOf} from '../../chains/bitcoin/script.ts'
import type {Head} from '../client.ts'
import {EngineGone, RpcError, Turns} from '../engine.ts'
import type {Waiting} from '../sqlite.ts'
import {displayed, hashOf, makeBlock, maxWeight} from './block.ts'
import {faucet, isOurs, type Payee, pay} from './faucet.ts'
import type {BitcoinJournal} from './journal.ts'
import {Ledger, type Output, outpointsSpent} from './ledger.ts'
import {BitcoinNode, type NodeKind} from './node.ts'

/** Enough for segregated witness to be active on bcoin, and for the faucet to be rich. */
const firstBlocks = 440
const commitBlocks = 50
const medianBlocks = 11
const attempts = 3
const defaultFeeRate = 2

const Txids = z.array(z.string())

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

/** The node refuses a block. */
class Rejected extends Error {}

export class BitcoinChain extends EventEmitter<{change: [Change]}> {
  readonly kind: NodeKind
  readonly journal: BitcoinJournal
  readonly ledger = new Ledger()
  readonly #directory: string
  #node: BitcoinNode | undefined
  readonly #turns = new Turns()
  #closed = false

  private constructor(kind: NodeKind, directory: string, journal: BitcoinJournal) {
    super()
    this.kind = kind
    this.#directory = directory
    this.journal = journal
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
      const node = await this.#start()
      const raw = await node.call('getblock', [await node.call('getblockhash', [0]), false])
      this.journal.commit(-1, [Buffer.from(z.string().parse(raw), 'hex')], [])
    }
    await this.#settle()
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
    for (let attempt = 1; ; attempt++) {
      await this.#turns.over()
      try {
        if (!this.#node?.alive) await this.#change(() => this.#settle())
        return await work(this.#node!)
      } catch (error) {
        if (!(error instanceof EngineGone) || attempt === attempts || this.#closed) throw error
        await this.#node?.kill()
      }
    }
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
      await this.#ask('sendrawtransaction', [raw, ...more])
    } catch (error) {
      if (error instanceof RpcError) {
        this.journal.removeFromPool([txid])
        if (this.ledger.unconfirmed(txid)) await this.#settle() // the node died in between; the next one got all unconfirmed transactions
      }
      throw error
    }
    if (outpointsSpent(transaction).some(outpoint => this.ledger.spender(outpoint))) await this.#settle()
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
        return await this.#ask('submitpackage', [raws, ...more])
      } finally {
        await this.#settle()
      }
    })
  }

  /** Pays from the faucet, in the mempool. Inputs are outpoints of the faucet. */
  async pay(payees: Payee[], {feeRate = defaultFeeRate, inputs = []}: {feeRate?: number; inputs?: string[]}) {
    return await this.#change(async () => {
      const spent = inputs.map(outpoint => this.#ours(outpoint))
      const raw = pay(this.ledger, payees, vsize => feeOf(vsize, feeRate), spent).toHex()
      return {txid: await this.#submit(raw, [0]), raw}
    })
  }

  #ours(outpoint: string): Output {
    const output = this.ledger.output(outpoint)
    if (!output || !isOurs(output)) throw new RangeError(`${outpoint} is not an unspent output of the faucet`)
    return output
  }

  /**
   * Replaces an unconfirmed transaction of the faucet by one with a higher fee, which pays the same, or the given
   * outputs.
   */
  async replace(txid: string, payees?: Payee[], feeRate?: number): Promise<{txid: string; raw: string}> {
    return await this.#change(async () => {
      const {raw} = this.#conflict(txid, payees, feeRate)
      return {txid: await this.#submit(raw, [0]), raw}
    })
  }

  /** The transaction that replace would send, without sending it. */
  conflict(txid: string, payees?: Payee[], feeRate?: number): Promise<{txid: string; raw: string}> {
    return this.#change(async () => this.#conflict(txid, payees, feeRate))
  }

  #conflict(txid: string, payees?: Payee[], feeRate?: number): {txid: string; raw: string} {
    const known = this.journal.rawTransaction(txid)
    if (known === undefined) throw new RangeError(`the chain and its mempool have no transaction ${txid}`)
    const old = decode(known)
    const spent = outpointsSpent(old).flatMap(outpoint => this.#output(outpoint) ?? [])
    const inputs = spent.filter(isOurs)
    if (inputs.length === 0) throw new RangeError(`${txid} has no input of the faucet`)
    const outputs = old.outs.map(({script, value}) => ({script, amount: value}))
    const isChange = ({script}: Payee) => Buffer.compare(script, faucet.script) === 0
    const oldFee = spent.reduce((sum, {value}) => sum + value, 0n) - outputs.reduce((sum, {amount}) => sum + amount, 0n)
    const oldRate = Number(oldFee) / old.virtualSize()
    const fee = (vsize: number) => (feeRate ? feeOf(vsize, feeRate) : oldFee + feeOf(vsize, oldRate + 2))
    const transaction = pay(this.ledger, payees ?? outputs.filter(output => !isChange(output)), fee, inputs)
    return {txid: transaction.getId(), raw: transaction.toHex()}
  }

  /** An output of any known transaction, spent or not. */
  #output(outpoint: string): Output | undefined {
    const [txid, vout] = outpoint.split(':')
    const raw = this.journal.rawTransaction(txid!)
    const output = raw && decode(raw).outs[Number(vout)]
    if (!output) return undefined
    return {outpoint, scripthash: scripthashOf(output.script), value: output.value, height: 0, coinbase: false}
  }

  /** Removes unconfirmed transactions and their descendants from the mempool. */
  async forget(txids: string[]): Promise<void> {
    await this.#change(async () => {
      this.journal.removeFromPool(txids)
      await this.#settle()
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
      const branch = this.#branch(this.head.height, script)
      while (branch.height < target && blocks.length < commitBlocks) {
        blocks.push(branch.extend(transactions, target - branch.height - 1))
        transactions = []
      }
      await this.#commit(this.head.height, blocks, this.journal.pool())
    }
    return this.head
  }

  async #toMine(only: string[] | undefined, include: string[]): Promise<Transaction[]> {
    const inMempool = new Set(Txids.parse(await this.#ask('getrawmempool', [])))
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
      const branch = this.#branch(fork)
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

  /** Makes blocks, each on the one before, the first on the chain's block at `height`. */
  #branch(height: number, script = faucet.script) {
    if (height < this.head.height) this.journal.countFork()
    const {forks: fork} = this.journal
    let parent = {height, hash: this.journal.find(height)!.hash}
    const times = Array.from({length: Math.min(height + 1, medianBlocks)}, (_, i) => {
      return this.journal.find(height - i)!.timestamp
    }).reverse()
    return {
      get height() {
        return parent.height
      },
      /** `after` more blocks follow: their times end with now, or run ahead of it. */
      extend(transactions: Transaction[], after: number): Buffer {
        const recent = times.slice(-medianBlocks).sort((a, b) => a - b)
        const median = recent[Math.floor(recent.length / 2)]!
        const timestamp = Math.max(median + 1, Math.floor(Date.now() / 1000) - after)
        const block = makeBlock({parent, timestamp, script, fork, transactions})
        times.push(timestamp)
        parent = {height: parent.height + 1, hash: hashOf(block)}
        return block
      },
    }
  }

  /** Makes the blocks the end of the chain, above `fork`. If the node refuses them, everything stays as before. */
  async #commit(fork: number, blocks: Buffer[], pool: Waiting[]): Promise<void> {
    const before = {pool: this.journal.pool(), blocks: [] as Buffer[]}
    for (let height = fork + 1; height <= this.head.height; height++) before.blocks.push(this.journal.rawBlock(height)!)
    this.journal.commit(fork, blocks, pool)
    try {
      await this.#settle()
    } catch (error) {
      if (!(error instanceof Rejected)) throw error
      this.journal.commit(fork, before.blocks, before.pool)
      await this.#node?.stop() // a bcoin stays where it left its branch for an invalid one
      await this.#settle()
      throw new RangeError(error.message)
    }
  }

  // --- the node ---

  /** Makes the node and the index agree with the journal, and notifies of changes. */
  async #settle(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#agree(this.#node?.alive ? this.#node : await this.#start())
        break
      } catch (error) {
        if (!(error instanceof EngineGone) || attempt === attempts || this.#closed) throw error
        await this.#node?.kill()
      }
    }
    this.#index()
  }

  async #agree(given: BitcoinNode): Promise<void> {
    let node = given
    await this.#agreeOnBlocks(node)
    const waiting = this.journal.pool()
    let has = new Set(Txids.parse(await node.call('getrawmempool', [])))
    const ours = new Set(waiting.map(({txid}) => txid))
    const surplus = [...has].filter(txid => !ours.has(txid))
    if (surplus.length && !(await node.forget(surplus))) {
      await node.stop()
      node = await this.#start()
      await this.#agreeOnBlocks(node)
      has = new Set()
    }
    if (waiting.every(({txid}) => has.has(txid))) return
    for (const {txid, raw} of waiting) if (!has.has(txid)) await offer(node, raw)
    has = new Set(Txids.parse(await node.call('getrawmempool', [])))
    this.journal.removeFromPool(waiting.map(({txid}) => txid).filter(txid => !has.has(txid)))
  }

  async #agreeOnBlocks(node: BitcoinNode): Promise<void> {
    const {height: top, hash} = this.head
    const hashAt = async (height: number) => await node.call('getblockhash', [height])
    const height = async () => z.int().parse(await node.call('getblockcount', []))
    while ((await node.call('getbestblockhash', [])) !== hash) {
      let common = Math.min(await height(), top)
      while ((await hashAt(common)) !== this.journal.find(common)!.hash) common--
      for (let from = common + 1; from <= top; from += commitBlocks) {
        const heights = Array.from({length: Math.min(commitBlocks, top - from + 1)}, (_, i) => from + i)
        const refused = await node.submitBlocks(heights.map(height => this.journal.rawBlock(height)!.toString('hex')))
        if (refused) throw new Rejected(`the node refuses a block up to height ${top}: ${refused}`)
      }
      if ((await node.call('getbestblockhash', [])) === hash) return
      if ((await height()) < top) throw new Rejected(`the node refuses the blocks from height ${common + 1} on`)
      // The node has its own branch that is as long as ours or longer, and there may be another one behind that.
      await node.call('invalidateblock', [await hashAt(common + 1)])
    }
  }

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

  async #ask(method: string, params: unknown[]): Promise<unknown> {
    for (let attempt = 1; ; attempt++) {
      try {
        if (!this.#node?.alive) await this.#settle()
        return await this.#node!.call(method, params)
      } catch (error) {
        if (!(error instanceof EngineGone) || attempt === attempts || this.#closed) throw error
        await this.#node?.kill()
      }
    }
  }

  async #start(): Promise<BitcoinNode> {
    if (this.#closed) throw new EngineGone('the chain is closed')
    await this.#node?.kill()
    const node = await BitcoinNode.start(this.#directory, this.kind)
    this.#node = node
    node.onExit(() => {
      // A killed node is replaced at once.
      if (this.#node === node && !this.#closed) this.#change(() => this.#settle()).catch(() => {})
    })
    if (this.#closed) await node.kill()
    return node
  }

  /** Ends the node. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#node?.stop()
    await this.#turns.over()
    await this.#node?.kill()
  }

  async #change<T>(work: () => Promise<T>): Promise<T> {
    return await this.#turns.take(work)
  }
}

/** Sends a transaction to the mempool. Ignores a refusal: it may be invalid by now. */
async function offer(node: BitcoinNode, raw: string): Promise<void> {
  try {
    await node.call('sendrawtransaction', [raw, 0])
  } catch (error) {
    if (!(error instanceof RpcError)) throw error
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

function decode(raw: string): Transaction {
  try {
    return Transaction.fromHex(raw)
  } catch {
    throw new RpcError({code: -22, message: 'TX decode failed. Make sure the tx has at least one input.'})
  }
}

function feeOf(vsize: number, rate: number): bigint {
  return BigInt(Math.ceil(vsize * rate))
}
