// A world on the made-up family: a local chain that mines all the time, its indexer, custody and a worker as processes. The clock of the proofs is an
// hour ahead, so that only the chain decides when something has expired.
import type {ChildProcess} from 'node:child_process'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {silent} from '../../../base/log.ts'
import {fee} from '../../../chains/madeup/block.ts'
import {readSettings} from '../../../chains/settings.ts'
import {writeAssets} from '../../../db/assets.ts'
import type {Serving} from '../../../devnet/family.ts'
import {type MadeUpClient, newAddress, payment} from '../../../devnet/madeup/client.ts'
import {madeup} from '../../../devnet/madeup/family.ts'
import {startCustody} from '../custody.ts'
import {testDatabase} from '../database.ts'
import {Indexer} from '../indexer.ts'
import {newHome} from '../processes.ts'
import {until} from '../until.ts'
import {type Running, type Shop, treasuryOf, World} from '../world.ts'

export const chain = 'MADEUP'
export const gross = 1000n

export interface Attempt {
  txid: string
  fate: string
  lapsed: boolean
}

export class MadeUpWorld extends World {
  readonly client: MadeUpClient
  readonly treasury: string
  readonly #serving: Serving
  readonly #indexer: Indexer
  /** What blocks do not take: payments of payouts and withdrawals, or sweeps, too. */
  held: 'nothing' | 'payments' | 'all' = 'nothing'
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
    for (; !this.#isOver; await sleep(100))
      await this.client.mine(1, this.held === 'nothing' ? {} : {only: await this.#taken()})
  }

  async #taken(): Promise<string[]> {
    const rows = await this.db.rows<{txid: string}>(
      `select o.txid from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id where s.kind = 'sweep' and $1`,
      [this.held === 'payments'],
    )
    return rows.map(({txid}) => txid)
  }

  /** The clock of the proofs, by this many hours. */
  async moveClock(hours: number): Promise<void> {
    const [past] = await this.db.rows<{sql: string}>(`select pg_get_functiondef('chain.is_past_end'::regproc) as sql`)
    await this.db.rows(past!.sql.replace('clock_timestamp()', `(clock_timestamp() + interval '${hours} hours')`))
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
      {timeoutMs: 20_000, what: 'a payment from the faucet'},
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

  /** An outgoing payment, once it has ended. */
  async ended(id: string): Promise<{outcome: string; txid: string | null}> {
    return await until(
      async () => {
        const [row] = await this.db.rows<{outcome: string; txid: string | null}>(
          `select outcome, txid from app.outgoing_payment where id = $1 and status = 'final'`,
          [id],
        )
        return row
      },
      {timeoutMs: 40_000, what: 'the outgoing payment to end'},
    )
  }

  /** Of a payout, a sweep or a withdrawal. */
  async attempts(subject: string): Promise<Attempt[]> {
    return await this.db.rows<Attempt>(
      'select txid, fate, lapsed from app.attempt_fate where chain = $1 and subject_id = $2 order by seq',
      [chain, subject],
    )
  }

  /** Its attempts, once they are this many. */
  async signed(subject: string, count: number): Promise<Attempt[]> {
    return await until(
      async () => {
        const attempts = await this.attempts(subject)
        return attempts.length === count && attempts
      },
      {timeoutMs: 30_000, what: `${count} attempts`},
    )
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

  /** When its bytes were last given to the node. */
  async lastSent(txid: string): Promise<Date | null> {
    const [row] = await this.db.rows<{at: Date | null}>(
      'select broadcast_at as at from app.outgoing_attempt where txid = $1',
      [txid],
    )
    return row?.at ?? null
  }

  async sent(txid: string): Promise<void> {
    await until(() => this.lastSent(txid), {timeoutMs: 10_000, what: 'the transaction to be sent'})
  }

  /** What the payment of a payout waits for. */
  async waitsFor(payout: string): Promise<string | null> {
    const [row] = await this.db.rows<{reason: string | null}>(
      `select waiting_reason as reason from app.outgoing_payment where payout_id = $1 and kind = 'payout'`,
      [payout],
    )
    return row?.reason ?? null
  }

  async wakePayment(payout: string): Promise<void> {
    await this.db.rows(
      `update app.outgoing_payment set next_step_at = now() where payout_id = $1 and kind = 'payout' and status <> 'final'`,
      [payout],
    )
  }

  /** Waits until this much can be paid out. */
  async untilBalance({id}: Shop, amount: bigint): Promise<void> {
    const sql = 'select from app.balance_now where merchant_id = $1 and amount = $2'
    await until(async () => (await this.db.rows(sql, [id, String(amount)])).length, {
      timeoutMs: 20_000,
      what: 'the balance',
    })
  }

  /** Of the treasury. */
  async reserved(): Promise<bigint> {
    const [row] = await this.db.rows<{reserved: string}>('select reserved from app.treasury where chain = $1', [chain])
    return BigInt(row!.reserved)
  }

  async received({wallet}: Shop): Promise<bigint> {
    return await this.client.balance('MADE', wallet)
  }
}
