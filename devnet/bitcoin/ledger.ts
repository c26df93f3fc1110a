// The scripts of the local Bitcoin chain: their histories and unspent outputs, in memory, made from the blocks of the
// journal and the unconfirmed transactions. Promises: after connect, disconnect and setUnconfirmed it equals the whole
// chain.
import {createHash} from 'node:crypto'
import {Block, Transaction} from 'bitcoinjs-lib'
import {scripthashOf} from '../../chains/bitcoin/script.ts'
import {displayed} from './block.ts'

export interface Output {
  /** txid:vout */
  outpoint: string
  scripthash: string
  value: bigint
  /** Of its block; 0 while unconfirmed. */
  height: number
  coinbase: boolean
}

/**
 * An entry of a script's history, as Electrum has it: unconfirmed ones have height 0, or -1 if one of their parents is
 * unconfirmed, too.
 */
export interface Entry {
  txid: string
  height: number
  /** Of unconfirmed ones. */
  fee?: bigint
}

interface Indexed {
  hash: string
  /** Hex. */
  header: string
  timestamp: number
  txids: string[]
  /** The scripts whose histories it added to. */
  touched: string[]
  created: Output[]
  spent: Output[]
}

interface Unconfirmed {
  transaction: Transaction
  entry: Entry
  scripthashes: Set<string>
  outputs: Output[]
}

const maturity = 100

export class Ledger {
  readonly #blocks: Indexed[] = []
  readonly #histories = new Map<string, Entry[]>()
  readonly #unspent = new Map<string, Output>()
  readonly #unspentOf = new Map<string, Set<Output>>()
  readonly #unconfirmed = new Map<string, Unconfirmed>()
  readonly #unconfirmedOf = new Map<string, Set<string>>()
  /** The unconfirmed transaction that spends an outpoint. */
  readonly #spenders = new Map<string, string>()
  #touched = new Set<string>()

  get height(): number {
    return this.#blocks.length - 1
  }

  block(height: number): Readonly<Indexed> | undefined {
    return this.#blocks[height]
  }

  /** The headers from a height on, at most this many; hex. */
  headers(from: number, count: number): string[] {
    return this.#blocks.slice(from, from + count).map(({header}) => header)
  }

  /** The scripts whose histories may have changed since the last call. */
  takeTouched(): Set<string> {
    const touched = this.#touched
    this.#touched = new Set()
    return touched
  }

  // --- blocks ---

  connect(raw: Buffer): void {
    const block = Block.fromBuffer(raw)
    const height = this.#blocks.length
    const indexed: Indexed = {
      hash: block.getId(),
      header: raw.subarray(0, 80).toString('hex'),
      timestamp: block.timestamp,
      txids: [],
      touched: [],
      created: [],
      spent: [],
    }
    for (const transaction of block.transactions ?? []) this.#connectTransaction(indexed, transaction, height)
    this.#blocks.push(indexed)
  }

