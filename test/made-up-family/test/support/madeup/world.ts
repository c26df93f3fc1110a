// A world on the made-up family: a local chain that mines all the time, its indexer, custody and a worker as processes.
// The clock of the proofs is an hour ahead, so that only the chain decides when something has expired.
import type {ChildProcess} from 'node:child_process'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {silent} from '../../../base/log.ts'
import {fee} from '../../../chains/madeup/block.ts'
import {readSettings} from '../../../chains/settings.ts'
import {writeAssets} from '../../../db/migrate/assets.ts'
import type {Serving} from '../../../devnet/family.ts'
import {type MadeUpClient, newAddress, payment} from '../../../devnet/madeup/client.ts'
import {madeup} from '../../../devnet/madeup/family.ts'
import {startCustody} from '../custody.ts'
import {testDatabase} from '../database.ts'
import {ExpiringWorld} from '../expiring-world.ts'
import {Indexer} from '../indexer.ts'
import {newHome} from '../processes.ts'
import {until} from '../until.ts'
import {type Running, type Shop, treasuryOf} from '../world.ts'

export const chain = 'MADEUP'
export const gross = 1000n

export class MadeUpWorld extends ExpiringWorld {
  readonly client: MadeUpClient
  readonly treasury: string
  readonly #serving: Serving
  readonly #indexer: Indexer
  /** What blocks do not take: payments of payouts and withdrawals, or sweeps, too. */
  held: 'nothing' | 'payments' | 'all' = 'nothing'
  blockEveryMs = 100
  #isOver = false
  #worker: ChildProcess | undefined
  readonly #miner: Promise<void>

  constructor(parts: Running & {client: MadeUpClient; treasury: string; serving: Serving; indexer: Indexer}) {
    super(parts)
    this.client = parts.client
    this.treasury = parts.treasury
    this.#serving = parts.serving
    this.#indexer = parts.indexer
    this.#miner = this.#mine()
  }

  static async open(more: Record<string, string> = {}): Promise<MadeUpWorld> {
    const db = await testDatabase()
    const home = newHome()
    const {serve} = await madeup.open(chain, path.join(home, 'chain.db'))
    const serving = await serve({directory: home, blockIntervalMs: 0, log: silent()})
    const client = await madeup.connect(serving.where.control_url)
    const source = {MADEUP_RPC_URL: serving.where.url, MADEUP_FINALITY: '2'}
    const settings = {MADEUP_FEE_BUDGET: '10', ADDRESS_POOL_SIZE: '30', ...more}
    await writeAssets(db.ownerUrl, readSettings(settings).chains.values())
    const custody = await startCustody(db, home, settings)
    const indexer = Indexer.start({db, chain, environment: source})
    const treasury = await treasuryOf(db, 'madeup')
    const world = new MadeUpWorld({chain, db, home, custody, settings, source, client, treasury, serving, indexer})
    await world.moveClock(1)
    await world.give([treasury], 500n)
    world.#worker = await world.startWorker()
    return world
  }

  async close(): Promise<void> {
    this.#isOver = true
    await this.#miner
    await this.end(
      () => this.#indexer.stop(),
      () => this.#serving.close(),
    )
  }

  async #mine(): Promise<void> {
    for (; !this.#isOver; await sleep(this.blockEveryMs))
      await this.client.mine(1, this.held === 'nothing' ? {} : {only: await this.#taken()})
  }

  async #taken(): Promise<string[]> {
    const rows = await this.db.rows<{txid: string}>(
      `select o.txid from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id where s.kind = 'sweep' and $1`,
      [this.held === 'payments'],
    )
    return rows.map(({txid}) => txid)
  }

  /** Pays from the faucet, and waits until it is final here. */
  async give(to: string[], amount: bigint): Promise<void> {
    const txid = await this.client.submit(payment(to.map(each => ({to: each, amount}))))
    await until(
      async () =>
        (
          await this.db.rows(
            'select from chain.transfer t join chain.cursor c using (chain) where t.txid = $1 and t.block_height <= c.final_height',
            [txid],
          )
        ).length === to.length,
      {timeoutMs: 60_000, what: 'a payment from the faucet'},
    )
  }

  /** A merchant with a final deposit on each of its addresses. */
  async shop(users = 1): Promise<Shop> {
    const shop = await this.makeShop(users, newAddress())
    this.held = 'nothing'
    await this.give(shop.addresses, gross)
    return shop
  }

  /** A payout that is requested; its payment stays out of the blocks if `held`. Without a shop, of a new one. */
  async begin({held = false, of}: {held?: boolean; of?: Shop} = {}): Promise<{shop: Shop; id: string}> {
    const shop = of ?? (await this.shop())
    this.held = held ? 'payments' : 'nothing'
    return {shop, id: await this.request(shop, 'MADE')}
  }

  /** A withdrawal of the operator's own money; its id. */
  async withdraw(to: string, amount: bigint): Promise<string> {
    await this.whitelist(null, to)
    const [row] = await this.db.rows<{id: string}>(`select app.begin_withdrawal($1, 'MADE', $2, $3, $4) as id`, [
      chain,
      String(amount),
      to,
      String(fee),
    ])
    return row!.id
  }

  /** The next step of a payout, now. */
  async wake(payout: string): Promise<void> {
    await this.db.rows('update app.payout set next_step_at = now() where id = $1 and next_step_at is not null', [
      payout,
    ])
    await this.db.rows('select app.wake_payout($1)', [payout])
  }

  async stopWorker(): Promise<void> {
    await this.kill(this.#worker!)
  }

  /** Another worker, with these settings, in the place of the one that runs. */
  async replaceWorker(settings: Record<string, string> = {}): Promise<void> {
    await this.stopWorker()
    this.#worker = await this.startWorker({settings})
  }

  async received({wallet}: Shop): Promise<bigint> {
    return await this.client.balance('MADE', wallet)
  }
}
