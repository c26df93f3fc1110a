// Bitcoin from Electrum servers: blocks for the loop, and unconfirmed transactions. Promises: a transaction counts as
// mined only with a merkle proof that leads to a header of our own chain of headers, and it is read from bytes that
// have its id (electrum-transactions.ts, electrum-headers.ts). A server that contradicts itself, or gives a false
// proof, is dropped, and nothing is written; status shows this while the chain stands still because of it
// (electrum-servers.ts). A transaction that is in no block and that the server does not have is absent, whatever a
// history says. New addresses are subscribed before anything else is asked, and a history is accepted only with its
// status (electrum-histories.ts). A server can hide transactions by omission, but in no other way.
import type pg from 'pg'
import {RetryableError} from '../../base/errors.ts'
import type {Logger} from '../../base/log.ts'
import type {Electrum} from '../../chains/bitcoin/electrum.ts'
import type {BitcoinSettings} from '../../chains/bitcoin/settings.ts'
import {caip2} from '../../chains/registry.ts'
import type {ReadBlock} from '../block.ts'
import type {BlockRef, ChainCursor} from '../cursor.ts'
import type {Link} from '../family.ts'
import type {ChainSource} from '../follow.ts'
import type {AddressFeed} from './addresses.ts'
import {ElectrumHeaders, type Place} from './electrum-headers.ts'
import {ElectrumHistories} from './electrum-histories.ts'
import {ElectrumServers} from './electrum-servers.ts'
import {ElectrumTransactions} from './electrum-transactions.ts'
import {blockTimes} from './network.ts'
import {readBlock} from './read-block.ts'
import {rowsIn, withoutRow} from './stored.ts'
import type {Unconfirmed, UnconfirmedSource} from './unconfirmed.ts'

/** One call returns blocks until they hold this many transactions. */
const transactionsPerCall = 2000

/** The ids of transactions that are said to be in blocks, by block height. */
type Claims = Map<number, Set<string>>

export interface ElectrumSourceOptions {
  electrum: Electrum
  cursor: ChainCursor
  db: pg.Pool
  addresses: Pick<AddressFeed, 'take' | 'changed'>
  settings: Pick<BitcoinSettings, 'chain' | 'network' | 'confirmations'>
  log: Logger
  /** For a reindex: the block below the lowest one read. Stored rows then count as no proof. */
  readsAgainAbove?: BlockRef
}

export class ElectrumSource implements ChainSource, UnconfirmedSource {
  readonly #options: ElectrumSourceOptions
  readonly confirmations: number
  readonly blockTimes = blockTimes
  readonly #servers: ElectrumServers
  readonly #headers: ElectrumHeaders
  readonly #histories: ElectrumHistories
  readonly #transactions: ElectrumTransactions
  /** What was found late before, so that it is not found again if it leaves no row. */
  readonly #notified = new Set<string>()
  #invalidatedHeight = Number.POSITIVE_INFINITY
  #polledAt: {generation: number} | undefined

