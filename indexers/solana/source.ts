// A Solana chain as its nodes show it. Promises: heights are the heights of blocks; slots stay in here. Each list of
// blocks is one chain, linked by hashes, slots and heights. What a node leaves out, skips or does not show yet proves
// nothing: fewer blocks are returned then, or none. A block counts as ours at the node only if the node shows its hash,
// or that of a block that we linked to it.
import {eachOf} from '../../base/each-of.ts'
import {RetryableError} from '../../base/errors.ts'
import {caip2} from '../../chains/registry.ts'
import {
  type Block,
  type Commitment,
  type Header,
  type Latest,
  Pruned,
  type SlotFeed,
  type SolanaNode,
  type SolanaNodes,
} from '../../chains/solana/client.ts'
import type {ReadBlock, TokenCodes} from '../block.ts'
import type {BlockRef, Expired} from '../cursor.ts'
import type {BlockTimes, Link} from '../family.ts'
import type {ChainSource} from '../follow.ts'
import {assertOneNetwork, otherNetwork} from '../one-network.ts'
import {proveAbsent} from './absence.ts'
import {BlockFinder} from './find-block.ts'
import {Line} from './line.ts'
import {readBlock} from './read-block.ts'

/** Blocks of a busy chain have some megabytes each. */
const blocksPerCall = 20
/** Further than so many blocks below what a node lists, nothing is read from parent to parent. */
const longestWalk = 200
const checkEveryMs = 3_600_000
/**
 * What a single node says of a transaction that expired is believed only so long after its end: there is time to see
 * that it lies.
 */
const aloneMs = 180_000

interface Options {
  /** Of the blocks that are read. */
  commitment: Commitment
  codes: TokenCodes
  /** Why a token is not what the settings say. */
  refusedToken?: (node: SolanaNode) => Promise<string | undefined>
  /** Tells of new slots. */
  feed?: SlotFeed
}

const networkOf = async (node: SolanaNode) => caip2('solana', await node.genesis())

export class SolanaSource implements ChainSource {
  readonly #nodes: SolanaNodes
  readonly #commitment: Commitment
  readonly #codes: TokenCodes
  readonly #refusedToken: Options['refusedToken']
  readonly #line = new Line()
  /** The newest final block that a node named. */
  #final: Latest | undefined
  #checkedAt = Number.NEGATIVE_INFINITY
  readonly changed: ChainSource['changed']
  /** The node's statement that a block is finalized is enough, if it names its hash. */
  readonly confirmations = 1
  /** Times are estimates of the validators, and may be far off while slots are slow. */
  readonly blockTimes: BlockTimes = {medianOf: 1, marginMs: 600_000}

  constructor(nodes: SolanaNodes, {commitment, codes, refusedToken, feed}: Options) {
    this.#nodes = nodes
    this.#commitment = commitment
    this.#codes = codes
    this.#refusedToken = refusedToken
    this.changed = feed && (signal => feed.next(signal))
  }

  async network(): Promise<string> {
    return await this.#nodes.ask(networkOf)
  }

