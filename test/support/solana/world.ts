// Payouts on Solana with everything they need: its local chain, whose blocks skip slots, its indexer, custody and
// workers as processes. There are two endpoints, so what expired is proved at once.
import type {Instruction} from '@solana/kit'
import type {SolanaApi} from '../../../devnet/solana/api.ts'
import {SolanaLocalChain} from '../../../devnet/solana/chain.ts'
import {newAddress} from '../../../devnet/solana/client.ts'
import {faucet, faucetKey} from '../../../devnet/solana/constants.ts'
import {SolanaJournal} from '../../../devnet/solana/journal.ts'
import {addressOfKey} from '../../../devnet/solana/keys.ts'
import {accountOf, issuerKey, tokenCalled, tokenPayment} from '../../../devnet/solana/tokens.ts'
import {payment, transactionWith} from '../../../devnet/solana/transaction.ts'
import {startCustody} from '../custody.ts'
import {testDatabase} from '../database.ts'
import {Indexer} from '../indexer.ts'
import {type MinedParts, MinedWorld} from '../mined-world.ts'
import {newHome} from '../processes.ts'
import {until} from '../until.ts'
import {treasuryOf} from '../world.ts'
import {freezeAccount} from './instructions.ts'
import {startNode} from './node.ts'

export const sol = 1_000_000_000n
/** The settings that name the tokens of the chain. */
const mints = Object.fromEntries(['USDC', 'USDT'].map(token => [`SOL_${token}_CONTRACT`, tokenCalled(token).mint]))
/** The finalized block trails the head by this many blocks. */
const finalized = 5

export class SolanaWorld extends MinedWorld {
  readonly solana: SolanaLocalChain
  /** What the first endpoint does wrong is set by `lie`, and in its `trouble`. */
  readonly endpoint: SolanaApi
  protected readonly blockMs = 150
  readonly deepest = finalized - 1

  private constructor(solana: SolanaLocalChain, endpoint: SolanaApi, parts: MinedParts) {
    super(parts)
    this.solana = solana
    this.endpoint = endpoint
  }

  /**
   * Starts everything but workers, and gives the treasury this much. A transaction lives for 151 blocks: 23 s, but
   * `mineEmpty` is faster.
   */
  static async open({treasury = 100n * sol, settings: more = {}} = {}): Promise<SolanaWorld> {
    const db = await testDatabase()
    const home = newHome()
    const solana = new SolanaLocalChain(new SolanaJournal(':memory:', 'SOL'), {finalized})
    solana.mine(1 + finalized)
    const {node, endpoint} = await startNode(solana)
    const source = {SOL_RPC_URL: node.httpUrl, SOL_RPC_URL_2: node.httpUrl}
    const settings = {
      SOL_NETWORK: 'local',
      ...mints,
      SOL_START_HEIGHT: '1',
      SOL_MIN_PAYOUT: 'SOL:0',
      ADDRESS_POOL_SIZE: '40',
      ...more,
    }
    const indexer = Indexer.start({db, chain: 'SOL', environment: {...source, ...settings}})
    const custody = await startCustody(db, home, settings)
    const chain = 'SOL'
    const parts = {
      chain,
      db,
      home,
      custody,
      settings,
      source,
      node,
      indexer,
      treasury: await treasuryOf(db, 'solana'),
    } as const
    const world = new SolanaWorld(solana, endpoint, parts)
    await world.begin(treasury)
    return world
  }

  protected mineOne(isHeld: boolean): void {
    this.solana.mine(1, {skip: this.solana.head.height % 3, ...(isHeld && {only: []})})
  }

  protected give(to: string, amount: bigint, token?: string): string {
    if (token) return this.submit(tokenPayment(tokenCalled(token), {from: faucet, to, amount}), [])
    return this.solana.submit(payment({key: faucetKey, on: this.solana.head.hash}, to, amount))
  }

  /** In a block when this resolves. */
  async done(txid: string): Promise<void> {
    await until(async () => this.solana.journal.heightOf(txid), {timeoutMs: 20_000, what: `${txid} in a block`})
  }

  /** What the issuer of the tokens does with the account of an owner. */
  async freeze(token: string, owner: string, isFrozen = true): Promise<void> {
    const of = tokenCalled(token)
    const account = accountOf(of, owner)
    const instruction = freezeAccount(of, {account, by: addressOfKey(issuerKey), isFrozen})
    await this.done(this.submit([instruction], [issuerKey]))
  }

  /** What an owner has of a token in the newest block, in all its accounts. */
  holdsToken(token: string, owner: string): bigint {
    return this.solana.tokenBalance(owner, tokenCalled(token).mint)
  }

  /** A transaction that the faucet pays for. */
  submit(instructions: Instruction[], others: Uint8Array[]): string {
    return this.solana.submit(transactionWith(instructions, {key: faucetKey, on: this.solana.head.hash, others}))
  }

  get pool(): string[] {
    return this.solana.journal.pool().map(({txid}) => txid)
  }

  protected closeChain(): void {
    this.solana.journal.close()
  }

  protected newAddress(): string {
    return newAddress()
  }

  reorg(depth: number, keepTransactions: boolean): void {
    this.solana.reorg(depth, {keepTransactions})
  }

  forgetAll(): void {
    this.solana.forget(this.pool)
  }

  async holdPastEnd(): Promise<void> {
    this.mineEmpty(170)
  }

  /** A payment from the faucet, not waited for. */
  giveTo(to: string, amount: bigint): void {
    this.give(to, amount)
  }

  /** Blocks without what waits, at once. */
  mineEmpty(blocks: number): void {
    this.solana.mine(blocks, {only: []})
  }

  async untilPast(height: number): Promise<void> {
    await until(async () => this.solana.heightAt('finalized') > height, {timeoutMs: 30_000, what: `block ${height}`})
  }

  /**
   * Waits until it is known why a transaction's end is not proven. The database says so 10 minutes after the end; here
   * at once.
   */
  async untilUnproven(txid: string, why: string): Promise<void> {
    const [{sql} = {sql: ''}] = await this.db.rows<{sql: string}>(
      `select pg_get_functiondef('chain.note_unproven'::regproc) as sql`,
    )
    await this.db.rows(sql.replace('from clock_timestamp()', `from (clock_timestamp() + interval '1 hour')`))
    const known = `select from app.incident where kind = 'unproven_expiry' and subject = 'SOL:' || $1 and details ->> 'why' like '%' || $2 || '%'`
    await until(async () => (await this.db.rows(known, [txid, why])).length, {timeoutMs: 20_000, what: `"${why}"`})
    await this.db.rows(sql)
  }

  /** In the newest block. */
  holds(address: string): bigint {
    return this.solana.account(address)?.lamports ?? 0n
  }
}
