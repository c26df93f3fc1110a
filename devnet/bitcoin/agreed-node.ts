// The node of a local Bitcoin chain, made to agree with the journal: missing blocks are submitted, extra ones are
// invalidated, and its mempool gets exactly the unconfirmed transactions. So both a bitcoind that lost unwritten blocks
// to kill -9 and a bcoin that has only its memory return with the state that clients saw. Promises: work that a dying
// node cut short is done again with the next one.
import {z} from 'zod'
import {EngineGone, RpcError} from '../engine.ts'
import type {BitcoinJournal} from './journal.ts'
import {BitcoinNode, type NodeKind} from './node.ts'

const attempts = 3
/** As many blocks are committed, or given to the node, at once. */
export const batchBlocks = 50

export const Txids = z.array(z.string())

/** The node refuses a block. */
export class Rejected extends Error {}

interface Options {
  kind: NodeKind
  directory: string
  journal: BitcoinJournal
  /** It agrees with the journal, which lacks now what the node refused of the mempool. */
  onAgreed(): void
  /** It died, and was not asked to. */
  onDeath(): void
}

export class AgreedNode {
  readonly #options: Options
  #node: BitcoinNode | undefined
  #closed = false

  constructor(options: Options) {
    this.#options = options
  }

  /** Makes it agree with the journal; starts it if it does not run. Throws Rejected if it refuses a block. */
  async agree(): Promise<void> {
    await this.with(
      node => this.#agree(node),
      () => this.start(),
    )
    this.#options.onAgreed()
  }

  async ask(method: string, params: unknown[]): Promise<unknown> {
    return await this.with(node => node.call(method, params))
  }

  /** Works with a node that runs, and with the next one if it dies meanwhile; `restore` brings that one. */
  async with<T>(
    work: (node: BitcoinNode) => Promise<T>,
    restore: () => Promise<unknown> = () => this.agree(),
  ): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        if (!this.#node?.alive) await restore()
        return await work(this.#node!)
      } catch (error) {
        if (!(error instanceof EngineGone) || attempt === attempts || this.#closed) throw error
        await this.#node?.kill()
      }
    }
  }

  async #agree(given: BitcoinNode): Promise<void> {
    let node = given
    await this.#agreeOnBlocks(node)
    const waiting = this.#options.journal.pool()
    let has = new Set(Txids.parse(await node.call('getrawmempool', [])))
    const ours = new Set(waiting.map(({txid}) => txid))
    const surplus = [...has].filter(txid => !ours.has(txid))
    if (surplus.length && !(await node.forget(surplus))) {
      await node.stop()
      node = await this.start()
      await this.#agreeOnBlocks(node)
      has = new Set()
    }
    if (waiting.every(({txid}) => has.has(txid))) return
    for (const {txid, raw} of waiting) if (!has.has(txid)) await offer(node, raw)
    has = new Set(Txids.parse(await node.call('getrawmempool', [])))
    this.#options.journal.removeFromPool(waiting.map(({txid}) => txid).filter(txid => !has.has(txid)))
  }

  async #agreeOnBlocks(node: BitcoinNode): Promise<void> {
    const {journal} = this.#options
    const {height: top, hash} = journal.head!
    const hashAt = async (height: number) => await node.call('getblockhash', [height])
    const height = async () => z.int().parse(await node.call('getblockcount', []))
    while ((await node.call('getbestblockhash', [])) !== hash) {
      let common = Math.min(await height(), top)
      while ((await hashAt(common)) !== journal.find(common)!.hash) common--
      for (let from = common + 1; from <= top; from += batchBlocks) {
        const heights = Array.from({length: Math.min(batchBlocks, top - from + 1)}, (_, i) => from + i)
        const refused = await node.submitBlocks(heights.map(height => journal.rawBlock(height)!.toString('hex')))
        if (refused) throw new Rejected(`the node refuses a block up to height ${top}: ${refused}`)
      }
      if ((await node.call('getbestblockhash', [])) === hash) return
      if ((await height()) < top) throw new Rejected(`the node refuses the blocks from height ${common + 1} on`)
      // The node has its own branch that is as long as ours or longer, and there may be another one behind that.
      await node.call('invalidateblock', [await hashAt(common + 1)])
    }
  }

  /** A node that agrees with nothing yet. */
  async start(): Promise<BitcoinNode> {
    if (this.#closed) throw new EngineGone('the chain is closed')
    await this.#node?.kill()
    const {directory, kind, onDeath} = this.#options
    const node = await BitcoinNode.start(directory, kind)
    this.#node = node
    node.onExit(() => {
      if (this.#node === node && !this.#closed) onDeath()
    })
    if (this.#closed) await node.kill()
    return node
  }

  /** The next work starts another one. */
  async stop(): Promise<void> {
    await this.#node?.stop()
  }

  /** Ends it for ever; `over` is the work under way. */
  async close(over: () => Promise<void>): Promise<void> {
    this.#closed = true
    await this.stop()
    await over()
    await this.#node?.kill()
  }
}

/** Sends a transaction to the mempool. Ignores a refusal: it may be invalid by now. */
async function offer(node: BitcoinNode, raw: string): Promise<void> {
  try {
    await node.call('sendrawtransaction', [raw, 0])
  } catch (error) {
    if (!(error instanceof RpcError)) throw error
  }
}
