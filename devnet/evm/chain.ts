// A local EVM chain: anvil executes blocks, the journal stores them. Why not anvil alone, as measured on anvil 1.7.1:
// - it traces (debug_traceBlockByHash) from the states of old blocks, and forgets them after 3,000 to 4,000 blocks
//   ("Resource not found"), with --prune-history at once; without that, 15,000 almost empty blocks put 6 GB on disk,
//   and mining fell from 940 to 76 blocks/s;
// - a chain loaded from its own --state file traces none of the blocks before, and the file is written on exit, or
//   every so many seconds: after kill -9 the chain would restart below blocks that were final;
// - anvil_rollback leaves the base fee of the dropped blocks behind, so that the chain could not be executed again.
// Invariant: a block is a function of its parent, timestamp, coinbase and transactions in order, down to the hash. So
// each block is committed to the journal before any client sees it. A lost engine is started from a snapshot (1 KB
// each) some hundred blocks below the head, executes the blocks above it again, and must arrive at the same hash. A
// reorganisation does the same from a lower block. The engine is replaced every few thousand blocks, to limit its
// memory. Measured on 2 cores: 900 to 1,900 blocks/s at any height up to 60,000, 0.8 KB of disk per empty block, anvil
// at 40 to 90 MB, 0.2 s from kill -9 of anvil to the next response, 0.6 s to start, 0.2 to 0.3 s for a shallow
// reorganisation.
//
// Promises: the journal is the chain. Changes happen one at a time; a read of state waits for the change before it.
// Contracts must not depend on BLOCKHASH: anvil forgets the hashes before a snapshot (a chain that does not give the
// same hash from one snapshot is tried from older ones, and from genesis last).
import {EventEmitter} from 'node:events'
import {gunzipSync, gzipSync} from 'node:zlib'
import {type Hex, keccak256, numberToHex} from 'viem'
import {z} from 'zod'
import type {Head} from '../client.ts'
import {EngineGone, RpcError, Turns} from '../engine.ts'
import {Anvil, keptStates} from './anvil.ts'
import {chainIds, deployer, faucet, type LocalChainCode, multisendAddress} from './constants.ts'
import contracts from './contracts.json' with {type: 'json'}
import {Block, FullBlock, type Journal} from './journal.ts'
import {deployment, tokens} from './tokens.ts'

const snapshotIntervalBlocks = 250
const engineLifeBlocks = 3000
const commitBlocks = 50
const snapshotsTried = 3
const attempts = 3
const gasPrice = {maxFeePerGas: 100_000_000_000n, maxPriorityFeePerGas: 1_000_000_000n}

const State = z.looseObject({
  blocks: z.array(z.looseObject({header: z.looseObject({number: z.string()})})),
  transactions: z.array(z.unknown()),
})

/** A block to be made: with these transactions, or, if undefined, with those in the mempool. */
type BlockToMake = {timestamp: number; coinbase: string; raw?: string[]}

export class LocalChain extends EventEmitter<{block: [Block]}> {
  readonly code: LocalChainCode
  readonly #directory: string
  readonly #journal: Journal
  #engine: Anvil | undefined
  readonly #turns = new Turns()
  #closed = false

  private constructor(code: LocalChainCode, directory: string, journal: Journal) {
    super()
    this.setMaxListeners(0) // one per subscriber
    this.code = code
    this.#directory = directory
    this.#journal = journal
  }

  /** Continues the chain of the journal, or begins it with the contracts in block 1. */
  static async open(code: LocalChainCode, directory: string, journal: Journal): Promise<LocalChain> {
    const chain = new LocalChain(code, directory, journal)
    try {
      await chain.#change(engine => chain.#begin(engine))
    } catch (error) {
      await chain.close()
      throw error
    }
    return chain
  }

  get chainId(): number {
    return chainIds[this.code]
  }

  get head(): Head {
    const {head} = this.#journal
    if (!head) throw new Error('the chain has no block yet')
    return head
  }

  /** The head after the pending changes. */
  async settledHead(): Promise<Head> {
    await this.#turns.over()
    return this.head
  }

  get journal(): Journal {
    return this.#journal
  }

