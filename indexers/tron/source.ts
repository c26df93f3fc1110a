// A Tron chain as its nodes show it. Promises: each block is whole, or it is refused: its id and the ids of its
// transactions are computed; it links; each of its transactions has what came of it, and nothing else has; and its
// transactions have the root in its header. Where only the root is wrong, the node is asked again, and then the other
// one; if no node has a block with the root, it is believed, and noted. What contracts moved is covered by no root:
// there the node is believed.
import {eachOf} from '../../base/each-of.ts'
import {RetryableError} from '../../base/errors.ts'
import {caip2} from '../../chains/registry.ts'
import {emptyRoot, txTrieRoot} from '../../chains/tron/block.ts'
import {refusedToken} from '../../chains/tron/check-tokens.ts'
import type {Block, BlockHeader, Info, TronNode, TronNodes} from '../../chains/tron/client.ts'
import type {TronSettings} from '../../chains/tron/settings.ts'
import type {ReadBlock} from '../block.ts'
import type {BlockRef, Expired} from '../cursor.ts'
import type {BlockTimes, Link} from '../family.ts'
import type {ChainSource} from '../follow.ts'
import {assertOneNetwork, otherNetwork} from '../one-network.ts'
import {Waiting} from '../waits.ts'
import {BlockClock} from './block-clock.ts'
import {hidesInternals, readBlock} from './read-block.ts'

/** Blocks of a busy chain have some 100 kB each. */
const blocksPerCall = 20
/** The newest final blocks that are looked at before the chain is followed. */
const looksAt = 10

/** The node does not give a block with all that is read from it. */
class Incomplete extends RetryableError {}

const savesNoInternals =
  'the node does not save internal transactions, so value that contracts move would be missed: set vm.saveInternalTx = true in its configuration and have it read the chain again, or use another node'

async function networkOf(node: TronNode): Promise<string> {
  const first = await node.header(0)
  if (!first) throw new RetryableError('the node does not show its first block')
  return caip2('tron', `0x${first.hash.slice(-8)}`)
}

export class TronSource implements ChainSource {
  readonly #nodes: TronNodes
  readonly #native: string
  readonly tokens: ReadonlyMap<string, string>
  readonly #settings: TronSettings
  readonly #noteUnproven: (block: BlockRef) => Promise<void>
  /** The node's statement that a block is solidified is enough, if it names its hash. */
  readonly confirmations = 1
  /** A block's time is that of its slot; each slot is later than the one before. */
  readonly blockTimes: BlockTimes = {medianOf: 1, marginMs: 60_000}
  readonly #clock: BlockClock

  /**
   * `noteUnproven` is called with each block that is believed although its transactions have not the root in its
   * header.
   */
  constructor(nodes: TronNodes, settings: TronSettings, noteUnproven: (block: BlockRef) => Promise<void>) {
    this.#nodes = nodes
    this.#noteUnproven = noteUnproven
    this.#settings = settings
    this.#clock = new BlockClock(settings.chain.networks[settings.network].slotMs)
    this.#native = settings.chain.assets[0].token
    this.tokens = settings.tokens
  }

  async network(): Promise<string> {
    return await this.#nodes.ask(networkOf)
  }

  async head(): Promise<BlockRef> {
    const head = await this.#nodes.ask(node => node.header())
    if (!head) throw new RetryableError('the node has no block')
    this.#clock.saw(head.time)
    return head
  }

  pauseMs(pollMs: number): number {
    return this.#clock.pauseMs(pollMs)
  }

  async finalBlock(): Promise<BlockRef> {
    return await this.#nodes.ask(node => node.solidHeader())
  }

  async blockAt(height: number): Promise<(BlockRef & {time: Date}) | undefined> {
    const header = await this.#header(height)
    return header && {height, hash: header.hash, time: new Date(header.time)}
  }

