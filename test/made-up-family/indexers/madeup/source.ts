// A chain of the made-up family as its node shows it. Promises: a block has the hash of its text, and the requested
// height.
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import {fee, genesis, hashOf, parseBlock, parseTransaction} from '../../chains/madeup/block.ts'
import {ask, Head} from '../../chains/madeup/client.ts'
import type {MadeUpSettings} from '../../chains/madeup/settings.ts'
import {caip2} from '../../chains/registry.ts'
import type {ReadBlock} from '../block.ts'
import type {BlockRef, Expired} from '../cursor.ts'
import type {ChainSource} from '../follow.ts'

/** The blocks at some heights; null if there is none. */
const Each = z.array(z.string().nullable())

/** Where a transaction is; null if it is in no block. */
const Place = z.object({head: Head, height: z.int().nullable()})

export const network = caip2('madeup', hashOf(genesis))

export class MadeUpSource implements ChainSource {
  readonly #settings: MadeUpSettings
  readonly confirmations: number
  readonly blockTimes = {medianOf: 1, marginMs: 1000}

  constructor(settings: MadeUpSettings) {
    this.#settings = settings
    this.confirmations = settings.confirmations
  }

  async network(): Promise<string> {
    return caip2('madeup', (await this.hashAt(0)) ?? 'nothing')
  }

  head(): Promise<BlockRef> {
    return ask(this.#settings, {method: 'head', response: Head})
  }

  async finalBlock(): Promise<BlockRef | undefined> {
    const height = Math.max((await this.head()).height - this.confirmations + 1, 0)
    const hash = await this.hashAt(height)
    return hash === undefined ? undefined : {height, hash}
  }

  /** The node says itself that none of its blocks up to the end holds it. */
  async proveAbsent({txid, lifetimeEnd}: Expired): Promise<object | string> {
    const place = await ask(this.#settings, {method: 'transaction', params: [txid], response: Place})
    if (place.height !== null) return `the node says that block ${place.height} holds it`
    if (place.head.height < lifetimeEnd) return `the node's head is ${place.head.height}, below its end ${lifetimeEnd}`
    return place
  }

  async hashesAt(heights: number[]): Promise<(string | undefined)[]> {
    const hashes = await ask(this.#settings, {method: 'hashes', params: heights, response: Each})
    return heights.map((_, i) => hashes[i] ?? undefined)
  }

  async hashAt(height: number): Promise<string | undefined> {
    return (await this.hashesAt([height]))[0]
  }

  async blockAt(height: number): Promise<ReadBlock | undefined> {
    return (await this.blocksAbove(height - 1, 1))[0]
  }

  async block(height: number): Promise<ReadBlock> {
    const block = await this.blockAt(height)
    if (block) return block
    throw new RetryableError(`the node has no block ${height}`)
  }

  async lacks(height: number): Promise<string | undefined> {
    return (await this.blockAt(height)) ? undefined : 'it has no such block'
  }

  async blocksAbove(below: number, limit: number): Promise<ReadBlock[]> {
    const params = Array.from({length: limit}, (_, i) => below + 1 + i)
    const texts = await ask(this.#settings, {method: 'blocks', params, response: Each})
    const end = texts.indexOf(null)
    const blocks = texts.slice(0, end < 0 ? limit : end).map(text => this.#read(text!))
    if (blocks.some(({height}, i) => height !== params[i])) throw new RetryableError('the node mixed blocks up')
    return blocks
  }

  #read(text: string): ReadBlock {
    const {height, hash, parentHash, time, transactions, failed} = parseBlock(text)
    const {token} = this.#settings.chain.assets[0]
    const read = transactions.map(parseTransaction).map(one => ({...one, executed: !failed.includes(one.txid)}))
    const candidates = read.flatMap(({txid, executed, from: sender, outputs}) =>
      (executed ? outputs : []).map(({to: recipientKey, amount}, outputIndex) => {
        return {txid, outputIndex, kind: 'native' as const, token, amount: BigInt(amount), sender, recipientKey}
      }),
    )
    const sent = read.map(({txid, from: senderKey, executed}) => ({txid, senderKey, executed, fee}))
    return {height, hash, parentHash, time: new Date(time), candidates, sent, spends: []}
  }
}
