// The chain of the model: a tree of blocks, and what its nodes know. It is the truth that the model compares with.
// Promises: a block holds a transaction only if the rules of its family allow it there; a branch holds no transaction
// twice; nothing is forgotten, so a block that left may be looked at.
import {createHash} from 'node:crypto'
import {base58} from '@scure/base'

export interface Output {
  to: string
  token: string
  amount: bigint
}

/** A transaction as the network sees it. */
export interface Transaction {
  txid: string
  raw: string
  /** The address that signs it, and pays the fee unless another one does, which signs, too. */
  from: string
  feePayer?: string
  fee: bigint
  /** The most that the fee may be: its sender must have it. */
  mostFee?: bigint
  outputs: Output[]
  /** It lends an address so much of its sender's stake, or takes that back (negative). */
  lends?: {to: string; amount: bigint}
  /** It can be in a block, and moves nothing there. */
  alwaysFails?: boolean
  /** What it pays besides if it is the first one that pays its recipient in this token. */
  rent?: bigint
  /** Where transactions expire. */
  lifetime?: {from: number; end: number}
  /** Where they name a block below them; absent: none that ever was. */
  named?: Block | undefined
  /** Where nonces exclude. */
  nonce?: number
  /** Where outputs exclude: what it spends, as txid:index. It pays what its outputs leave of that. */
  inputs?: string[]
}

export interface Included {
  transaction: Transaction
  /** It moved nothing, and cost its fee. */
  failed: boolean
}

export interface Block {
  height: number
  hash: string
  parent: Block | undefined
  /** In ms; it never falls. */
  time: number
  included: Included[]
}

/** What the rules of a family say about one transaction. */
export interface Rules {
  /**
   * Why no block directly above `parent` can hold it; undefined if one can. `block` is that block, as far as it is
   * filled.
   */
  refuses(parent: Block, transaction: Transaction, block: Block | undefined): string | undefined
  /** Whether some block above `final`, on whatever branch, can still hold it; the branch up to `final` holds it not. */
  mayFollow(final: Block, transaction: Transaction): boolean
  /**
   * How many blocks above `head` the last one is that may hold it, if blocks come each second; undefined if there is no
   * last one.
   */
  lastAfter(head: Block, transaction: Transaction): number | undefined
  /** What it costs in a block, as far as that is filled; absent: its fee, wherever it is. */
  feeIn?(block: Block, transaction: Transaction): bigint
  /** The hash of a block, from 32 bytes in hex; absent: these. */
  hash?(hex: string): string
  /** Whether a block may hold what its sender cannot pay: it fails, and costs its fee. */
  holdsUnpayable: boolean
  /** Whether a transaction in a block may have failed. */
  fails: boolean
}

export const secondMs = 1000

const isEarly = (parent: Block, {lifetime}: Transaction) => parent.height < lifetime!.from

/** The last block that may hold a transaction has its end as height. */
export const endsByHeight: Rules = {
  refuses: (parent, transaction) => {
    if (isEarly(parent, transaction)) return 'it is not valid yet'
    return parent.height + 1 > transaction.lifetime!.end ? 'it has expired' : undefined
  },
  mayFollow: (final, {lifetime}) => final.height < lifetime!.end,
  lastAfter: (head, {lifetime}) => lifetime!.end - head.height,
  holdsUnpayable: true,
  fails: true,
}

/** The last block that may hold a transaction is the first one whose time is at its end, or past it. */
export const endsByTime: Rules = {
  refuses: (parent, transaction) => {
    if (isEarly(parent, transaction)) return 'it is not valid yet'
    return parent.time >= transaction.lifetime!.end ? 'it has expired' : undefined
  },
  mayFollow: (final, {lifetime}) => final.time < lifetime!.end,
  lastAfter: (head, {lifetime}) => Math.ceil((lifetime!.end - head.time) / secondMs),
  holdsUnpayable: true,
  fails: true,
}

/** The same, and who was lent energy burns none. */
export const lendsEnergy: Rules = {
  ...endsByTime,
  refuses: (parent, transaction, block = parent) => {
    const {lends} = transaction
    if (lends && lends.amount < 0n && lentTo(block, lends.to) + lends.amount < 0n) return 'so much is not lent'
    return endsByTime.refuses(parent, transaction, block)
  },
  feeIn: (block, {from, fee, lends}) => (!lends && lentTo(block, from) > 0n ? 0n : fee),
}

/** The last block that may hold a transaction is this many above the one that it names, on whose branch it is. */
const namedBlocks = 151

