// Payouts on Tron with everything they need: its local chain, its indexer, custody and workers as processes.
import {setTimeout as sleep} from 'node:timers/promises'
import {parseRawData, parseTransaction, rawOf} from '../../../chains/tron/transaction.ts'
import {answer} from '../../../devnet/tron/api.ts'
import {TronLocalChain} from '../../../devnet/tron/chain.ts'
import {call, newAddress, payment} from '../../../devnet/tron/client.ts'
import {contracts, faucetKey, issuerKey} from '../../../devnet/tron/constants.ts'
import {issuerData, tokenTransferData} from '../../../devnet/tron/contracts.ts'
import {TronJournal} from '../../../devnet/tron/journal.ts'
import {startCustody} from '../custody.ts'
import {testDatabase} from '../database.ts'
import {Indexer} from '../indexer.ts'
import {type MinedParts, MinedWorld} from '../mined-world.ts'
import {newHome} from '../processes.ts'
import {RpcProxy} from '../rpc-proxy.ts'
import {until} from '../until.ts'
import {type Shop, treasuryOf} from '../world.ts'

export const trx = 1_000_000n
/** A whole USDT. */
export const unit = 1_000_000n
export const usdt = contracts.usdt
/** The solidified block trails the head by this many blocks. */
const lag = 3
/** Long enough to be signed, sent and mined, unless the machine is very busy. */
const shortLifetimeMs = 5000
/** Nothing expires during a test. */
export const longLifetimeMs = 600_000

export class TronWorld extends MinedWorld {
  readonly tron: TronLocalChain
  protected readonly blockMs = 150
  readonly deepest = lag - 1

  private constructor(tron: TronLocalChain, parts: MinedParts) {
    super(parts)
    this.tron = tron
  }

  /** Starts everything but workers, and gives the treasury this much. */
  static async open({
    treasury = 10_000n * trx,
    lifetimeMs = shortLifetimeMs,
    settings: more = {},
  } = {}): Promise<TronWorld> {
    const db = await testDatabase()
    const home = newHome()
    const tron = new TronLocalChain(new TronJournal(':memory:', 'TRON'), lag)
    tron.mine(1 + lag)
    const node = await RpcProxy.start({call: async (path, [body]) => answer(tron, path, JSON.stringify(body))})
    const source = {TRON_RPC_URL: node.httpUrl}
    const lifetime = {TRON_LIFETIME_MS: String(lifetimeMs)}
    const network = {TRON_NETWORK: 'local', TRON_USDT_CONTRACT: usdt}
    const settings = {...network, TRON_START_HEIGHT: '1', ADDRESS_POOL_SIZE: '40', ...lifetime, ...more}
    const indexer = Indexer.start({db, chain: 'TRON', environment: {...source, ...settings}})
    const custody = await startCustody(db, home, settings)
    const chain = 'TRON'
    const parts = {
      chain,
      db,
      home,
      custody,
      settings,
      source,
      node,
      indexer,
      treasury: await treasuryOf(db, 'tron'),
    } as const
    const world = new TronWorld(tron, parts)
    await world.begin(treasury)
    return world
  }

  protected mineOne(isHeld: boolean): void {
    this.tron.mine(1, isHeld ? {only: []} : {})
  }

  protected give(to: string, amount: bigint, token?: string): string {
    const signing = this.#signing(faucetKey)
    const data = tokenTransferData(to, amount)
    return this.tron.submit(rawOf(token ? call(signing, {contract: usdt, data}) : payment(signing, to, amount)))
  }

  /** What the issuer of USDT calls, such as addBlackList. It is in a block when this resolves. */
  async issue(name: string, args: (string | bigint)[] = []): Promise<void> {
    const data = issuerData(name, args)
    const txid = this.tron.submit(rawOf(call(this.#signing(issuerKey), {contract: usdt, data})))
    await until(async () => this.tron.journal.heightOf(txid), {timeoutMs: 20_000, what: 'a call of the issuer'})
  }

  #signing(key: Uint8Array) {
    const {hash} = this.tron.block(1)
    return {key, on: {height: 1, hash}}
  }

  /** In the newest block. */
  holdsUsdt = (address: string): bigint => this.tron.balance(address, usdt)

  get pool(): string[] {
    return this.tron.journal.pool().map(({txid}) => txid)
  }

  protected closeChain(): void {
    this.tron.journal.close()
  }

  protected newAddress(): string {
    return newAddress()
  }

  reorg(depth: number, keepTransactions: boolean): void {
    this.tron.reorg(depth, {keepTransactions})
  }

  forgetAll(): void {
    this.tron.forget(this.pool)
  }

  async holdPastEnd(): Promise<void> {
    await sleep(shortLifetimeMs)
  }

  /** In the newest block. */
  holds(address: string): bigint {
    return this.tron.journal.account(address, this.tron.head.height)?.balance ?? 0n
  }

  /** As the node tells it. */
  async headerOf(height: number): Promise<unknown> {
    const body = JSON.stringify({id_or_num: String(height)})
    const response = await fetch(`${this.node.httpUrl}/wallet/getblock`, {method: 'POST', body})
    return ((await response.json()) as {block_header: {raw_data: unknown}}).block_header.raw_data
  }

  /** A payout whose payment is signed and waits, while blocks come without it, or none at all. */
  async held({isMining = true} = {}): Promise<{shop: Shop; id: string; txid: string}> {
    const shop = await this.openShop([10n * trx])
    this.isHeld = true
    this.isMining = isMining
    const id = await this.request(shop, 'TRX')
    const [attempt] = await this.signed(id, 1)
    await this.untilWaiting(attempt!.txid)
    return {shop, id, txid: attempt!.txid}
  }

  async rawDataOf(txid: string) {
    const [row] = await this.db.rows<{raw: string}>('select raw from app.outgoing_attempt where txid = $1', [txid])
    return parseRawData(parseTransaction(Buffer.from(row!.raw, 'hex')).rawData)
  }
}