  async hashAt(height: number): Promise<string | undefined> {
    return (await this.#header(height))?.hash
  }

  async hashesAt(heights: number[]): Promise<(string | undefined)[]> {
    return await eachOf(heights, height => this.hashAt(height))
  }

  /** The links between blocks. */
  async links(heights: number[]): Promise<Link[]> {
    return await eachOf(heights, async height => {
      const header = await this.#header(height)
      if (header) return {height, hash: header.hash, parentHash: header.parentHash}
      throw new RetryableError(`the node has no block ${height}`)
    })
  }

  async lacks(height: number): Promise<string | undefined> {
    try {
      const [block] = await this.blocksAbove(height - 1, 1)
      return block ? undefined : 'it has no such block'
    } catch (error) {
      if (error instanceof Incomplete) return error.message
      throw error
    }
  }

  /** Why the chain must not be followed with this node. */
  async refusal(): Promise<string | undefined> {
    await assertOneNetwork(this.#nodes, networkOf)
    const hides = await this.#nodes.ask(async node => {
      const {height} = await node.solidHeader()
      const heights = Array.from({length: Math.min(looksAt, height)}, (_, i) => height - i)
      return (await eachOf(heights, at => node.infos(at))).flat().some(hidesInternals)
    })
    if (hides) throw new Waiting('blocks_missing', savesNoInternals)
    return await refusedToken(this.#settings, this.#nodes)
  }

  async block(height: number): Promise<ReadBlock> {
    const [block] = await this.blocksAbove(height - 1, 1)
    if (block) return block
    throw new RetryableError(`the node has no block ${height}`)
  }

  async blocksAbove(below: number, limit: number): Promise<ReadBlock[]> {
    return await this.#nodes.ask(async node => {
      const blocks = await node.blocks(below + 1, Math.min(limit, blocksPerCall))
      if (blocks.some(({height}, i) => height !== below + 1 + i)) throw new RetryableError('the node left out a block')
      return await eachOf(blocks, block => this.#whole(node, block))
    })
  }

  /**
   * What both nodes, if there are two, say of a transaction that no block of ours holds: each is past its end, and has
   * not solidified it. A node that is away proves nothing.
   */
  readonly proveAbsent = async ({txid, lifetimeEnd}: Expired): Promise<object | string> => {
    const other = await otherNetwork(this.#nodes, networkOf)
    if (other) return `a node is on another network (${other})`
    const solid: object[] = []
    for (const node of this.#nodes.all) {
      const {height, hash, time} = await node.solidHeader()
      if (time < lifetimeEnd) return `the solidified block ${height} of a node is not past the end of the transaction`
      if (await node.hasSolid(txid)) return 'a node has the transaction in a solidified block, which Sluice has not'
      solid.push({height, hash, time})
    }
    return {solid}
  }

  async #header(height: number): Promise<BlockHeader | undefined> {
    const header = await this.#nodes.ask(node => node.header(height))
    if (header && header.height !== height) throw new RetryableError(`the node sent another block than ${height}`)
    return header
  }

  async #whole(node: TronNode, block: Block): Promise<ReadBlock> {
    const read = await this.#withRoot(node, block)
    const infos = read.transactions.length ? await node.infos(block.height) : []
    assertComplete(read, infos)
    if (!hasRoot(read)) await this.#noteUnproven(read)
    return readBlock(read, new Map(infos.map(info => [info.txid, info])), {native: this.#native, tokens: this.tokens})
  }

  /** The block with the transactions that its header commits to; with others only if no node has those. */
  async #withRoot(node: TronNode, block: Block): Promise<Block> {
    if (hasRoot(block)) return block
    for (const asked of [node, ...this.#nodes.others]) {
      const [again] = await asked.blocks(block.height, 1).catch((): Block[] => [])
      if (again?.hash === block.hash && hasRoot(again)) return again
    }
    if (block.transactions.length) return block
    throw new Incomplete(`the node shows no transactions of block ${block.height}, which has some by its header`)
  }
}

const hasRoot = ({txTrieRoot: root, transactions}: Block) => txTrieRoot(transactions) === (root || emptyRoot)

/**
 * Nodes under load send an empty list for a block that has transactions, and one that changes its chain may send those
 * of another block.
 */
function assertComplete({height, time, transactions}: Block, infos: Info[]): void {
  const known = new Set(infos.map(({txid}) => txid))
  const isOfBlock = infos.every(info => info.height === height && info.time === time)
  const hasAll = infos.length === transactions.length && transactions.every(({txid}) => known.has(txid))
  if (!isOfBlock || !hasAll)
    throw new Incomplete(`the node does not say of each transaction of block ${height} what came of it`)
  if (infos.some(hidesInternals)) throw new Incomplete(savesNoInternals)
}