/** A transaction names a recent block of its branch. */
export const namesBlock: Rules = {
  refuses: (parent, {named}) => {
    if (!isBelow(named, parent)) return 'it names a block that is not there'
    return parent.height + 1 > named.height + namedBlocks ? 'it has expired' : undefined
  },
  mayFollow: (final, {named}) => {
    if (!named) return false
    return isBelow(named, final) ? final.height < named.height + namedBlocks : isBelow(final, named)
  },
  lastAfter: (head, {named}) => (isBelow(named, head) ? named.height + namedBlocks - head.height : undefined),
  hash: hex => base58.encode(Buffer.from(hex, 'hex')),
  holdsUnpayable: true,
  fails: true,
}

/** Whether a block is on the branch of another one, or is it. */
const isBelow = (block: Block | undefined, head: Block): block is Block =>
  block !== undefined && blockAt(head, block.height) === block

/** How much an address is lent after a block. */
export function lentTo(block: Block, address: string): bigint {
  let sum = 0n
  for (const {included} of branch(block))
    for (const {transaction, failed} of included)
      if (transaction.lends?.to === address && !failed) sum += transaction.lends.amount
  return sum
}

/** Each transaction of an account uses its next nonce. */
export const usesNonces: Rules = {
  refuses: (parent, {from, nonce}, block = parent) =>
    nonce === noncesOf(block, from) ? undefined : 'it has not the next nonce',
  mayFollow: (final, {from, nonce}) => noncesOf(final, from) <= nonce!,
  lastAfter: () => undefined,
  holdsUnpayable: false,
  fails: true,
}

/** An output is spent once, after it was made. */
export const spendsOutputs: Rules = {
  refuses: (parent, {inputs}, block = parent) => {
    const {made, spent} = outputsOn(block)
    return inputs!.every(input => made.has(input) && !spent.has(input)) ? undefined : 'an output is not there, or spent'
  },
  mayFollow: (final, {inputs}) => !inputs!.some(input => outputsOn(final).spent.has(input)),
  lastAfter: () => undefined,
  holdsUnpayable: false,
  fails: false,
}

/** What the branch of a block made and spent. */
export function outputsOn(block: Block): {made: Map<string, Output>; spent: Set<string>} {
  const [made, spent] = [new Map<string, Output>(), new Set<string>()]
  for (const {included} of branch(block))
    for (const {transaction} of included) {
      for (const [index, output] of transaction.outputs.entries()) made.set(`${transaction.txid}:${index}`, output)
      for (const input of transaction.inputs ?? []) spent.add(input)
    }
  return {made, spent}
}

function noncesOf(block: Block, account: string): number {
  let count = 0
  for (const {included} of branch(block))
    for (const {transaction} of included) if (transaction.from === account && transaction.nonce !== undefined) count++
  return count
}

function blockAt(head: Block, height: number): Block | undefined {
  if (height > head.height) return undefined
  for (const block of branch(head)) if (block.height === height) return block
  return undefined
}

/** A block and those below it, from above. */
export function* branch(block: Block): Generator<Block> {
  for (let at: Block | undefined = block; at; at = at.parent) yield at
}

/** What a node shows. */
export interface NodeView {
  head: Block
  final: Block
  /** Its block at a height. */
  at(height: number): Block | undefined
}

export class ModelChain implements NodeView {
  readonly #rules: Rules
  readonly #native: string
  /** The node's newest block, and the newest one that it calls final. */
  head: Block
  final: Block
  /** How dear a block's space is, as a multiple of the usual price. */
  price = 1
  /** A block that was final has left the chain. */
  isBroken = false
  /** What was given to the network, by txid. */
  readonly pool = new Map<string, Transaction>()
  /** Its blocks by hash, also those that left. */
  readonly #blocks: Map<string, Block>
  #count = 0

  constructor(rules: Rules, native: string, head: Block) {
    this.#rules = rules
    this.#native = native
    this.head = head
    this.final = head
    this.#blocks = new Map([...branch(head)].map(block => [block.hash, block]))
  }

  static genesis({hash = hex => hex}: Rules, time: number): Block {
    return {height: 0, hash: hash(hashOf('genesis')), parent: undefined, time, included: []}
  }

  /** A block by its hash, on whatever branch. */
  block(hash: string): Block | undefined {
    return this.#blocks.get(hash)
  }

  /** The block of the node's chain at this height. */
  at(height: number): Block | undefined {
    return blockAt(this.head, height)
  }

  /** A node that lags by so many blocks. */
  behind(count: number): NodeView {
    const head = this.at(Math.max(0, this.head.height - count))!
    const final = this.final.height < head.height ? this.final : head
    return {head, final, at: height => blockAt(head, height)}
  }

  /** Whether the block is on the node's chain. */
  has(hash: string, height: number): boolean {
    return this.at(height)?.hash === hash
  }

