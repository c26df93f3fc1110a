// A local chain of the made-up family. Promises: each transaction is signed with the key of its account, and is in one
// block at most, within its lifetime. An account that received something spends no more than that: what it cannot pay
// fails. An account that received nothing is a faucet.
import {z} from 'zod'
import {
  fee,
  genesis,
  hashOf,
  isSigned,
  parseBlock,
  parseTransaction,
  type Transaction,
} from '../../chains/madeup/block.ts'
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

/** What a test wants of waiting transactions, by txid: those that are taken, all by default, and those that fail. */
export const Outcome = z.strictObject({
  only: z.array(z.string()).optional(),
  failed: z.array(z.string()).default([]),
})

/** The transactions of the blocks that replace others; none by default. */
export const Inside = (blocks: number) =>
  z.object({inside: z.array(z.array(z.string())).default(() => Array(blocks).fill([]))})

interface Included extends Transaction {
  height: number
  hash: string
  hasFailed: boolean
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
    const {txid, lifetime} = transaction
    check(transaction)
    if (this.includes(txid)) throw new RangeError(`${txid} is in a block already`)
    if (lifetime.end <= this.head.height) throw new RangeError(`${txid} is past its end, block ${lifetime.end}`)
    if (lifetime.from > this.head.height)
      throw new RangeError(`${txid} names block ${lifetime.from}, which is not there yet`)
    this.#journal.addToPool({txid, raw})
    return txid
  }

  forget(txids: string[]): void {
    this.#journal.removeFromPool(txids)
  }

  /** The first block takes all waiting transactions that it may hold. */
  mine(count = 1, {only, failed = []}: Partial<z.infer<typeof Outcome>> = {}): Head {
    const waiting = this.#journal.pool().filter(({txid}) => only?.includes(txid) ?? true)
    return this.#append(
      Array.from({length: count}, (_, i) => (i ? [] : waiting.map(({raw}) => raw))),
      failed,
    )
  }

  /** Replaces the newest blocks by blocks with these transactions, as far as they may hold them. */
  reorg(depth: number, inside: string[][]): Head {
    for (const raw of inside.flat()) check(parseTransaction(raw))
    this.#blocks = this.#blocks.slice(0, this.#journal.below(depth) + 1)
    this.#journal.countFork()
    return this.#append(inside)
  }

  #append(inside: string[][], toFail: string[] = []): Head {
    const added: string[] = []
    for (const wanted of inside) {
      const before = [...this.#blocks, ...(wanted.length ? added : [])]
      const {height, hash, time} = parseBlock(added.at(-1) ?? this.#blocks.at(-1)!)
      const now = Math.max(time, Date.now())
      const fork = this.#journal.forks
      const taken = takenOf(before, height + 1, wanted, toFail)
      added.push(JSON.stringify({height: height + 1, parentHash: hash, time: now, fork, ...taken}))
    }
    this.#journal.commit(added)
    this.#blocks = [...this.#blocks, ...added]
    const over = this.#journal.pool().filter(({raw}) => parseTransaction(raw).lifetime.end <= this.head.height)
    this.forget(over.map(({txid}) => txid))
    return this.head
  }

  /** In the current blocks. */
  transactions(): Included[] {
    return transactionsIn(this.#blocks)
  }

  includes(txid: string): boolean {
    return this.transactions().some(included => included.txid === txid)
  }

  waits(txid: string): boolean {
    return this.#journal.pool().some(waiting => waiting.txid === txid)
  }

  balance(address: string): bigint {
    return balancesIn(this.#blocks).get(address) ?? 0n
  }

  received(address: string): bigint {
    const outputs = this.transactions().flatMap(({outputs, hasFailed}) => (hasFailed ? [] : outputs))
    return outputs.reduce((sum, {to, amount}) => (to === address ? sum + BigInt(amount) : sum), 0n)
  }
}

function check(transaction: Transaction): void {
  if (!isSigned(transaction)) throw new RangeError(`${transaction.txid} is not signed by ${transaction.from}`)
}

function transactionsIn(blocks: readonly string[]): Included[] {
  return blocks.flatMap(text => {
    const {height, hash, transactions, failed} = parseBlock(text)
    return transactions.map(parseTransaction).map(one => ({...one, height, hash, hasFailed: failed.includes(one.txid)}))
  })
}

type Balances = Map<string, bigint>

/** Of the accounts that received something. */
function balancesIn(blocks: readonly string[]): Balances {
  const balances: Balances = new Map()
  for (const included of transactionsIn(blocks)) book(balances, included)
  return balances
}

function book(balances: Balances, {from, outputs, hasFailed}: Pick<Included, 'from' | 'outputs' | 'hasFailed'>): void {
  const moved = hasFailed ? [] : outputs.map(({to, amount}) => ({to, amount: BigInt(amount)}))
  const left = balances.get(from)
  if (left !== undefined) balances.set(from, left - fee - sumOf(moved))
  for (const {to, amount} of moved) balances.set(to, (balances.get(to) ?? 0n) + amount)
}

const sumOf = (moved: {amount: bigint}[]) => moved.reduce((sum, {amount}) => sum + amount, 0n)

/**
 * What a block of this height takes of these, and which of them fail. It leaves out what it must not hold, and who
 * cannot pay the fee.
 */
function takenOf(blocks: readonly string[], height: number, wanted: string[], toFail: string[]) {
  const transactions: string[] = []
  const failed: string[] = []
  if (!wanted.length) return {transactions, failed}
  const known = new Set(transactionsIn(blocks).map(({txid}) => txid))
  const balances = balancesIn(blocks)
  for (const raw of wanted) {
    const transaction = parseTransaction(raw)
    const {txid, from, lifetime, outputs} = transaction
    const left = balances.get(from)
    if (known.has(txid) || height <= lifetime.from || height > lifetime.end || (left !== undefined && left < fee))
      continue
    const needed = fee + sumOf(outputs.map(({amount}) => ({amount: BigInt(amount)})))
    const hasFailed = toFail.includes(txid) || (left !== undefined && left < needed)
    book(balances, {...transaction, hasFailed})
    known.add(txid)
    transactions.push(raw)
    if (hasFailed) failed.push(txid)
  }
  return {transactions, failed}
}

/** The responses of a node with these blocks. */
export function responseOf(blocks: readonly string[], method: string, params: unknown[]): unknown {
  const each = () => params.map(height => blocks[Number(height)] ?? null)
  const head = {height: blocks.length - 1, hash: hashOf(blocks.at(-1)!)}
  if (method === 'blocks') return each()
  if (method === 'hashes') return each().map(text => text && hashOf(text))
  if (method === 'head') return head
  if (method === 'transaction')
    return {head, height: transactionsIn(blocks).find(({txid}) => txid === params[0])?.height ?? null}
  throw new RangeError(`there is no method ${method}`)
}