  /** Whether block 1 made this contract. An older chain continues without it. */
  has(contract: string): boolean {
    return this.#block(1).receipts.some(({contractAddress}) => contractAddress === contract.toLowerCase())
  }

  /** Reads state from the engine, after the pending changes. Rejects with RpcError if anvil refuses. */
  async query(method: string, params: unknown[]): Promise<unknown> {
    for (let attempt = 1; ; attempt++) {
      await this.#turns.over()
      const engine = this.#engine?.alive ? this.#engine : await this.#change(async engine => engine)
      try {
        return await engine.call(method, params)
      } catch (error) {
        if (error instanceof RpcError || attempt === attempts) throw error
        await this.#drop(engine)
      }
    }
  }

  /** Sends a raw transaction to the mempool, where it stays until it is mined. Resolves to its txid. */
  async submit(raw: string): Promise<string> {
    return await this.#change(engine => this.#submit(engine, raw))
  }

  /** Signs for one of anvil's accounts and submits; the nonce is the next free one, also for concurrent callers. */
  async submitAs(
    account: typeof faucet,
    request: {to?: Hex; data?: Hex; value?: bigint; gas?: bigint},
  ): Promise<string> {
    const {to, data, value} = request
    return await this.#change(async engine => {
      const nonce = Number(await ask(engine, 'eth_getTransactionCount', [account.address, 'pending']))
      const call = {from: account.address, to, data, value: value === undefined ? undefined : numberToHex(value)}
      const gas = request.gas ?? BigInt(z.string().parse(await ask(engine, 'eth_estimateGas', [call])))
      return await this.#submit(engine, await account.signTransaction(this.#request({...request, gas, nonce})))
    })
  }

  /** Mines this many blocks; the first takes the mempool. Block times end with now, or run ahead of it. */
  async mine(count: number): Promise<Head> {
    let target: number | undefined // set once, so that a retry after a lost engine continues where the last one stopped
    return await this.#change(async given => {
      let engine = given
      target ??= this.head.height + count
      while (this.head.height < target) {
        const blocks: FullBlock[] = []
        for (let height = this.head.height + 1; height <= target && blocks.length < commitBlocks; height++) {
          const parent = blocks.at(-1)?.block ?? this.head
          blocks.push(await execute(engine, this.#plan(Number(parent.timestamp), target - height)))
        }
        this.#commit(blocks)
        engine = await this.#housekeep(engine)
      }
      return this.head
    })
  }

  /**
   * Replaces the top `depth` blocks by `depth + 1` new ones. With keepTransactions each transaction is mined again, one
   * block later than before; without, they are gone. Rejects with RangeError unless 1 <= depth <= height of the head.
   */
  async reorg(depth: number, {keepTransactions}: {keepTransactions: boolean}): Promise<Head> {
    return await this.#change(async () => {
      const fork = this.#below(depth)
      this.#journal.countFork()
      const engine = await this.#restore(fork)
      const blocks: FullBlock[] = []
      for (let offset = 1; offset <= depth + 1; offset++) {
        const timestamp = Number(blocks.at(-1)?.block.timestamp ?? this.#block(fork).block.timestamp)
        const raw = this.#transactionsAgain(fork, offset, keepTransactions)
        blocks.push(await execute(engine, {...this.#plan(timestamp, depth + 1 - offset), raw}))
      }
      this.#commit(blocks)
      await this.#fillPool(engine)
      return this.head
    })
  }

  #below(depth: number): number {
    try {
      return this.#journal.below(depth)
    } catch (error) {
      throw new Refused(error as RangeError)
    }
  }

  /**
   * The transactions that the new block at fork + offset takes from the old chain. The contracts of block 1 stay in
   * block 1.
   */
  #transactionsAgain(fork: number, offset: number, keepTransactions: boolean): string[] {
    if (fork + offset === 1) return this.#block(1).raw
    const old = fork + offset - 1
    return keepTransactions && old > fork && old !== 1 ? this.#block(old).raw : []
  }

  /** Removes transactions from the mempool. */
  async forget(txids: string[]): Promise<void> {
    await this.#change(async engine => {
      for (const txid of txids) await ask(engine, 'anvil_dropTransaction', [txid])
      this.#journal.removeFromPool(txids)
    })
  }

  /** Ends the engine. A change under way is lost, and no client saw it. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#engine?.kill()
    await this.#turns.over()
    await this.#engine?.kill()
  }

  // --- one change after the other ---

  /**
   * Runs `work` after all changes before it, with an engine at the head. A lost engine is replaced and `work` runs
   * again.
   */
  async #change<T>(work: (engine: Anvil) => Promise<T>): Promise<T> {
    return await this.#turns.take(() => this.#attempt(work))
  }

  async #attempt<T>(work: (engine: Anvil) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      if (this.#closed) throw new EngineGone('the local chain is stopping')
      try {
        const engine = this.#engine?.alive ? this.#engine : await this.#restoreHead()
        return await work(engine)
      } catch (error) {
        if (error instanceof Refused) throw error.cause
        if (this.#engine) await this.#drop(this.#engine) // it may be ahead of the journal
        if (!(error instanceof EngineGone) || attempt === attempts) throw error
      }
    }
  }

  async #drop(engine: Anvil): Promise<void> {
    if (this.#engine === engine) this.#engine = undefined
    await engine.kill()
  }

  // --- the engine ---

  /** The first blocks, if they are missing: the engine's own genesis, and the contracts. */
  async #begin(engine: Anvil): Promise<void> {
    if (this.head.height >= 1) return
    const [usdc, ...others] = tokens.map(token => ({data: deployment(token, faucet.address), at: token.contract}))
    const multisend = {data: contracts.Multisend.bytecode as Hex, at: multisendAddress}
    const deployments = [usdc!, multisend, ...others]
    const raw = await Promise.all(
      deployments.map(({data}, nonce) => deployer.signTransaction(this.#request({data, nonce, gas: 3_000_000n}))),
    )
    const block = await execute(engine, {...this.#plan(this.head.timestamp, 0), raw})
    const made = block.receipts.map(receipt => z.string().parse(receipt.contractAddress).toLowerCase())
    const expected = deployments.map(({at}) => at.toLowerCase())
    if (String(made) !== String(expected)) throw new Error(`the contracts are at ${made}, not at ${expected}`)
    this.#commit([block])
  }

  async #restoreHead(): Promise<Anvil> {
    const height = this.#journal.head?.height
    const engine = height === undefined ? await this.#genesis() : await this.#restore(height)
    await this.#fillPool(engine)
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
  async #restore(height: number): Promise<Anvil> {
    const genesis = Number(this.#journal.meta('genesis_timestamp'))
    for (const snapshot of [...this.#journal.snapshots(height - keptStates, snapshotsTried), undefined]) {
      const engine = await this.#start(genesis)
      if (snapshot) await engine.call('anvil_loadState', [`0x${Buffer.from(snapshot.state).toString('hex')}`])
      if (await this.#replay(engine, snapshot?.height ?? 0, height)) return engine
      await this.#drop(engine)
    }
    throw new Error(
      `anvil cannot reproduce block ${height} of the journal; remove ${this.#directory} to begin a new chain`,
    )
  }

  /** Executes the blocks above `from` up to `to` again; false as soon as the result differs from the journal. */
  async #replay(engine: Anvil, from: number, to: number): Promise<boolean> {
    for (let height = from + 1; height <= to; height++) {
      const {block, raw} = this.#block(height)
      await build(engine, {timestamp: Number(block.timestamp), coinbase: block.miner, raw})
    }
    return (await blockAt(engine, 'latest')).hash === this.#block(to).block.hash
  }

  async #start(genesis: number): Promise<Anvil> {
    if (this.#engine) await this.#drop(this.#engine)
    const engine = await Anvil.start(this.#directory, {chainId: this.chainId, genesis})
    this.#engine = engine
    engine.onExit(() => {
      // A killed engine is replaced at once.
      if (this.#engine === engine && !this.#closed) this.#change(async () => {}).catch(() => {})
    })
    if (this.#closed) await engine.kill()
    return engine
  }

  /** Gives a new engine the unconfirmed transactions; those that can no longer be mined are forgotten. */
  async #fillPool(engine: Anvil): Promise<void> {
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
  async #housekeep(engine: Anvil): Promise<Anvil> {
    const {height} = this.head
    const [newest] = this.#journal.snapshots(height, 1)
    if (height - (newest?.height ?? 0) >= snapshotIntervalBlocks)
      this.#journal.saveSnapshot(height, await dump(engine, height))
    return engine.mined < engineLifeBlocks ? engine : await this.#restoreHead()
  }

  // --- blocks ---

  async #submit(engine: Anvil, raw: string): Promise<string> {
    const txid = z.string().parse(await ask(engine, 'eth_sendRawTransaction', [raw]))
    this.#journal.addToPool({txid, raw})
    return txid
  }

  #commit(blocks: FullBlock[]): void {
    this.#journal.commit(blocks)
    for (const {block} of blocks) this.emit('block', block)
  }

  /** The time of the next block after one of time `parent`, when `after` more follow: as late as now allows. */
  #plan(parent: number, after: number): BlockToMake {
    const now = Math.floor(Date.now() / 1000)
    // Each fork has its own coinbase: an empty block that replaces an empty block must have another hash.
    const coinbase = `0xc01bba5e${String(this.#journal.forks).padStart(32, '0')}`
    return {timestamp: Math.max(parent + 1, now - after), coinbase}
  }

  #block(height: number): FullBlock {
    const block = this.#journal.block(height)
    if (!block) throw new Error(`the journal has no block ${height}`)
    return block
  }

  #request(request: {to?: Hex; data?: Hex; value?: bigint; gas: bigint; nonce: number}) {
    return {type: 'eip1559', chainId: this.chainId, ...gasPrice, ...request} as const
  }
}

