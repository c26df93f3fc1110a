// A local Solana chain. Promises: real transactions, signatures and programs (litesvm); each transaction is in one
// block at most; a blockhash is good for as many blocks as on a network; what a client saw survives any kill. It
// differs from a real network in this:
//     blocks come when they are asked for, nobody signs them or votes, and no fee goes to anybody; a slot is skipped
//     when a test asks for it;
//     the newest block is confirmed at once, or a constant later; the finalized block trails it by a constant, also
//     where blocks below it are
//     replaced, which a test may ask for;
//     a blockhash is a hash of the block below, the slot and the transactions' ids, and not of entries;
//     a transaction waits until it fits into a block or its blockhash is too old, and nobody forgets it before; no
//     lookup table is checked for its age;
//     there are no nonces, epochs and rewards, and no transactions of version 1;
//     a balance is known at every commitment, also where a network knows those of the newest blocks alone.
import {getAddressDecoder} from '@solana/kit'
import {z} from 'zod'
import type {Head} from '../client.ts'
import {faucet, faucetBalance, finalLag, genesisHash, hashOf, zeroHash} from './constants.ts'
import type {Account, Changes, Included, LocalBlock, SolanaJournal} from './journal.ts'
import {Machine, Rejected} from './machine.ts'
import {firstAccounts, heldBy, type LocalToken} from './tokens.ts'
import {parseTransaction, type Transaction} from './transaction.ts'

/** What a test wants of the blocks that are made. */
export const Mining = z.strictObject({
  /** The waiting transactions that are taken; all by default. */
  only: z.array(z.string()).optional(),
  /** This many slots are skipped before the first block. */
  skip: z.int().min(0).default(0),
})
export const Reorg = z.strictObject({
  /** The transactions of each new block, in base64. */
  inside: z.array(z.array(z.string())).optional(),
  keepTransactions: z.boolean().default(false),
})

interface Options {
  /** How many blocks the newest confirmed one is below the newest. */
  confirmed: number
  finalized: number
  /**
   * The last block that may hold a transaction is this much above that of its blockhash: its age is checked against the
   * block below.
   */
  validFor: number
  /**
   * Lamports for each byte of an account, twice a year: on the network since 2026, where an account without data needs
   * 650 240.
   */
  rent: bigint
}

const usual: Options = {confirmed: 0, finalized: finalLag, validFor: 151, rent: 5080n}
/** Slots begin above heights, so that nothing takes one for the other. */
const firstSlot = 1000
const systemProgram = zeroHash

const wallet = (lamports: bigint): Account => ({
  lamports,
  data: new Uint8Array(),
  owner: systemProgram,
  executable: false,
})

const keyAt = (data: Uint8Array, at: number) => getAddressDecoder().decode(data, at) as string

interface Made {
  block: LocalBlock
  changes: Changes
}

export class SolanaLocalChain {
  readonly journal: SolanaJournal
  readonly #options: Options
  /** Has the accounts after the newest block; undefined: it must be made. */
  #machine: Machine | undefined
  /** Called with each new newest block. */
  onBlock: (block: LocalBlock) => void = () => {}

  constructor(journal: SolanaJournal, options: Partial<Options> = {}) {
    this.journal = journal
    this.#options = {...usual, ...options}
    const first = new Map([[faucet, wallet(faucetBalance)], ...firstAccounts()])
    if (journal.head) this.#endowMissing(first)
    else this.#begin(first)
  }

