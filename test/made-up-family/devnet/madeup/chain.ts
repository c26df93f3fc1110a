// A local chain of the made-up family. Promises: each transaction is signed with the key of its account, and an account sends
// only one.
import {genesis, hashOf, isSigned, parseBlock, parseTransaction, type Transaction} from '../../chains/madeup/block.ts'
import type {Head} from '../client.ts'
import {JournalFile} from '../sqlite.ts'

export class MadeUpJournal extends JournalFile {
  constructor(file: string, chain: string) {
    super(file, chain, {block: ['text text not null'], included: []})
  }

  /** By height. */
  blocks(): string[] {
    return this.statement('select text from block order by height')
      .all()
      .map(({text}) => String(text))
  }

  /** Makes blocks the end of the chain, from their first height on. */
  commit(texts: string[]): void {
    const blocks = texts.map(parseBlock)
    this.transaction(() => {
      this.cut(blocks[0]!.height - 1)
      for (const [i, {height, hash, time, transactions}] of blocks.entries()) {
        this.insertBlock(height, hash, Math.floor(time / 1000), texts[i]!)
        for (const raw of transactions) this.insertIncluded(parseTransaction(raw).txid, height)
      }
    })
    this.readHead()
  }
}

export class MadeUpLocalChain {
  readonly #journal: MadeUpJournal
  #blocks: readonly string[]

  constructor(journal: MadeUpJournal) {
    this.#journal = journal
    if (!journal.head) journal.commit([genesis])
    this.#blocks = journal.blocks()
  }

  /** The texts of the blocks by height; replaced, never changed. */
  get blocks(): readonly string[] {
    return this.#blocks
  }

  get head(): Head {
    return this.#journal.head!
  }

  submit(raw: string): string {
    const transaction = parseTransaction(raw)
    check(transaction)
    if (this.#hasSpent(transaction)) throw new RangeError(`${transaction.from} has sent something already`)
    this.#journal.addToPool({txid: transaction.txid, raw})
    return transaction.txid
  }

  forget(txids: string[]): void {
    this.#journal.removeFromPool(txids)
  }

  /** The first block takes all waiting transactions. */
  mine(count = 1): Head {
    const waiting = this.#journal.pool().map(({raw}) => raw)
    return this.#append(Array.from({length: count}, (_, i) => (i ? [] : waiting)))
  }

  /** Replaces the newest blocks by blocks with these transactions. */
  reorg(depth: number, inside: string[][]): Head {
    for (const raw of inside.flat()) check(parseTransaction(raw))
    this.#blocks = this.#blocks.slice(0, this.#journal.below(depth) + 1)
    this.#journal.countFork()
    return this.#append(inside)
  }

  #append(inside: string[][]): Head {
    const added: string[] = []
    for (const transactions of inside) {
      const {height, hash, time} = parseBlock(added.at(-1) ?? this.#blocks.at(-1)!)
      const now = Math.max(time, Date.now())
      const fork = this.#journal.forks
      added.push(JSON.stringify({height: height + 1, parentHash: hash, time: now, fork, transactions}))
    }
    this.#journal.commit(added)
    this.#blocks = [...this.#blocks, ...added]
    const excluded = this.#journal.pool().filter(({raw}) => this.#hasSpent(parseTransaction(raw)))
    this.forget(excluded.map(({txid}) => txid))
    return this.head
  }

  #hasSpent({from}: Transaction): boolean {
    return this.transactions().some(transaction => transaction.from === from)
  }

  /** In the current blocks. */
  transactions(): (Transaction & {height: number; hash: string})[] {
    return this.#blocks.flatMap(text => {
      const {height, hash, transactions} = parseBlock(text)
      return transactions.map(raw => ({...parseTransaction(raw), height, hash}))
    })
  }

  waits(txid: string): boolean {
    return this.#journal.pool().some(waiting => waiting.txid === txid)
  }

  received(address: string): bigint {
    const outputs = this.transactions().flatMap(transaction => transaction.outputs)
    return outputs.reduce((sum, {to, amount}) => (to === address ? sum + BigInt(amount) : sum), 0n)
  }
}

function check(transaction: Transaction): void {
  if (!isSigned(transaction)) throw new RangeError(`${transaction.txid} is not signed by ${transaction.from}`)
}

/** The responses of a node with these blocks. */
export function responseOf(blocks: readonly string[], method: string, heights: unknown[]): unknown {
  const each = heights.map(height => blocks[Number(height)] ?? null)
  if (method === 'blocks') return each
  if (method === 'hashes') return each.map(text => text && hashOf(text))
  if (method === 'head') return {height: blocks.length - 1, hash: hashOf(blocks.at(-1)!)}
  throw new RangeError(`there is no method ${method}`)
}