/** The caller's error, not the engine's, which stays. */
class Refused extends Error {
  constructor(cause: Error) {
    super(cause.message, {cause})
  }
}

/** A call that changes no block, and that anvil may refuse. */
async function ask(engine: Anvil, method: string, params: unknown[]): Promise<unknown> {
  try {
    return await engine.call(method, params)
  } catch (error) {
    throw error instanceof RpcError ? new Refused(error) : error
  }
}

/** Makes a block and reads all of it. */
async function execute(engine: Anvil, plan: BlockToMake): Promise<FullBlock> {
  await build(engine, plan)
  const block = await blockAt(engine, 'latest')
  const txids = block.transactions.map(transaction => transaction.hash)
  if (plan.raw && String(txids) !== String(plan.raw.map(raw => keccak256(raw as Hex))))
    throw new Error(`block ${Number(block.number)} has other transactions than planned`)
  if (txids.length === 0) return {block, raw: [], receipts: [], callTraces: [], traces: []}
  const [raw, receipts, callTraces, traces] = await Promise.all([
    Promise.all(txids.map(txid => engine.call('eth_getRawTransactionByHash', [txid]))),
    engine.call('eth_getBlockReceipts', [block.number]),
    engine.call('debug_traceBlockByHash', [block.hash, {tracer: 'callTracer'}]),
    engine.call('trace_block', [block.number]),
  ])
  return FullBlock.parse({block, raw, receipts, callTraces, traces})
}

async function build(engine: Anvil, {timestamp, coinbase, raw}: BlockToMake): Promise<void> {
  for (const transaction of raw ?? []) await engine.call('eth_sendRawTransaction', [transaction])
  if (engine.coinbase !== coinbase) await engine.call('anvil_setCoinbase', [coinbase])
  engine.coinbase = coinbase
  await engine.call('evm_mine', [{timestamp}])
  engine.mined++
}

async function blockAt(engine: Anvil, height: number | 'latest'): Promise<Block> {
  const at = typeof height === 'number' ? numberToHex(height) : height
  return Block.parse(await engine.call('eth_getBlockByNumber', [at, true]))
}

/** The engine's state with its last block only: accounts do not grow with the chain, blocks would. */
async function dump(engine: Anvil, height: number): Promise<Uint8Array> {
  const dumped = z.string().parse(await engine.call('anvil_dumpState'))
  const state = State.parse(JSON.parse(gunzipSync(Buffer.from(dumped.slice(2), 'hex')).toString()))
  const blocks = state.blocks.filter(({header}) => Number(header.number) === height)
  return gzipSync(JSON.stringify({...state, blocks, transactions: []}))
}