  #begin(accounts: Map<string, Account>): void {
    const block = {
      height: 0,
      slot: 0,
      hash: genesisHash,
      parentSlot: 0,
      parentHash: zeroHash,
      time: 0,
      transactions: [],
    }
    this.journal.commit([{block, changes: accounts}], firstSlot)
  }

  /** A chain of an earlier version lacks accounts that every chain has from its first block on now. */
  #endowMissing(accounts: Map<string, Account>): void {
    for (const [address, account] of accounts)
      if (!this.journal.hasChanged(address)) this.journal.endow(address, account)
  }

  /** The token accounts of an owner, at the newest block or one below it, with their addresses. */
  tokenAccounts(owner: string, mint: string, height = this.head.height): [string, Account][] {
    const belongs = ({owner: program, data}: Account) =>
      program.startsWith('Token') && data.length >= 165 && keyAt(data, 0) === mint && keyAt(data, 32) === owner
    return this.journal.accounts(height).filter(([, account]) => account && belongs(account))
  }

  get head(): Head {
    return this.journal.head!
  }

  /** The newest block at a commitment. */
  heightAt(commitment: 'processed' | 'confirmed' | 'finalized'): number {
    const lag = commitment === 'processed' ? 0 : this.#options[commitment]
    return Math.max(0, this.head.height - lag)
  }

  block(height: number): LocalBlock {
    const block = this.journal.block(height)
    if (!block) throw new RangeError(`there is no block ${height}`)
    return block
  }

  /** At the newest block, or one below it. */
  account(address: string, height = this.head.height): Account | undefined {
    return this.journal.account(address, height) ?? this.#builtIn(address)
  }

  rentMinimum(bytes: number): bigint {
    return this.#current().rentMinimum(bytes)
  }

  parse(raw: Uint8Array): Transaction {
    return parseTransaction(raw, address => this.account(address)?.data)
  }

  /** The last block that may hold a transaction with this blockhash; undefined if the hash is none of the chain. */
  lastBlockFor(blockhash: string): number | undefined {
    const height = this.journal.heightOfHash(blockhash)
    return height === undefined ? undefined : height + this.#options.validFor
  }

  /**
   * Throws Rejected if the next block must not hold the transaction, or it would fail there; if that is asked, whoever
   * signed it and whichever block it names.
   */
  check(transaction: Transaction, {signatures = true, blockhash = true} = {}): void {
    if (blockhash) this.#assertFits(transaction, this.head.height, [])
    this.#current().simulate(transaction, signatures)
  }

  /** Takes a transaction, unchecked. Returns its id. */
  submit(raw: Uint8Array): string {
    const transaction = this.parse(raw)
    const {txid} = transaction
    if (this.journal.heightOf(txid) === undefined)
      this.journal.addToPool({txid, raw: Buffer.from(raw).toString('base64')})
    return txid
  }

  /** Whether a waiting transaction has the address among its keys. */
  waitsFor(address: string): boolean {
    return this.journal.pool().some(({raw}) => this.parse(Buffer.from(raw, 'base64')).keys.includes(address))
  }

  forget(txids: string[]): void {
    this.journal.removeFromPool(txids)
  }

  /** The first block takes what waits. */
  mine(count = 1, options: z.input<typeof Mining> = {}): Head {
    const {only, skip} = Mining.parse(options)
    const waiting = this.journal.pool().filter(({txid}) => only?.includes(txid) ?? true)
    const inside = Array.from({length: count}, (_, i) => (i ? [] : waiting.map(({raw}) => raw)))
    return this.#append(this.head.height, inside, skip)
  }

  /**
   * Replaces the newest blocks by one more, in later slots; their own slots are then skipped. Their transactions are
   * gone, or each is in a block one higher than before. With `inside`, by as many blocks as it has, with these
   * transactions, as far as they may hold them.
   */
  reorg(depth: number, options: z.input<typeof Reorg> = {}): Head {
    const {inside, keepTransactions} = Reorg.parse(options)
    const below = this.journal.below(depth)
    const replaced = Array.from({length: depth}, (_, i) => this.block(below + 1 + i).transactions)
    const again = replaced.map(included =>
      keepTransactions ? included.map(({raw}) => Buffer.from(raw).toString('base64')) : [],
    )
    this.#machine = undefined
    return this.#append(below, inside ?? [[], ...again])
  }

  /** Gives an account that no block has changed a balance, as if it had been there from the first block on. */
  endow(address: string, lamports: bigint): void {
    this.journal.endow(address, wallet(lamports))
    this.#machine?.set(address, wallet(lamports))
  }

  /** The same of its associated account, with so much of a token. */
  endowTokens(token: LocalToken, owner: string, amount: bigint): void {
    const [at, account] = heldBy(token, owner, amount)
    this.journal.endow(at, account)
    this.#machine?.set(at, account)
  }

  /** No blocks: slots pass. */
  skip(slots: number): void {
    this.journal.setMeta('slot', String(this.journal.lastSlot + slots))
  }

  /** What an owner has of a mint in the newest block, in all its accounts. */
  tokenBalance(owner: string, mint: string): bigint {
    const held = this.tokenAccounts(owner, mint)
    return held.reduce((sum, [, {data}]) => sum + Buffer.from(data).readBigUInt64LE(64), 0n)
  }

  #current(): Machine {
    this.#machine ??= this.#machineAt(this.head.height)
    return this.#machine
  }

  #machineAt(height: number): Machine {
    return new Machine(this.journal.accounts(height), this.#options.rent)
  }

  /** Programs, and what else is there without a block. */
  #builtIn(address: string): Account | undefined {
    return this.journal.hasChanged(address) ? undefined : this.#current().get(address)
  }

  #append(below: number, inside: string[][], skip = 0): Head {
    const machine = this.#machine ?? this.#machineAt(below)
    this.#machine = undefined // until all is committed
    const made: Made[] = []
    for (const raws of inside) {
      const slot = (made.at(-1)?.block.slot ?? this.journal.lastSlot + skip) + 1
      made.push(this.#make(machine, made.at(-1)?.block ?? this.block(below), {made, raws, slot}))
    }
    this.journal.commit(made)
    this.#machine = machine
    this.#dropStale()
    this.onBlock(made.at(-1)!.block)
    return this.head
  }

  #make(machine: Machine, parent: LocalBlock, {made, raws, slot}: {made: Made[]; raws: string[]; slot: number}): Made {
    const time = Math.max(parent.time, Math.floor(Date.now() / 1000))
    machine.setTime(slot, time)
    const known = made.flatMap(({block}) => block.transactions.map(({txid}) => txid))
    const parsed: Transaction[] = []
    const transactions = raws.flatMap((text): Included[] => {
      const raw = Buffer.from(text, 'base64')
      const transaction = this.parse(raw)
      const executed = this.#tryIn(machine, transaction, parent.height, {known, made})
      if (!executed) return []
      known.push(transaction.txid)
      parsed.push(transaction)
      return [{...executed, raw: new Uint8Array(raw)}]
    })
    const ids = transactions.map(({txid}) => txid).join()
    const block: LocalBlock = {
      height: parent.height + 1,
      slot,
      hash: hashOf(`${parent.hash} ${slot} ${ids}`),
      parentSlot: parent.slot,
      parentHash: parent.hash,
      time,
      transactions,
    }
    return {block, changes: machine.changes(parsed)}
  }

  #tryIn(
    machine: Machine,
    transaction: Transaction,
    parent: number,
    {known, made}: {known: string[]; made: Made[]},
  ): Omit<Included, 'raw'> | undefined {
    try {
      this.#assertFits(transaction, parent, made, known)
      return machine.execute(transaction)
    } catch (error) {
      if (error instanceof Rejected) return undefined
      throw error
    }
  }

  /** Blocks above the first one of `made` count no more. */
  #assertFits({txid, message}: Transaction, parent: number, made: Made[], known: string[] = []): void {
    const base = made[0] ? made[0].block.height - 1 : parent
    const height = this.journal.heightOf(txid)
    if (known.includes(txid) || (height !== undefined && height <= base)) throw new Rejected('AlreadyProcessed')
    const found = this.journal.heightOfHash(message.lifetimeToken)
    const isBelow = found !== undefined && found <= base
    const named = isBelow ? found : made.find(({block}) => block.hash === message.lifetimeToken)?.block.height
    if (named === undefined || parent + 1 > named + this.#options.validFor) throw new Rejected('BlockhashNotFound')
  }

  #dropStale(): void {
    const stale = this.journal.pool().filter(({raw}) => {
      const last = this.lastBlockFor(this.parse(Buffer.from(raw, 'base64')).message.lifetimeToken)
      return last === undefined || last <= this.head.height
    })
    if (stale.length) this.journal.removeFromPool(stale.map(({txid}) => txid))
  }
}
