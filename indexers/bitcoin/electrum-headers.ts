// The chain of headers that Electrum servers show, down to a known block. Promises: a header is accepted only if it has
// its proof of work and links to the one below it (headers.ts). After a reorganisation, the caller is notified as soon
// as the old branch is dropped.
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import {type BlockHeader, MalformedError} from '../../chains/bitcoin/block.ts'
import {ElectrumError} from '../../chains/bitcoin/electrum.ts'
import type {BlockRef} from '../cursor.ts'
import {CannotFollow} from '../follow.ts'
import type {ElectrumServers} from './electrum-servers.ts'
import {HeaderChain} from './headers.ts'
import {Hex, headerOf} from './shapes.ts'

const Tip = z.object({height: z.int().min(0), hex: Hex})
const Headers = z.object({count: z.int().min(0), hex: Hex})

const headersPerCall = 2016
/** How far below the top the first search for a reorganisation goes. */
const firstStepBack = 8

/** A block of our own chain of headers. */
export interface Place {
  height: number
  header: BlockHeader
}

export interface ElectrumHeadersOptions {
  /** The block below the lowest header. */
  base: () => Promise<BlockRef>
  easiestBits: number
}

export class ElectrumHeaders {
  readonly #servers: ElectrumServers
  readonly #options: ElectrumHeadersOptions
  /** Absent until the first poll. */
  #chain: HeaderChain | undefined
  /** The server's newest block at the last poll. */
  tip: BlockRef = {height: 0, hash: ''}

  constructor(servers: ElectrumServers, options: ElectrumHeadersOptions) {
    this.#servers = servers
    this.#options = options
  }

  /** The header of our own chain at a height; undefined if it has none. */
  at(height: number): BlockHeader | undefined {
    return this.#chain?.at(height)
  }

  /** The headers of our own chain above a height. */
  above(height: number, limit: number): Place[] {
    if (!this.#chain) throw new Error('the head must be requested before blocks')
    const found: Place[] = []
    for (let at = height + 1; at <= Math.min(height + limit, this.#chain.top.height); at++) {
      const header = this.#chain.at(at)
      if (header) found.push({height: at, header})
    }
    return found
  }

  async newest(): Promise<BlockRef> {
    return this.#chain ? this.tip : await this.#askTip()
  }

  /** The hashes of our own chain; where it has none, those of the server now; undefined if neither has one. */
  async hashesAt(heights: number[]): Promise<(string | undefined)[]> {
    const chain = this.#chain
    if (chain && heights.every(height => height >= chain.base.height)) return heights.map(at => chain.hashAt(at))
    return (await this.ask(heights)).map(header => header?.hash)
  }

  /** The server's headers now; undefined where it has none. */
  ask(heights: number[]): Promise<(BlockHeader | undefined)[]> {
    const calls = heights.map(height => ({method: 'blockchain.block.header', params: [height]}))
    return this.#servers.trusting(async electrum => {
      const responses = await electrum.batch(calls, Hex)
      return responses.map(response => (response instanceof ElectrumError ? undefined : headerOf(response)))
    })
  }

  /** Reads the server's current chain. Calls `forget` with the height above which the chain has changed. */
  async poll(forget: (above: number) => void): Promise<void> {
    this.#chain ??= new HeaderChain(await this.#options.base(), this.#options.easiestBits)
    const chain = this.#chain
    const tip = await this.#askTip()
    if (chain.hashAt(tip.height) !== tip.hash && tip.height >= chain.base.height) {
      const fork = await this.#forkBelow(chain, tip.height)
      if (fork < chain.top.height) {
        chain.cut(fork)
        forget(fork)
      }
      await this.#extend(chain, tip)
    }
    this.tip = tip
  }

  async #extend(chain: HeaderChain, tip: BlockRef): Promise<void> {
    while (chain.top.height < tip.height) {
      const from = chain.top.height + 1
      const more = await this.#askRange(from, Math.min(headersPerCall, tip.height - from + 1))
      if (!more.length || !chain.extend(more)) throw new RetryableError('the chain changed while its headers were read')
    }
    if (chain.top.hash !== tip.hash) throw new RetryableError('the head changed while its headers were read')
  }

  /** The height of our newest header that the server has too. */
  async #forkBelow(chain: HeaderChain, tipHeight: number): Promise<number> {
    const highest = Math.min(chain.top.height, tipHeight)
    if (highest === chain.top.height && tipHeight > highest) {
      const [next] = await this.#askRange(highest + 1, 1)
      if (next?.parentHash === chain.top.hash) return highest
    }
    for (let back = firstStepBack; ; back *= 2) {
      const from = Math.max(highest - Math.min(back, headersPerCall - 1), chain.base.height)
      const theirs = await this.#askRange(from, highest - from + 1)
      const same = theirs.findLastIndex(({hash}, i) => chain.hashAt(from + i) === hash)
      if (same >= 0) return from + same
      if (from === chain.base.height || back >= headersPerCall) {
        throw new CannotFollow(`block ${from} (${chain.hashAt(from)}) is not on the server's chain`)
      }
    }
  }

  async #askTip(): Promise<BlockRef> {
    const {height, hex} = await this.#servers.electrum.request('blockchain.headers.subscribe', [], Tip)
    return {height, hash: headerOf(hex).hash}
  }

  async #askRange(from: number, count: number): Promise<BlockHeader[]> {
    const response = await this.#servers.electrum.request('blockchain.block.headers', [from, count], Headers)
    if (response.count > count || response.hex.length !== response.count * 160)
      throw new MalformedError('the headers have the wrong length')
    return Array.from({length: response.count}, (_, i) => headerOf(response.hex.slice(i * 160, (i + 1) * 160)))
  }
}
