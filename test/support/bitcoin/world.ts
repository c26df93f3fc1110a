// Payouts on Bitcoin with everything they need, like EvmWorld: a local chain, its indexer, custody and workers as
// separate processes, and Postgres. Blocks are mined when a transaction waits, unless a test mines them itself.
import {randomBytes} from 'node:crypto'
import {setTimeout as sleep} from 'node:timers/promises'
import {parseTransaction, type Transaction} from '../../../chains/bitcoin/block.ts'
import {addressOfScript} from '../../../chains/bitcoin/script.ts'
import {chain} from '../../../chains/registry.ts'
import type {BitcoinClient} from '../../../devnet/bitcoin/client.ts'
import {startCustody} from '../custody.ts'
import {testDatabase} from '../database.ts'
import {Indexer} from '../indexer.ts'
import {newHome} from '../processes.ts'
import {type Running, type Shop, treasuryOf, World} from '../world.ts'
import {type BitcoinNode, startBitcoin, type TestBitcoin} from './node.ts'

/** A deposit is final in the second block. Blocks also come without transactions, so that a stuck transaction shows. */
const confirmations = 2
const emptyBlockMs = 1000

export const btc = 10n ** 8n

const bitcoin = chain('BTC')
export const regtest = bitcoin.family === 'bitcoin' ? bitcoin.networks.regtest : undefined!

export interface OutputRow {
  outpoint: string
  amount: bigint
  merchant_id: string | null
  outgoing_payment_id: string | null
  from_attempt: number | null
  spent_by: string | null
}

export class BitcoinWorld extends World {
  readonly bitcoin: TestBitcoin
  readonly indexer: Indexer
  readonly treasury: string
  readonly #miner: Promise<void>
  #lastSent: Promise<unknown> = Promise.resolve()
  /** Whether waiting transactions are mined, and made final, automatically. */
  isMining = true
  #isOver = false

  private constructor(parts: Running & {bitcoin: TestBitcoin; indexer: Indexer; treasury: string}) {
    super(parts)
    this.bitcoin = parts.bitcoin
    this.indexer = parts.indexer
    this.treasury = parts.treasury
    this.#miner = this.#mine()
  }

  get client(): BitcoinClient {
    return this.bitcoin.client
  }

  /**
   * Starts everything but workers, and gives the treasury its coins, in one output each. `settings` go to custody and
   * the workers.
   */
  static async open({
    node,
    treasury = [btc],
    settings = {},
  }: {
    node?: BitcoinNode
    treasury?: bigint[]
    settings?: Record<string, string>
  } = {}): Promise<BitcoinWorld> {
    const [db, bitcoin] = await Promise.all([testDatabase(), startBitcoin({...(node && {node})})])
    const home = newHome()
    const source = {BTC_ELECTRUM_URLS: bitcoin.electrumUrl, BTC_RPC_URL: bitcoin.rpcUrl}
    const network = {BTC_NETWORK: 'regtest', BTC_START_HEIGHT: '1', BTC_FINALITY: String(confirmations)}
    const all = {...network, ADDRESS_POOL_SIZE: '40', ...settings}
    const indexer = Indexer.start({db, chain: 'BTC', environment: {...source, ...network, ...settings}})
    const custody = await startCustody(db, home, all)
    const running: Running = {chain: 'BTC', db, home, custody, settings: all, source}
    const world = new BitcoinWorld({...running, bitcoin, indexer, treasury: await treasuryOf(db, 'bitcoin')})
    if (treasury.length) await world.topUp(treasury)
    return world
  }

  async close(): Promise<void> {
    this.#isOver = true
    await this.end(
      () => this.#miner,
      () => this.indexer.stop(),
      () => this.bitcoin.stop(),
    )
  }

  async #mine(): Promise<void> {
    for (let last = 0; !this.#isOver; await sleep(100)) {
      if (!this.isMining) continue
      try {
        const waiting = (await this.client.mempool()).length
        if (!waiting && Date.now() - last < emptyBlockMs) continue
        if (this.isMining) await this.client.mine(waiting ? confirmations : 1)
        last = Date.now()
      } catch {} // a test has killed it
    }
  }

  // --- merchants and money ---

  /** A merchant whose users received these amounts of sat, finally; or nothing yet. */
  async openShop(amounts: bigint[], {wallet = someAddress(), whitelisted = true, isPaid = true} = {}): Promise<Shop> {
    const shop = await this.makeShop(amounts.length, wallet, whitelisted)
    if (isPaid) await this.pay(shop.addresses, amounts)
    return shop
  }

  /** Pays from the faucet in one transaction, and waits until it is final here. Resolves to its txid. */
  async pay(to: string[], amounts: bigint[]): Promise<string> {
    const {txid} = await this.send(to, amounts)
    await this.untilFinal(txid, to.length)
    return txid
  }

  /** Pays from the faucet, unconfirmed. */
  async send(to: string[], amounts: bigint[], feeRate = 2): Promise<{txid: string; raw: string}> {
    const sent = this.#lastSent.then(() =>
      this.client.pay(
        to.map((address, i) => ({to: address, amount: amounts[i]!})),
        {feeRate},
      ),
    )
    this.#lastSent = sent.catch(() => {})
    return await sent
  }

  async topUp(amounts: bigint[]): Promise<void> {
    await this.pay(
      amounts.map(() => this.treasury),
      amounts,
    )
  }

  // --- results ---

  async outputs(): Promise<OutputRow[]> {
    const rows = await this.db.rows<Omit<OutputRow, 'amount'> & {amount: string}>(
      `select txid || ':' || vout as outpoint, amount::text, merchant_id, outgoing_payment_id, from_attempt, spent_by from app.output as output
       order by output.amount desc, txid, vout`,
    )
    return rows.map(row => ({...row, amount: BigInt(row.amount)}))
  }

  /** The attempts of an outgoing payment, oldest first, with their parsed bytes. */
  async attempts(
    outgoingPaymentId: string,
  ): Promise<(Transaction & {fee: bigint; vsize: number; kind: string; raw: string})[]> {
    const rows = await this.db.rows<{raw: string; fee: string; vsize: number; kind: string}>(
      `select raw, max_fee::text as fee, (fee_details ->> 'vsize')::int as vsize, kind from app.outgoing_attempt where outgoing_payment_id = $1 order by attempt`,
      [outgoingPaymentId],
    )
    return rows.map(row => ({...row, fee: BigInt(row.fee), ...parseTransaction(Buffer.from(row.raw, 'hex'))}))
  }

  /** The sum that a transaction of the chain pays to an address. */
  async paid(txid: string, address: string): Promise<bigint> {
    const {outputs} = parseTransaction(Buffer.from(await this.client.raw(txid), 'hex'))
    return outputs
      .filter(({script}) => addressOfScript(script, regtest) === address)
      .reduce((sum, {value}) => sum + value, 0n)
  }

  /** Whether it is in a block. */
  async isMined(txid: string): Promise<boolean> {
    return (await this.db.rows(`select from chain.confirmed_tx where chain = 'BTC' and txid = $1`, [txid])).length > 0
  }
}

/** A P2WPKH address without a known key. */
export function someAddress(): string {
  return addressOfScript(Buffer.concat([Buffer.from([0, 20]), randomBytes(20)]), regtest)!
}
