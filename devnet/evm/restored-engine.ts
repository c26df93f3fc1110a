// The engine of a local EVM chain: an anvil at a block of the journal. A lost one is started from a snapshot (1 KB
// each) some hundred blocks below that block, executes the blocks above it again, and must arrive at the same hash. It
// is replaced every few thousand blocks, to limit its memory. Why not anvil alone, as measured on anvil 1.7.1:
// - it traces (debug_traceBlockByHash) from the states of old blocks, and forgets them after 3,000 to 4,000 blocks
//   ("Resource not found"), with --prune-history at once; without that, 15,000 almost empty blocks put 6 GB on disk,
//   and mining fell from 940 to 76 blocks/s;
// - a chain loaded from its own --state file traces none of the blocks before, and the file is written on exit, or
//   every so many seconds: after kill -9 the chain would restart below blocks that were final;
// - anvil_rollback leaves the base fee of the dropped blocks behind, so that the chain could not be executed again.
import {RpcError} from '../engine.ts'
import {Anvil, keptStates} from './anvil.ts'
import type {Journal} from './journal.ts'
import {blockAt, build, dump} from './make-block.ts'

const snapshotIntervalBlocks = 250
const engineLifeBlocks = 3000
const snapshotsTried = 3

interface Options {
  directory: string
  chainId: number
  journal: Journal
  /** It died, and was not asked to. */
  onDeath(): void
}

export class RestoredEngine {
  readonly #options: Options
  #engine: Anvil | undefined
  #closed = false

  constructor(options: Options) {
    this.#options = options
  }

  get isClosed(): boolean {
    return this.#closed
  }

  get #journal(): Journal {
    return this.#options.journal
  }

  /** The one that runs, or a new one at the head. */
  async atHead(): Promise<Anvil> {
    return this.running ?? (await this.#restoreHead())
  }

  get running(): Anvil | undefined {
    return this.#engine?.alive ? this.#engine : undefined
  }

  /** Ends this one, by default the one that there is. */
  async drop(engine = this.#engine): Promise<void> {
    if (this.#engine === engine) this.#engine = undefined
    await engine?.kill()
  }

  async #restoreHead(): Promise<Anvil> {
    const height = this.#journal.head?.height
    const engine = height === undefined ? await this.#genesis() : await this.restore(height)
    await this.fillPool(engine)
    return engine
  }

  /** An engine for a chain without blocks: its genesis becomes the chain's. */
  async #genesis(): Promise<Anvil> {
    const genesis = Math.floor(Date.now() / 1000)
    const engine = await this.#start(genesis)
    const block = await blockAt(engine, 0)
    this.#journal.setMeta('genesis_timestamp', String(genesis))
    this.#journal.commit([{block, raw: [], receipts: [], callTraces: [], traces: []}])
    return engine
  }

  /**
   * Replaces the engine by one whose head is the chain's block at `height`, with an empty mempool. It starts far enough
   * below that the states of the blocks before the head can be queried, too.
   */
  async restore(height: number): Promise<Anvil> {
    const genesis = Number(this.#journal.meta('genesis_timestamp'))
    for (const snapshot of [...this.#journal.snapshots(height - keptStates, snapshotsTried), undefined]) {
      const engine = await this.#start(genesis)
      if (snapshot) await engine.call('anvil_loadState', [`0x${Buffer.from(snapshot.state).toString('hex')}`])
      if (await this.#replay(engine, snapshot?.height ?? 0, height)) return engine
      await this.drop(engine)
    }
    throw new Error(
      `anvil cannot reproduce block ${height} of the journal; remove ${this.#options.directory} to begin a new chain`,
    )
  }

  /** Executes the blocks above `from` up to `to` again; false as soon as the result differs from the journal. */
  async #replay(engine: Anvil, from: number, to: number): Promise<boolean> {
    for (let height = from + 1; height <= to; height++) {
      const {block, raw} = this.#journal.mustHave(height)
      await build(engine, {timestamp: Number(block.timestamp), coinbase: block.miner, raw})
    }
    return (await blockAt(engine, 'latest')).hash === this.#journal.mustHave(to).block.hash
  }

  async #start(genesis: number): Promise<Anvil> {
    if (this.#engine) await this.drop(this.#engine)
    const {directory, chainId, onDeath} = this.#options
    const engine = await Anvil.start(directory, {chainId, genesis})
    this.#engine = engine
    engine.onExit(() => {
      if (this.#engine === engine && !this.#closed) onDeath()
    })
    if (this.#closed) await engine.kill()
    return engine
  }

  /** Gives a new engine the unconfirmed transactions; those that can no longer be mined are forgotten. */
  async fillPool(engine: Anvil): Promise<void> {
    for (const {txid, raw} of this.#journal.pool()) {
      try {
        await engine.call('eth_sendRawTransaction', [raw])
      } catch (error) {
        if (!(error instanceof RpcError)) throw error
        this.#journal.removeFromPool([txid])
      }
    }
  }

  /** Takes a snapshot now and then, and replaces an engine that has grown. */
  async housekeep(engine: Anvil): Promise<Anvil> {
    const {height} = this.#journal.head!
    const [newest] = this.#journal.snapshots(height, 1)
    if (height - (newest?.height ?? 0) >= snapshotIntervalBlocks)
      this.#journal.saveSnapshot(height, await dump(engine, height))
    return engine.mined < engineLifeBlocks ? engine : await this.#restoreHead()
  }

  /** Ends it for ever; `over` is the work under way. */
  async close(over: () => Promise<void>): Promise<void> {
    this.#closed = true
    await this.#engine?.kill()
    await over()
    await this.#engine?.kill()
  }
}
