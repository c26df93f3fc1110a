// A local Tron chain. Promises: real transactions, signatures, ids and roots, by the rules in execute.ts; each
// transaction is in one block at most; what a client saw survives any kill. It differs from a real network in this:
//     block 1 creates the contracts of contracts.ts first;
//     blocks come when they are asked for, at any time after the one below, and nobody signs them;
//     the solidified block trails the head by a constant, also where it replaces blocks below it, which a test may ask
//     for;
//     a transaction that cannot be in the next block is forgotten.
import {z} from 'zod'
import {sha256} from '../../chains/tron/address.ts'
import {blockId, type Header, txTrieRoot} from '../../chains/tron/block.ts'
import {parseTransaction, rawOf, reference, type Transaction} from '../../chains/tron/transaction.ts'
import type {Head} from '../client.ts'
import {faucet, faucetBalance, genesis, issuer, issuerBalance, solidLag} from './constants.ts'
import {firstTransactions, tokenBalance, tokenBalanceData} from './contracts.ts'
import {execute, type Place} from './execute.ts'
import {ask} from './invoke.ts'
import type {Included, LocalBlock, TronJournal} from './journal.ts'
import {Rejected} from './rejected.ts'
import {type Account, State} from './state.ts'
import type {Surroundings} from './vm/frame.ts'

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
  /** With what it changed. */
  state: State
}

export class TronLocalChain {
  readonly journal: TronJournal
  readonly #solidLag: number
  /** The state after the waiting transactions. */
  #pending: State | undefined
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
    journal.endow(issuer, issuerBalance)
    journal.commit([{block: {hash: blockId(genesis), header: genesis, transactions: []}}])
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

  /** What an address has after the newest block: of a token, given by its contract, or in sun. */
  balance(address: string, token?: string): bigint {
    const {height} = this.head
    const state = this.state(height)
    if (!token) return state.account(address)?.balance ?? 0n
    if (!state.contract(token)) return 0n
    const question = {state, owner: address, txid: new Uint8Array(32), surroundings: this.surroundings(height)}
    return tokenBalance(ask(question, {contract: token, value: 0n, data: tokenBalanceData(address)}).data)
  }

  /** The account after the waiting transactions. */
  account(address: string): Account | undefined {
    return this.#waiting().account(address)
  }

  /** The state after the block at a height. */
  state(height: number): State {
    return new State(this.journal.at(height))
  }

  /** What a contract sees that is asked at a height. */
  surroundings(height: number): Surroundings {
    return this.#surroundings(this.block(height).header, at => this.journal.block(at)?.hash)
  }

  /** What the energy of a contract costs more in the next blocks, in ten-thousandths. */
  energyFactor(contract: string): number {
    return Number(this.journal.meta(`energy_factor ${contract}`) ?? 0)
  }

  setEnergyFactor(contract: string, factor: number): void {
    this.journal.setMeta(`energy_factor ${contract}`, String(factor))
    this.#pending = undefined
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
    this.journal.commit(made.map(({block, state}) => ({block, changed: state})))
    this.#pending = undefined
    this.#dropStale()
    return this.head
  }

  #make(below: number, made: Made[], {raws, earliest}: {raws: string[]; earliest: number}): Made {
    const parent = made.at(-1)?.block ?? this.block(below)
    const height = parent.header.height + 1
    const time = Math.max(parent.header.time + 1, earliest)
    const state = new State(made.at(-1)?.state ?? this.journal.at(below))
    const place = this.#placeAbove(below, {made, time})
    const known = new Set(made.flatMap(({block}) => block.transactions.map(({transaction}) => transaction.txid)))
    const taken = height === 1 ? [...firstTransactions(), ...raws] : raws
    const transactions = taken.flatMap((raw): Included[] => {
      const transaction = parseTransaction(Buffer.from(raw, 'hex'))
      const where = this.journal.heightOf(transaction.txid) ?? Number.POSITIVE_INFINITY
      if (where <= below || known.has(transaction.txid)) return []
      const included = tryToInclude(transaction, state, place)
      if (included) known.add(transaction.txid)
      return included ? [this.#saved(included)] : []
    })
    const header: Header = {
      ...genesis,
      height,
      parentHash: parent.hash,
      time,
      txTrieRoot: txTrieRoot(transactions.map(({transaction}) => transaction)),
      witness: witnessOf(height, this.journal.forks),
      version: 31n,
    }
    return {block: {hash: blockId(header), header, transactions}, state}
  }

  #saved({transaction, executed}: Included): Included {
    if (this.savesInternals || !executed.invoked) return {transaction, executed}
    return {transaction, executed: {...executed, invoked: {...executed.invoked, internals: []}}}
  }

  /** `time` is that of the block to be. */
  #placeAbove(below: number, {made = [], time}: {made?: Made[]; time?: number} = {}): Place {
    const {header} = made.at(-1)?.block ?? this.block(below)
    const hashAt = (height: number) =>
      height > below ? made[height - below - 1]?.block.hash : this.journal.block(height)?.hash
    const height = header.height + 1
    return {
      parentTime: header.time,
      isOnChain: (refBytes, refHash) => {
        const low = Buffer.from(refBytes).readUInt16BE()
        const named = header.height - ((header.height - low) & 0xffff)
        const hash = hashAt(named)
        return hash !== undefined && Buffer.from(reference(named, hash).refHash).equals(refHash)
      },
      surroundings: this.#surroundings(
        {height, time: time ?? header.time, witness: witnessOf(height, this.journal.forks)},
        hashAt,
      ),
    }
  }

  #surroundings(
    {height, time, witness}: Pick<Header, 'height' | 'time' | 'witness'>,
    hashAt: Surroundings['hashAt'],
  ): Surroundings {
    return {height, time, witness, hashAt, energyFactor: contract => this.energyFactor(contract)}
  }

  #waiting(): State {
    if (this.#pending) return this.#pending
    const {state, place} = this.#next()
    for (const {raw} of this.journal.pool()) tryToInclude(parseTransaction(Buffer.from(raw, 'hex')), state, place)
    this.#pending = state
    return state
  }

  /** The state that the first waiting transaction meets. */
  #next(): {state: State; place: Place} {
    const {height} = this.head
    const [state, place] = [this.state(height), this.#placeAbove(height)]
    if (height === 0)
      for (const raw of firstTransactions()) tryToInclude(parseTransaction(Buffer.from(raw, 'hex')), state, place)
    return {state, place}
  }

  #dropStale(): void {
    const {state, place} = this.#next()
    const stale = this.journal
      .pool()
      .filter(({raw}) => !tryToInclude(parseTransaction(Buffer.from(raw, 'hex')), state, place))
    if (stale.length) this.journal.removeFromPool(stale.map(({txid}) => txid))
  }
}

function tryToInclude(transaction: Transaction, state: State, place: Place): Included | undefined {
  try {
    const executed = execute(transaction, state, place)
    return {transaction: {...transaction, result: executed.invoked?.result ?? 'SUCCESS'}, executed}
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
