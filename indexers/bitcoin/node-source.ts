// Bitcoin from the operator's own bitcoind: whole blocks, and the mempool. Promises: the hash and the merkle root of
// every block are computed from its bytes. SQL decides which of its outputs are to us, so any number of addresses can
// be watched. Only then the node is asked for the senders, once per block: a block does not contain the outputs that it
// spends, and a node returns them only in slow JSON.
import type pg from 'pg'
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import {type Block, parseBlock, parseTransaction, type Transaction} from '../../chains/bitcoin/block.ts'
import {type Bitcoind, RpcError} from '../../chains/bitcoin/rpc.ts'
import type {AddressFormat} from '../../chains/bitcoin/script.ts'
import type {BitcoinSettings} from '../../chains/bitcoin/settings.ts'
import {caip2} from '../../chains/registry.ts'
import type {ReadBlock} from '../block.ts'
import type {BlockRef} from '../cursor.ts'
import type {ChainSource} from '../follow.ts'
import {blockTimes} from './network.ts'
import {
  candidatesOf,
  firstSpent,
  type KnownTransaction,
  readBlock,
  senderInWitness,
  senderOfScript,
  unknownSender,
} from './read-block.ts'
import {Hash, Hex, headerOf} from './shapes.ts'
import type {Unconfirmed, UnconfirmedSource} from './unconfirmed.ts'

const Script = z.object({hex: Hex})
/**
 * The response to `getblock` with verbosity 3. A node that has pruned a block's undo data, or is older than 23.0, gives
 * no prevout.
 */
const WithPrevouts = z.object({
  hash: Hash,
  tx: z.array(z.object({txid: Hash, vin: z.array(z.object({prevout: z.object({scriptPubKey: Script}).optional()}))})),
})
const Unspent = z.object({scriptPubKey: Script}).nullable()
const Info = z.object({blocks: z.int().min(0), bestblockhash: Hash})

/** The error code of a node that does not have the block, or no longer has it. It may be asked again. */
const notFound = -5

/** One call returns blocks until they hold this many outputs; blocks are fetched ahead until this many wait. */
const outputsPerCall = 20_000
const blocksAhead = 24
const matchAgainMs = 30_000

export interface NodeSourceOptions {
  node: Bitcoind
  db: pg.Pool
  settings: Pick<BitcoinSettings, 'chain' | 'network' | 'confirmations'>
}

export class NodeSource implements ChainSource, UnconfirmedSource {
  readonly #options: NodeSourceOptions
  readonly #format: AddressFormat
  readonly confirmations: number
  readonly blockTimes = blockTimes
  #headHeight = 0
  /** Blocks that are being fetched, or are fetched and not returned yet, by hash. */
  readonly #ahead = new Map<string, Promise<Block>>()
  /** The recipients of each unconfirmed transaction, and the transaction itself if it pays us. */
  readonly #mempool = new Map<string, {recipients: string[]; ours?: KnownTransaction}>()
  #matchedAllAt = 0

  constructor(options: NodeSourceOptions) {
    this.#options = options
    const {chain, network, confirmations} = options.settings
    this.#format = chain.networks[network]
    this.confirmations = confirmations
  }