  constructor(options: ElectrumSourceOptions) {
    const {electrum, cursor, log, readsAgainAbove} = options
    const {chain, network, confirmations} = options.settings
    const format = chain.networks[network]
    this.#options = options
    this.confirmations = confirmations
    this.#servers = new ElectrumServers(electrum, async contradiction => {
      if (!readsAgainAbove) await cursor.noteContradiction(contradiction)
    })
    const base = async () => readsAgainAbove ?? (await cursor.blocksFrom(0)).at(-1)!
    this.#headers = new ElectrumHeaders(this.#servers, {base, easiestBits: format.easiestBits})
    this.#histories = new ElectrumHistories(electrum, format, log)
    this.#transactions = new ElectrumTransactions(this.#servers, this.#headers, format)
  }

  async changed(signal: AbortSignal): Promise<void> {
    await Promise.race([this.#options.electrum.changed(signal), this.#options.addresses.changed(signal)])
  }

  async network(): Promise<string> {
    const [genesis] = await this.#headers.ask([0])
    if (!genesis) throw new RetryableError('the Electrum server has no block 0')
    return caip2('bip122', genesis.hash)
  }

  async head(): Promise<BlockRef> {
    await this.#poll()
    return this.#headers.tip
  }

  takeInvalidatedHeight(): number | undefined {
    const invalidatedHeight = this.#invalidatedHeight
    this.#invalidatedHeight = Number.POSITIVE_INFINITY
    return Number.isFinite(invalidatedHeight) ? invalidatedHeight : undefined
  }

  async finalBlock(): Promise<BlockRef | undefined> {
    const {height} = await this.#headers.newest()
    return this.blockAt(Math.max(height - this.confirmations + 1, 0))
  }

  async blockAt(height: number): Promise<(BlockRef & {time: Date}) | undefined> {
    const header = this.#headers.at(height) ?? (await this.#headers.ask([height]))[0]
    return header && {height, hash: header.hash, time: header.time}
  }

  async hashAt(height: number): Promise<string | undefined> {
    return (await this.hashesAt([height]))[0]
  }

  hashesAt(heights: number[]): Promise<(string | undefined)[]> {
    return this.#headers.hashesAt(heights)
  }

  /** A server that has the headers has an index of everything in the blocks. */
  async lacks(height: number): Promise<string | undefined> {
    return (await this.hashAt(height)) === undefined ? 'it has no such block' : undefined
  }

  async blocksAbove(height: number, limit: number): Promise<ReadBlock[]> {
    const found = this.#headers.above(height, limit)
    const claims = await this.#claimed(found)
    const blocks = enough(found, claims)
    const known = await this.#transactions.prove(
      blocks.flatMap(place => [...claims.get(place.height)!].map(txid => ({...place, txid}))),
    )
    return blocks.map(({height, header}) => {
      const inside = [...claims.get(height)!].map(txid => known.get(txid)!)
      return readBlock(height, header, inside, this.#options.settings)
    })
  }

  /** The links between the blocks of these heights. */
  links(heights: number[]): Link[] {
    return heights.map(height => {
      const header = this.#headers.at(height)
      if (!header) throw new RetryableError(`the Electrum server has no block ${height}`)
      return {height, hash: header.hash, parentHash: header.parentHash}
    })
  }

  /** Drops all earlier responses, and asks the next server if there are several. */
  askAnew(): void {
    this.#transactions.forget()
    this.#histories.outdateAll()
    this.#options.electrum.drop('another server is asked, to compare the responses')
  }

  async unconfirmed(): Promise<Unconfirmed | undefined> {
    if (this.#polledAt?.generation !== this.#options.electrum.generation) return
    const {height: top, hash: head} = this.#headers.tip
    const claims: {txid: string; height: number; scripthash: string}[] = []
    for (const [scripthash, history] of this.#histories.all)
      for (const {tx_hash: txid, height} of history)
        if (height <= 0 || height > top) claims.push({txid, height, scripthash}) // histories may be newer than the head
    const {known, none} = await this.#transactions.fetch(claims.map(({txid}) => txid))
    const missing = claims.filter(({txid}) => !known.has(txid))
    for (const {scripthash} of missing) this.#histories.outdate(scripthash)
    // A transaction that is in no block and that the server lacks does not exist. One in a block that is not written
    // yet does exist.
    if (missing.every(({txid, height}) => none.has(txid) && height <= 0))
      return {head, transactions: [...known.values()]}
  }

  /**
   * Reads what the server shows now: first it subscribes our new addresses, then it reads the chain, then the histories
   * of our addresses.
   */
  async #poll(): Promise<void> {
    const {electrum, addresses, readsAgainAbove} = this.#options
    this.#polledAt = undefined
    const {generation} = electrum
    await this.#servers.trusting(async () => {
      await this.#histories.subscribe(await addresses.take())
      await this.#headers.poll(fork => this.#histories.outdateAbove(fork))
      const changed = await this.#histories.poll()
      if (!readsAgainAbove) await this.#findLate(changed)
    })
    if (generation === electrum.generation) this.#polledAt = {generation}
  }

  /** Finds transactions in stored blocks that have no row there. The lowest of these blocks must be written again. */
  async #findLate(changed: string[]): Promise<void> {
    const named = changed.flatMap(scripthash =>
      this.#histories.all.get(scripthash)!.flatMap(({tx_hash: txid, height}) => {
        const header = this.#headers.at(height)
        const key = `${scripthash}:${txid}:${header?.hash}`
        const address = this.#histories.addressOf(scripthash)
        return header && !this.#notified.has(key) ? [{key, address, txid, height, hash: header.hash}] : []
      }),
    )
    for (const {key, height} of await withoutRow(this.#options.db, this.#options.cursor.chain, named)) {
      this.#notified.add(key)
      this.#invalidatedHeight = Math.min(this.#invalidatedHeight, height)
    }
  }

  /**
   * What histories place in these blocks, and what has a row in the same block: a row was proven once, whatever a
   * server says now.
   */
  async #claimed(blocks: Place[]): Promise<Claims> {
    const claims: Claims = new Map(blocks.map(({height}) => [height, new Set()]))
    for (const history of this.#histories.all.values())
      for (const {tx_hash, height} of history) claims.get(height)?.add(tx_hash)
    const rows = await rowsIn(this.#options.db, this.#options.cursor.chain, blocks)
    const stored = rows.filter(({txid, height}) => !claims.get(height)!.has(txid))
    for (const {txid, height} of this.#options.readsAgainAbove ? await this.#stillThere(stored, blocks) : stored)
      claims.get(height)!.add(txid)
    return claims
  }

  /**
   * The stored transactions, without those that the server proves to be in none of these blocks. Histories do not count
   * here.
   */
  async #stillThere(stored: {txid: string; height: number}[], blocks: Place[]) {
    const contents: Claims = new Map()
    for (const place of blocks)
      if (stored.some(({height}) => height === place.height))
        contents.set(place.height, await this.#transactions.contentsOf(place))
    return stored.filter(({txid, height}) => contents.get(height)!.has(txid))
  }
}

/** The lowest of these blocks, up to the block that fills a call. */
function enough(blocks: Place[], claims: Claims): Place[] {
  let count = 0
  const last = blocks.findIndex(({height}) => {
    count += claims.get(height)!.size
    return count >= transactionsPerCall
  })
  return last < 0 ? blocks : blocks.slice(0, last + 1)
}
