// A world whose local chain runs in this process and mines all the time, behind a node that can lie, with the chain's
// indexer. The clock of the proofs is an hour ahead, so that only the chain decides when something has expired.
import {setTimeout as sleep} from 'node:timers/promises'
import {ExpiringWorld} from './expiring-world.ts'
import type {Indexer} from './indexer.ts'
import type {RpcProxy} from './rpc-proxy.ts'
import {until} from './until.ts'
import type {Running, Shop} from './world.ts'

export interface MinedParts extends Running {
  node: RpcProxy
  indexer: Indexer
  treasury: string
}

export abstract class MinedWorld extends ExpiringWorld {
  readonly node: RpcProxy
  readonly indexer: Indexer
  readonly treasury: string
  /** What reads the chain as the workers do. */
  readonly environment: Record<string, string>
  /** Blocks come without what waits. */
  isHeld = false
  isMining = true
  protected abstract readonly blockMs: number
  #isOver = false
  #miner: Promise<void> | undefined

  constructor({node, indexer, treasury, ...running}: MinedParts) {
    super(running)
    this.node = node
    this.indexer = indexer
    this.treasury = treasury
    this.environment = {...running.settings, ...running.source}
  }

  /** One block, with what waits, or without. */
  protected abstract mineOne(isHeld: boolean): void
  /** Sends base units from the faucet: of a token, or of the coin. Returns the txid. */
  protected abstract give(to: string, amount: bigint, token?: string): string
  /** The txids of what waits for a block. */
  abstract get pool(): string[]
  protected abstract closeChain(): void
  /** Blocks that are not final can leave; as many at most. */
  abstract readonly deepest: number
  /** Replaces the newest blocks. What was in them is in the next one, or waits for nothing. */
  abstract reorg(depth: number, keepTransactions: boolean): void
  /** The node forgets what waits. */
  abstract forgetAll(): void
  /** While nothing is taken into blocks: until what was signed before can be in none. */
  abstract holdPastEnd(): Promise<void>
  /** What an address has in the newest block, in base units. */
  abstract holds(address: string): bigint

  protected async begin(treasuryGets: bigint): Promise<void> {
    this.#miner = this.#mine()
    await this.moveClock(1)
    if (treasuryGets) await this.pay([this.treasury], [treasuryGets])
  }

  async close(): Promise<void> {
    this.#isOver = true
    await this.end(
      () => this.#miner,
      () => this.indexer.stop(),
      () => this.node.close(),
      () => this.closeChain(),
    )
  }

  async #mine(): Promise<void> {
    for (; !this.#isOver; await sleep(this.blockMs)) if (this.isMining) this.mineOne(this.isHeld)
  }

  protected abstract newAddress(): string

  /** A merchant whose users received these amounts, finally. */
  async openShop(
    amounts: bigint[],
    {wallet = this.newAddress(), token}: {wallet?: string; token?: string} = {},
  ): Promise<Shop> {
    const shop = await this.makeShop(amounts.length, wallet)
    await this.pay(shop.addresses, amounts, token)
    return shop
  }

  /** Pays from the faucet, and waits until it is final here. */
  async pay(to: string[], amounts: bigint[], token?: string): Promise<void> {
    const paid = to.map((address, i) => this.give(address, amounts[i]!, token))
    const final = `select from chain.transfer t join chain.cursor c using (chain) where t.txid = any($1) and t.block_height <= c.final_height`
    await until(async () => (await this.db.rows(final, [paid])).length === to.length, {
      timeoutMs: 30_000,
      what: 'payments from the faucet',
    })
  }

  async untilWaiting(txid: string): Promise<void> {
    await until(async () => this.pool.includes(txid), {timeoutMs: 20_000, what: 'the transaction to wait for a block'})
  }

  /** The node's answer to a call of its API is another one. */
  lie(method: string, to: (pass: () => Promise<unknown>) => unknown): void {
    this.node.behave = (call, pass) => (call.method.endsWith(method) ? to(pass) : pass())
  }
}