  async network(): Promise<string> {
    return caip2('bip122', await this.#options.node.call('getblockhash', [0], Hash))
  }

  async head(): Promise<BlockRef> {
    const {blocks: height, bestblockhash: hash} = await this.#options.node.call('getblockchaininfo', [], Info)
    this.#headHeight = height
    return {height, hash}
  }

  async finalBlock(): Promise<BlockRef | undefined> {
    const {height} = await this.head()
    const final = Math.max(height - this.confirmations + 1, 0)
    const hash = await this.hashAt(final)
    return hash === undefined ? undefined : {height: final, hash}
  }

  async blockAt(height: number): Promise<(BlockRef & {time: Date}) | undefined> {
    const hash = await this.hashAt(height)
    if (hash === undefined) return
    const header = headerOf(await this.#options.node.call('getblockheader', [hash, false], Hex))
    if (header.hash === hash) return {height, hash, time: header.time}
    throw new RetryableError(`the node returned another block than ${hash}`)
  }

  async hashAt(height: number): Promise<string | undefined> {
    return (await this.hashesAt([height]))[0]
  }

  async hashesAt(heights: number[]): Promise<(string | undefined)[]> {
    const calls = heights.map(height => ({method: 'getblockhash', params: [height]}))
    const responses = await this.#options.node.batch(calls, Hash)
    return responses.map(response => (response instanceof RpcError ? undefined : response))
  }

  async lacks(height: number): Promise<string | undefined> {
    const hash = await this.hashAt(height)
    if (hash === undefined) return 'it has no such block'
    try {
      await this.#options.node.rawBlock(hash)
    } catch (error) {
      if (error instanceof RpcError) return error.message
      throw error
    }
  }

  async blocksAbove(height: number, limit: number): Promise<ReadBlock[]> {
    const count = Math.max(0, Math.min(limit, this.#headHeight - height))
    const asked = await this.hashesAt(Array.from({length: count}, (_, i) => height + 1 + i))
    const end = asked.indexOf(undefined)
    const hashes = (end < 0 ? asked : asked.slice(0, end)) as string[]
    for (const hash of this.#ahead.keys()) if (!hashes.includes(hash)) this.#ahead.delete(hash)
    const read: ReadBlock[] = []
    for (let outputs = 0; read.length < hashes.length && outputs < outputsPerCall; ) {
      this.#fetchAhead(hashes.slice(read.length))
      const hash = hashes[read.length]!
      const {header, transactions} = await this.#ahead.get(hash)!
      this.#ahead.delete(hash)
      const known = transactions.map(transaction => this.#known(transaction))
      for (const transaction of transactions) outputs += transaction.outputs.length
      const untold = new Set(known.flatMap(one => (one.sender === unknownSender ? one.transaction.txid : [])))
      read.push({
        ...readBlock(height + 1 + read.length, header, known, this.#options.settings),
        sendersOf: txids =>
          this.#sendersIn(
            hash,
            txids.filter(txid => untold.has(txid)),
          ),
      })
    }
    this.#fetchAhead(hashes.slice(read.length))
    return read
  }

  #known(transaction: Transaction, raw?: string): KnownTransaction {
    return {transaction, raw, sender: senderInWitness(transaction, this.#format) ?? unknownSender}
  }

  /** The senders of these transactions of a block, as far as the node can say. */
  async #sendersIn(hash: string, txids: string[]): Promise<Map<string, string>> {
    if (!txids.length) return new Map()
    const block = await unlessRefused(this.#options.node.call('getblock', [hash, 3], WithPrevouts))
    if (!block) return new Map()
    if (block.hash !== hash) throw new RetryableError(`the node returned another block than ${hash}`)
    const scripts = new Map(block.tx.map(({txid, vin}) => [txid, vin[0]?.prevout?.scriptPubKey.hex]))
    return new Map(
      txids.map(txid => {
        if (!scripts.has(txid)) throw new RetryableError(`the node left ${txid} out of block ${hash}`)
        return [txid, this.#senderOf(scripts.get(txid))]
      }),
    )
  }

  #senderOf(script: string | undefined): string {
    return senderOfScript(script === undefined ? undefined : Buffer.from(script, 'hex'), this.#format)
  }

  #fetchAhead(hashes: string[]): void {
    for (const hash of hashes.slice(0, blocksAhead)) {
      if (this.#ahead.has(hash)) continue
      const block = this.#fetchBlock(hash)
      this.#ahead.set(hash, block)
      block.catch(() => this.#ahead.delete(hash)) // a waiting caller gets the error; otherwise the block is fetched again
    }
  }

  async #fetchBlock(hash: string): Promise<Block> {
    const block = parseBlock(await this.#options.node.rawBlock(hash))
    if (block.header.hash === hash) return block
    throw new RetryableError(`the node returned another block than ${hash}`)
  }

  async unconfirmed(): Promise<Unconfirmed> {
    const txids = new Set(await this.#options.node.call('getrawmempool', [], z.array(Hash)))
    for (const txid of this.#mempool.keys()) if (!txids.has(txid)) this.#mempool.delete(txid)
    const fresh = await this.#fetchUnconfirmed([...txids].filter(txid => !this.#mempool.has(txid)))
    for (const one of fresh) {
      const recipients = candidatesOf(one, this.#options.settings).map(({recipientKey}) => recipientKey)
      this.#mempool.set(one.transaction.txid, {recipients})
    }
    await this.#match(fresh)
    if (Date.now() - this.#matchedAllAt > matchAgainMs) await this.#matchAgain()
    const {hash: head} = await this.head() // read after the mempool: a transaction mined since is in that list, or the head has changed
    return {head, transactions: [...this.#mempool.values()].flatMap(({ours}) => ours ?? [])}
  }

  /** The transactions that are still in the mempool. */
  async #fetchUnconfirmed(txids: string[]): Promise<KnownTransaction[]> {
    const calls = txids.map(txid => ({method: 'getrawtransaction', params: [txid, false]}))
    const responses = await this.#options.node.batch(calls, Hex)
    return responses.flatMap((raw, i) => {
      if (raw instanceof RpcError) return []
      const transaction = parseTransaction(Buffer.from(raw, 'hex'))
      if (transaction.txid !== txids[i])
        throw new RetryableError(`the node returned another transaction than ${txids[i]}`)
      return [this.#known(transaction, raw)]
    })
  }

  /** Stores in `#mempool` the transactions that pay addresses of ours. */
  async #match(transactions: KnownTransaction[]): Promise<void> {
    const ours = await this.#addressesOfOurs(
      transactions.flatMap(({transaction}) => this.#mempool.get(transaction.txid)!.recipients),
    )
    const found = transactions.filter(({transaction}) =>
      this.#mempool.get(transaction.txid)!.recipients.some(address => ours.has(address)),
    )
    for (const one of await this.#withSenders(found)) this.#mempool.get(one.transaction.txid)!.ours = one
  }

  /**
   * Adds senders to unconfirmed transactions, as far as the node can say: it knows their inputs as unspent outputs of
   * the chain or the mempool.
   */
  async #withSenders(transactions: KnownTransaction[]): Promise<KnownTransaction[]> {
    const {node} = this.#options
    return await Promise.all(
      transactions.map(async one => {
        if (one.sender !== unknownSender) return one
        const {txid, vout} = firstSpent(one.transaction)
        if (this.#mempool.has(txid)) {
          const [parent] = await this.#fetchUnconfirmed([txid])
          return {...one, sender: senderOfScript(parent?.transaction.outputs[vout]?.script, this.#format)}
        }
        const unspent = await unlessRefused(node.call('gettxout', [txid, vout, false], Unspent))
        return {...one, sender: this.#senderOf(unspent?.scriptPubKey.hex)}
      }),
    )
  }

  /** Matches again, because an address may be handed out after a payment to it was seen. */
  async #matchAgain(): Promise<void> {
    this.#matchedAllAt = Date.now()
    const others = [...this.#mempool].filter(([, {ours}]) => !ours)
    const ours = await this.#addressesOfOurs(others.flatMap(([, {recipients}]) => recipients))
    const found = others.filter(([, {recipients}]) => recipients.some(address => ours.has(address)))
    await this.#match(await this.#fetchUnconfirmed(found.map(([txid]) => txid)))
  }

  async #addressesOfOurs(addresses: string[]): Promise<Set<string>> {
    if (!addresses.length) return new Set()
    const {rows} = await this.#options.db.query<{address: string}>(
      'select match_key as address from app.address where chain = $1 and match_key = any($2)',
      [this.#options.settings.chain.code, addresses],
    )
    return new Set(rows.map(({address}) => address))
  }
}

/** Undefined if the node refuses the request. */
async function unlessRefused<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked
  } catch (error) {
    if (error instanceof RpcError && error.code !== notFound) return undefined
    throw error
  }
}
