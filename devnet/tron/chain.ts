// A local Tron chain. Promises: real transactions, signatures, ids and roots, by the rules in execute.ts; each
// transaction is in one block at most; what a client saw survives any kill. It differs from a real network in this:
//     blocks come when they are asked for, at any time after the one below, and nobody signs them;
//     the solidified block trails the head by a constant, also where it replaces blocks below it, which a test may ask
//     for;
//     a transaction that cannot be in the next block is forgotten.
import {z} from 'zod'
import {sha256} from '../../chains/tron/address.ts'
import {blockId, type Header, txTrieRoot} from '../../chains/tron/block.ts'
import {parseTransaction, rawOf, reference, type Transaction} from '../../chains/tron/transaction.ts'
import type {Head} from '../client.ts'
import {type Account, Accounts} from './accounts.ts'
import {faucet, faucetBalance, genesis, solidLag} from './constants.ts'
import {execute, type Place, Rejected} from './execute.ts'
import type {Included, LocalBlock, TronJournal} from './journal.ts'

/** What a test wants of the blocks that are made. */
export const Mining = z.strictObject({
  /** The waiting transactions that are taken; all by default. */
  only: z.array(z.string()).optional(),
  /** How much later than now the first block is, in ms. */
  laterMs: z.int().min(0).default(0),
})
export const Reorg = z.strictObject({
  /** The transactions of each new block, in hex. */
  inside: z.array(z.array(z.string())).optional(),
  keepTransactions: z.boolean().default(false),
})

interface Made {
  block: LocalBlock
  changed: ReadonlyMap<string, Account>
}

export class TronLocalChain {
  readonly journal: TronJournal
  readonly #solidLag: number
  /** The accounts after the waiting transactions. */
  #pending: Accounts | undefined
  /**
   * False: what contracts move in the next blocks is not saved, and never shown, as by a node without
   * vm.saveInternalTx.
   */
  savesInternals = true

  constructor(journal: TronJournal, lag = solidLag) {
    this.journal = journal
    this.#solidLag = lag
    if (journal.head) return
    journal.endow(faucet, faucetBalance)
    journal.commit([{block: {hash: blockId(genesis), header: genesis, transactions: []}, changed: new Map()}])
  }

  get head(): Head {
    return this.journal.head!
  }

