// Bitcoin as Electrum servers show it, for what the loop follows and for what is unconfirmed. Promises: a transaction counts as mined only by a
// merkle proof that leads to a header of our own chain of headers, and is read from bytes that have its id (electrum-transactions.ts,
// electrum-headers.ts); a server that contradicts itself, or offers a false proof, is dropped, and nothing is written; status tells of it, as long as
// the chain stands still for it (electrum-servers.ts); what is in no block, and the server does not have, is absent, whatever a history says; new
// addresses are subscribed before anything else is asked, and a history is taken only with its status (electrum-histories.ts). What a server keeps
// quiet about, and only that, it can keep from us.
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

/** Blocks are handed over until they hold so many. */
const transactionsPerCall = 2000

/** The ids of what is said to be in blocks, by their height. */
type Claims = Map<number, Set<string>>

export interface ElectrumSourceOptions {
  electrum: Electrum
  cursor: ChainCursor
  db: pg.Pool
  addresses: Pick<AddressFeed, 'take' | 'changed'>
  settings: Pick<BitcoinSettings, 'chain' | 'network' | 'confirmations'>
  log: Logger
  /** Where final blocks are read once more: the block below the lowest of them. Then what is stored is no proof of itself. */
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
  /** What was found late once, so that it is not found again where it leaves no row. */
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

  /** Whoever has the headers has an index of all that is in the blocks. */
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

  /** What links the blocks of these heights. */
  links(heights: number[]): Link[] {
    return heights.map(height => {
      const header = this.#headers.at(height)
      if (!header) throw new RetryableError(`the Electrum server has no block ${height}`)
      return {height, hash: header.hash, parentHash: header.parentHash}
    })
  }

  /** Believes nothing that was answered before, and asks the next server, where there are several. */
  askAnew(): void {
    this.#transactions.forget()
    this.#histories.outdateAll()
    this.#options.electrum.drop('another one is asked for a second opinion')
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
    // One in no block that the server has not is nowhere. One in a block that was not written yet is there all the same.
    if (missing.every(({txid, height}) => none.has(txid) && height <= 0))
      return {head, transactions: [...known.values()]}
  }

  /** Takes in everything that the server shows now: first what is new of us, then its chain, then what happened to us in it. */
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

  /** Of what is in blocks of ours, but has no row there: the lowest is to be written again. */
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

  /** What histories place in these blocks, and what has a row in the very block: that was proven once, whatever a server says now. */
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

  /** Those without the ones that the server proves to be in none of these blocks, whatever histories mention. */
  async #stillThere(stored: {txid: string; height: number}[], blocks: Place[]) {
    const contents: Claims = new Map()
    for (const place of blocks)
      if (stored.some(({height}) => height === place.height))
        contents.set(place.height, await this.#transactions.contentsOf(place))
    return stored.filter(({txid, height}) => contents.get(height)!.has(txid))
  }
}

/** The lowest of these blocks, up to the one with which they hold enough for a call. */
function enough(blocks: Place[], claims: Claims): Place[] {
  let count = 0
  const last = blocks.findIndex(({height}) => {
    count += claims.get(height)!.size
    return count >= transactionsPerCall
  })
  return last < 0 ? blocks : blocks.slice(0, last + 1)
}