  #connectTransaction(indexed: Indexed, transaction: Transaction, height: number): void {
    const txid = transaction.getId()
    const scripthashes = new Set<string>()
    for (const outpoint of outpointsSpent(transaction)) {
      const output = this.#unspent.get(outpoint)
      if (!output) continue // the coinbase's
      scripthashes.add(output.scripthash)
      indexed.spent.push(output)
      this.#remove(output)
    }
    for (const output of outputsOf(transaction, txid, height)) {
      scripthashes.add(output.scripthash)
      indexed.created.push(output)
      this.#add(output)
    }
    for (const scripthash of scripthashes) {
      const history = this.#histories.get(scripthash) ?? []
      this.#histories.set(scripthash, history)
      history.push({txid, height})
      indexed.touched.push(scripthash)
      this.#touched.add(scripthash)
    }
    indexed.txids.push(txid)
  }

  /** Removes the highest block. */
  disconnect(): void {
    const indexed = this.#blocks.pop()
    if (!indexed) return
    for (const output of indexed.spent) this.#add(output)
    for (const output of indexed.created) this.#remove(output) // also what was spent in the same block
    for (const scripthash of indexed.touched) {
      const history = this.#histories.get(scripthash)
      history?.pop()
      if (!history?.length) this.#histories.delete(scripthash)
      this.#touched.add(scripthash)
    }
  }

  #add(output: Output): void {
    this.#unspent.set(output.outpoint, output)
    const ofScript = this.#unspentOf.get(output.scripthash) ?? new Set()
    this.#unspentOf.set(output.scripthash, ofScript.add(output))
  }

  #remove({outpoint}: Output): void {
    const output = this.#unspent.get(outpoint)
    if (!output) return
    this.#unspent.delete(outpoint)
    const ofScript = this.#unspentOf.get(output.scripthash)
    ofScript?.delete(output)
    if (!ofScript?.size) this.#unspentOf.delete(output.scripthash)
  }

  // --- unconfirmed transactions ---

  /** Replaces all unconfirmed transactions; parents come first. */
  setUnconfirmed(raws: string[]): void {
    for (const {scripthashes} of this.#unconfirmed.values()) for (const one of scripthashes) this.#touched.add(one)
    this.#unconfirmed.clear()
    this.#unconfirmedOf.clear()
    this.#spenders.clear()
    for (const raw of raws) this.addUnconfirmed(raw)
  }

  /** Adds an unconfirmed transaction that conflicts with none. */
  addUnconfirmed(raw: string): void {
    const transaction = Transaction.fromHex(raw)
    const txid = transaction.getId()
    if (this.#unconfirmed.has(txid)) return
    const spent = outpointsSpent(transaction).map(outpoint => this.output(outpoint))
    const outputs = outputsOf(transaction, txid, 0)
    const scripthashes = new Set([...spent, ...outputs].flatMap(output => output?.scripthash ?? []))
    const total = (list: (Output | undefined)[]) => list.reduce((sum, output) => sum + (output?.value ?? 0n), 0n)
    const height = spent.some(output => output && this.#unconfirmed.has(txidOf(output.outpoint))) ? -1 : 0
    this.#unconfirmed.set(txid, {
      transaction,
      entry: {txid, height, fee: total(spent) - total(outputs)},
      scripthashes,
      outputs,
    })
    for (const outpoint of outpointsSpent(transaction)) this.#spenders.set(outpoint, txid)
    for (const scripthash of scripthashes) {
      this.#unconfirmedOf.set(scripthash, (this.#unconfirmedOf.get(scripthash) ?? new Set()).add(txid))
      this.#touched.add(scripthash)
    }
  }

  unconfirmed(txid: string): Transaction | undefined {
    return this.#unconfirmed.get(txid)?.transaction
  }

  unconfirmedTxids(): string[] {
    return [...this.#unconfirmed.keys()]
  }

  /** The unconfirmed transaction that spends an outpoint. */
  spender(outpoint: string): string | undefined {
    return this.#spenders.get(outpoint)
  }

  // --- reading ---

  /** An output that no block has spent. */
  output(outpoint: string): Output | undefined {
    const mined = this.#unspent.get(outpoint)
    return mined ?? this.#unconfirmed.get(txidOf(outpoint))?.outputs.find(output => output.outpoint === outpoint)
  }

  /** Unspent outputs in blocks that a transaction of the next block may spend, and no unconfirmed one does. */
  spendable(scripthash: string): Output[] {
    return [...(this.#unspentOf.get(scripthash) ?? [])].filter(
      ({outpoint, coinbase, height}) =>
        !this.#spenders.has(outpoint) && (!coinbase || height <= this.height + 1 - maturity),
    )
  }

  history(scripthash: string): Entry[] {
    return [...(this.#histories.get(scripthash) ?? []), ...this.unconfirmedHistory(scripthash)]
  }

  unconfirmedHistory(scripthash: string): Entry[] {
    return [...(this.#unconfirmedOf.get(scripthash) ?? [])]
      .map(txid => this.#unconfirmed.get(txid)!.entry)
      .sort((a, b) => b.height - a.height || (a.txid < b.txid ? -1 : 1))
  }

  /** The status of Electrum's protocol: a hash of the history, null where there is none. */
  status(scripthash: string): string | null {
    const history = this.history(scripthash)
    if (history.length === 0) return null
    return createHash('sha256')
      .update(history.map(({txid, height}) => `${txid}:${height}:`).join(''))
      .digest('hex')
  }

  unspent(scripthash: string): Output[] {
    const unconfirmed = this.#unconfirmedOutputs(scripthash)
    return [...(this.#unspentOf.get(scripthash) ?? []), ...unconfirmed].filter(
      ({outpoint}) => !this.#spenders.has(outpoint),
    )
  }

  /** The effect of unconfirmed transactions is separate from that of blocks, and may be negative. */
  balance(scripthash: string): {confirmed: bigint; unconfirmed: bigint} {
    const sum = (outputs: Iterable<Output>) => [...outputs].reduce((total, {value}) => total + value, 0n)
    const confirmed = sum(this.#unspentOf.get(scripthash) ?? [])
    return {confirmed, unconfirmed: sum(this.unspent(scripthash)) - confirmed}
  }

  #unconfirmedOutputs(scripthash: string): Output[] {
    const txids = [...(this.#unconfirmedOf.get(scripthash) ?? [])]
    return txids
      .flatMap(txid => this.#unconfirmed.get(txid)!.outputs)
      .filter(output => output.scripthash === scripthash)
  }
}

/** Electrum's scripthash of an output script. */
export function outpointsSpent(transaction: Transaction): string[] {
  return transaction.ins.map(({hash, index}) => `${displayed(hash)}:${index}`)
}

function outputsOf(transaction: Transaction, txid: string, height: number): Output[] {
  return transaction.outs.map(({script, value}, vout) => ({
    outpoint: `${txid}:${vout}`,
    scripthash: scripthashOf(script),
    value,
    height,
    coinbase: transaction.isCoinbase(),
  }))
}

function txidOf(outpoint: string): string {
  return outpoint.slice(0, 64)
}