  /** Why the chain must not be followed with these nodes, or these tokens. */
  async refusal(): Promise<string | undefined> {
    await assertOneNetwork(this.#nodes, networkOf)
    return this.#refusedToken && (await this.#nodes.ask(this.#refusedToken))
  }

  async head(): Promise<BlockRef> {
    return await this.#nodes.ask(async node => {
      const latest = await node.latest(this.#commitment)
      if (Date.now() - this.#checkedAt > checkEveryMs) await this.#checkLifetime(node, latest)
      return latest
    })
  }

  async finalBlock(): Promise<BlockRef> {
    this.#final = undefined
    this.#final = await this.#nodes.ask(node => node.latest('finalized'))
    return this.#final
  }

  async blockAt(height: number): Promise<(BlockRef & {time: Date}) | undefined> {
    const header = await this.#shown(height)
    return header && {height, hash: header.hash, time: new Date(1000 * header.time)}
  }

  /** Without a request if the node's final block was linked to the block at this height. */
  async hashAt(height: number): Promise<string | undefined> {
    const final = this.#final && this.#line.at(this.#final.height)
    const linked = final?.hash === this.#final?.hash && final && this.#line.below(final, height)
    return (linked || (await this.#shown(height)))?.hash
  }

  async hashesAt(heights: number[]): Promise<(string | undefined)[]> {
    const found = await this.#nodes.ask(node => this.#headers(node, heights))
    return heights.map(height => found.get(height)?.hash)
  }

  /** The links between blocks. */
  async links(heights: number[]): Promise<Link[]> {
    const found = await this.#nodes.ask(node => this.#headers(node, heights))
    return heights.map(height => {
      const header = found.get(height)
      if (header) return {height, hash: header.hash, parentHash: header.parentHash}
      throw new RetryableError(`the node shows no block ${height}`)
    })
  }

  async lacks(height: number): Promise<string | undefined> {
    try {
      return (await this.#whole(height)) ? undefined : 'it shows no such block'
    } catch (error) {
      if (error instanceof Pruned) return error.message
      throw error
    }
  }

  async block(height: number): Promise<ReadBlock> {
    const block = await this.#whole(height)
    if (block) return readBlock(block, this.#codes)
    throw new RetryableError(`the node shows no block ${height}`)
  }

  async blocksAbove(below: number, limit: number): Promise<ReadBlock[]> {
    return await this.#nodes.ask(async node => {
      const first = this.#line.at(below) ? undefined : await this.#finder(node).find(below + 1) // the one below may be pruned
      const base = this.#line.at(below)?.slot ?? (first && first.slot - 1)
      if (base === undefined) return []
      const count = Math.min(limit, blocksPerCall)
      const slots = await this.#slotsAbove(node, base, count)
      const listed = await eachOf(slots.slice(0, count), slot => node.block(slot, this.#commitment))
      const blocks = await this.#linked(
        node,
        below,
        listed.filter(block => block !== undefined),
      )
      for (const block of blocks) this.#line.note(block)
      return blocks.slice(0, limit).map(block => readBlock(block, this.#codes))
    })
  }

  readonly proveAbsent = async (expired: Expired): Promise<object | string> => {
    const [from, end] = [await this.#shown(expired.lifetimeFrom), await this.#shown(expired.lifetimeEnd)]
    if (!from) return `the node does not have block ${expired.lifetimeFrom} any more`
    if (!end) return `the node does not show block ${expired.lifetimeEnd}, the end of the transaction`
    const waitMs = this.#nodes.all.length > 1 ? 0 : 1000 * end.time + aloneMs - Date.now()
    if (waitMs > 0) return `only one node is asked, which is believed in ${Math.ceil(waitMs / 1000)} s`
    const other = await otherNetwork(this.#nodes, networkOf)
    return other ? `a node is on another network (${other})` : await proveAbsent(this.#nodes, expired, from.slot)
  }

  #finder(node: SolanaNode): BlockFinder {
    return new BlockFinder(node, this.#commitment, this.#line)
  }

  /** Undefined if the node's chain is not as high, or the node no longer has the block. */
  async #shown(height: number): Promise<Header | undefined> {
    try {
      return await this.#nodes.ask(node => this.#finder(node).find(height))
    } catch (error) {
      if (error instanceof Pruned) return undefined
      throw error
    }
  }

  async #whole(height: number): Promise<Block | undefined> {
    return await this.#nodes.ask(async node => {
      const header = await this.#finder(node).find(height)
      const block = header && (await node.block(header.slot, this.#commitment))
      return block?.hash === header?.hash ? block : undefined
    })
  }

  /** The slots above one that have a block, as the node lists them, at least `count` if there are as many. */
  async #slotsAbove(node: SolanaNode, slot: number, count: number): Promise<number[]> {
    const near = await node.slots(slot + 1, slot + 2 * count + 64, this.#commitment)
    if (near.length) return near
    const {slot: newest} = await node.latest(this.#commitment)
    return await node.slots(slot + 1, newest, this.#commitment)
  }

  /**
   * One chain of these blocks and those between them that were not listed, from the height above `below` on, as far as
   * it is shown.
   */
  async #linked(node: SolanaNode, below: number, listed: Block[]): Promise<Block[]> {
    const chain: Block[] = []
    for (const block of listed.filter(({height}) => height > below)) {
      const last = chain.at(-1)
      const path = await this.#path(node, block, (last?.height ?? below) + 1)
      if (!path || (last && (path[0]!.parentHash !== last.hash || path[0]!.parentSlot !== last.slot))) return chain
      chain.push(...path)
    }
    return chain
  }

  /** The blocks from a height up to a block, on its chain; undefined if the node does not show all of them now. */
  async #path(node: SolanaNode, block: Block, from: number): Promise<Block[] | undefined> {
    if (block.height - from > longestWalk) return undefined
    const path = [block]
    while (path[0]!.height > from) {
      const {parentSlot, parentHash, height} = path[0]!
      const parent = await node.block(parentSlot, this.#commitment)
      if (parent?.hash !== parentHash || parent.height !== height - 1) return undefined
      path.unshift(parent)
    }
    return path
  }

  /**
   * The blocks at these heights on one chain, without those above it. Throws RetryableError if the node does not show
   * all of them now.
   */
  async #headers(node: SolanaNode, heights: number[]): Promise<Map<number, Header>> {
    const finder = this.#finder(node)
    const found = new Map<number, Header>()
    let above: Header | undefined
    for (const height of heights.toSorted((a, b) => b - a)) {
      const isNear = above && above.height - height <= longestWalk
      const header: Header | undefined = isNear ? await finder.descend(above!, height) : await finder.find(height)
      if (!header && above) throw new RetryableError(`the node does not show block ${height} now`)
      if (!header) continue
      if (!above && heights.length > 2 && !this.#line.parent(header)) await finder.prefetch(header, heights.length)
      found.set(height, header)
      above = header
    }
    return found
  }

  /**
   * Custody takes a transaction's end from the height of its blockhash: a node that counts in another way must not be
   * followed.
   */
  async #checkLifetime(node: SolanaNode, latest: Latest): Promise<void> {
    const header = await node.header(latest.slot, this.#commitment)
    if (!header) throw new RetryableError(`the node does not show its newest block, in slot ${latest.slot}`)
    if (header.height !== latest.height || header.hash !== latest.hash)
      throw new RetryableError(
        `the node names block ${header.height} (${header.hash}) with the last valid height of ${latest.height}: transactions would not expire when they are said to`,
      )
    this.#checkedAt = Date.now()
  }
}