  /** Where the branch of a block holds a transaction. */
  find(from: Block, txid: string): (Included & {block: Block}) | undefined {
    for (const block of branch(from)) {
      const found = block.included.find(({transaction}) => transaction.txid === txid)
      if (found) return {...found, block}
    }
    return undefined
  }

  /**
   * A block above `parent` with those of these transactions that it may hold. `fails`: those that fail even if they
   * could be paid.
   */
  add(parent: Block, wanted: Transaction[], time: number, fails: (txid: string) => boolean = () => false): Block {
    this.#count += 1
    const {hash = hex => hex} = this.#rules
    const block: Block = {
      height: parent.height + 1,
      hash: hash(hashOf(`${parent.hash} ${this.#count}`)),
      parent,
      time: Math.max(parent.time, time),
      included: [],
    }
    // An account's transactions come in the order of their nonces.
    for (const one of wanted.toSorted((one, other) => (one.nonce ?? 0) - (other.nonce ?? 0))) {
      if (this.whyNot(parent, one, block)) continue
      const transaction = {...one, fee: this.#rules.feeIn?.(block, one) ?? one.fee}
      const left = this.#left(block, transaction)
      if (left.fee < transaction.fee || (left.all < 0n && !this.#rules.holdsUnpayable)) continue
      const failed = this.#rules.fails && (left.all < 0n || one.alwaysFails || fails(transaction.txid))
      block.included.push({transaction: failed ? transaction : withRent(block, transaction), failed})
    }
    this.#blocks.set(block.hash, block)
    return block
  }

  /** Why a block above `parent` cannot hold it; `block` has what is in it already. */
  whyNot(parent: Block, transaction: Transaction, block?: Block): string | undefined {
    if (this.find(block ?? parent, transaction.txid)) return 'it is in a block'
    if (transaction.from === faucet) return undefined
    return this.#rules.refuses(parent, transaction, block)
  }

  /** Whether a transaction that no final block holds can still be in one. */
  mayStillBeMined(transaction: Transaction): boolean {
    return !this.find(this.final, transaction.txid) && this.#rules.mayFollow(this.final, transaction)
  }

  lastAfter(transaction: Transaction): number | undefined {
    return this.#rules.lastAfter(this.head, transaction)
  }

  /** What a sender has for the fee, and what it has left after everything; a block's earlier transactions count. */
  #left(block: Block, transaction: Transaction): {fee: bigint; all: bigint} {
    const {from, feePayer = from, fee, rent = 0n, mostFee = fee + rent, outputs, inputs} = transaction
    if (from === faucet || inputs) return {fee: 0n, all: 0n}
    const balances = balancesAt(block, this.#native)
    const had = balances.get(`${feePayer} ${this.#native}`) ?? 0n
    const spent = new Map([[`${feePayer} ${this.#native}`, mostFee]])
    for (const {token, amount} of outputs) spent.set(`${from} ${token}`, (spent.get(`${from} ${token}`) ?? 0n) + amount)
    const short = [...spent].some(([of, amount]) => (balances.get(of) ?? 0n) < amount)
    return {fee: had, all: short ? -1n : 0n}
  }
}

/** With the rent in its fee, if it is due in this block. */
function withRent(block: Block, transaction: Transaction): Transaction {
  const {rent, fee, outputs} = transaction
  const [{to, token} = {to: '', token: ''}] = outputs
  return rent && !isPaidIn(block, to, token) ? {...transaction, fee: fee + rent} : transaction
}

/** Whether an address was paid in a token in a block, or below it. */
export function isPaidIn(block: Block, to: string, token: string): boolean {
  for (const {included} of branch(block))
    for (const {transaction, failed} of included)
      if (!failed && transaction.outputs.some(output => output.to === to && output.token === token)) return true
  return false
}

/** Who pays what comes from outside, and never runs dry. */
export const faucet = 'faucet'

/** What everybody has after a block, as `address token`. */
export function balancesAt(block: Block, native: string): Map<string, bigint> {
  const balances = new Map<string, bigint>()
  const add = (address: string, token: string, amount: bigint) => {
    const key = `${address} ${token}`
    balances.set(key, (balances.get(key) ?? 0n) + amount)
  }
  const {made} = outputsOn(block)
  for (const {included} of branch(block))
    for (const {transaction, failed} of included) {
      const {from, feePayer = from, fee, inputs} = transaction
      add(feePayer, native, -fee)
      if (failed) continue
      for (const input of inputs ?? []) add(made.get(input)!.to, native, -made.get(input)!.amount)
      for (const {to, token, amount} of transaction.outputs) {
        add(to, token, amount)
        if (!inputs) add(from, token, -amount)
      }
    }
  return balances
}

export const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')