  get solidHeight(): number {
    return Math.max(0, this.head.height - this.#solidLag)
  }

  block(height: number): LocalBlock {
    const block = this.journal.block(height)
    if (!block) throw new RangeError(`there is no block ${height}`)
    return block
  }

  /** The account after the waiting transactions. */
  account(address: string): Account | undefined {
    return this.#waiting().find(address)
  }

  /** Takes a signed transaction, given in hex. Throws Rejected if the next block must not hold it. */
  submit(raw: string): string {
    const transaction = parseTransaction(Buffer.from(raw, 'hex'))
    const {txid} = transaction
    if (this.journal.heightOf(txid) !== undefined || this.waits(txid))
      throw new Rejected('DUP_TRANSACTION_ERROR', 'it is there already')
    execute(transaction, this.#waiting(), this.#placeAbove(this.head.height))
    this.journal.addToPool({txid, raw: rawOf(transaction)})
    return txid
  }

  waits(txid: string): boolean {
    return this.journal.pool().some(waiting => waiting.txid === txid)
  }

  forget(txids: string[]): void {
    this.journal.removeFromPool(txids)
    this.#pending = undefined
  }

  /** The first block takes what waits. */
  mine(count = 1, options: z.input<typeof Mining> = {}): Head {
    const {only, laterMs} = Mining.parse(options)
    const waiting = this.journal.pool().filter(({txid}) => only?.includes(txid) ?? true)
    const inside = Array.from({length: count}, (_, i) => (i ? [] : waiting.map(({raw}) => raw)))
    return this.#append(this.head.height, inside, laterMs)
  }

  /**
   * Replaces the newest blocks by one more; their transactions are gone, or each is in a block one higher than before.
   * With `inside`, by as many blocks as it has, with these transactions, as far as they may hold them.
   */
  reorg(depth: number, options: z.input<typeof Reorg> = {}): Head {
    const {inside, keepTransactions} = Reorg.parse(options)
    const below = this.journal.below(depth)
    const replaced = Array.from({length: depth}, (_, i) => this.block(below + 1 + i).transactions)
    const again = replaced.map(included =>
      keepTransactions ? included.map(({transaction}) => rawOf(transaction)) : [],
    )
    this.journal.countFork()
    return this.#append(below, inside ?? [[], ...again])
  }

  #append(below: number, inside: string[][], laterMs = 0): Head {
    const made: Made[] = []
    const now = Date.now() + laterMs
    for (const [i, raws] of inside.entries())
      made.push(this.#make(below, made, {raws, earliest: now - 1000 * (inside.length - 1 - i)}))
    this.journal.commit(made)
    this.#pending = undefined
    this.#dropStale()
    return this.head
  }

  #make(below: number, made: Made[], {raws, earliest}: {raws: string[]; earliest: number}): Made {
    const parent = made.at(-1)?.block ?? this.block(below)
    const height = parent.header.height + 1
    const find = (address: string) =>
      made.findLast(({changed}) => changed.has(address))?.changed.get(address) ?? this.journal.account(address, below)
    const accounts = new Accounts(find)
    const known = new Set(made.flatMap(({block}) => block.transactions.map(({transaction}) => transaction.txid)))
    const transactions = raws.flatMap((raw): Included[] => {
      const transaction = parseTransaction(Buffer.from(raw, 'hex'))
      const where = this.journal.heightOf(transaction.txid) ?? Number.POSITIVE_INFINITY
      if (where <= below || known.has(transaction.txid)) return []
      const included = tryToInclude(transaction, accounts, this.#placeAbove(below, made))
      if (included) known.add(transaction.txid)
      return included ? [this.#saved(included)] : []
    })
    const header: Header = {
      ...genesis,
      height,
      parentHash: parent.hash,
      time: Math.max(parent.header.time + 1, earliest),
      txTrieRoot: txTrieRoot(transactions.map(({transaction}) => transaction)),
      witness: witnessOf(height, this.journal.forks),
      version: 31n,
    }
    return {block: {hash: blockId(header), header, transactions}, changed: accounts.changed}
  }

  #saved({transaction, executed}: Included): Included {
    return {transaction, executed: this.savesInternals ? executed : {...executed, internals: []}}
  }

  #placeAbove(below: number, made: Made[] = []): Place {
    const {header} = made.at(-1)?.block ?? this.block(below)
    return {
      parentTime: header.time,
      isOnChain: (refBytes, refHash) => {
        const low = Buffer.from(refBytes).readUInt16BE()
        const height = header.height - ((header.height - low) & 0xffff)
        const hash = height > below ? made[height - below - 1]?.block.hash : this.journal.block(height)?.hash
        return hash !== undefined && Buffer.from(reference(height, hash).refHash).equals(refHash)
      },
    }
  }

  #waiting(): Accounts {
    if (this.#pending) return this.#pending
    const accounts = new Accounts(address => this.journal.account(address, this.head.height))
    for (const {raw} of this.journal.pool())
      tryToInclude(parseTransaction(Buffer.from(raw, 'hex')), accounts, this.#placeAbove(this.head.height))
    this.#pending = accounts
    return accounts
  }

  #dropStale(): void {
    const accounts = new Accounts(address => this.journal.account(address, this.head.height))
    const place = this.#placeAbove(this.head.height)
    const stale = this.journal
      .pool()
      .filter(({raw}) => !tryToInclude(parseTransaction(Buffer.from(raw, 'hex')), accounts, place))
    if (stale.length) this.journal.removeFromPool(stale.map(({txid}) => txid))
  }
}

function tryToInclude(transaction: Transaction, accounts: Accounts, place: Place): Included | undefined {
  try {
    const executed = execute(transaction, accounts, place)
    return {transaction: {...transaction, result: executed.result}, executed}
  } catch (error) {
    if (error instanceof Rejected) return undefined
    throw error
  }
}

/**
 * 27 witnesses in turn; others after each fork, so that an empty block differs from the empty block that it replaces.
 */
function witnessOf(height: number, forks: number): string {
  return `41${sha256(Buffer.from(`witness ${height % 27} ${forks}`))
    .toString('hex')
    .slice(0, 40)}`
}
