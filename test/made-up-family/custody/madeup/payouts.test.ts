// Payouts on a chain whose transactions expire, with everything they need: a local chain, its indexer, custody and a worker as processes. The clock of the
// proofs is an hour ahead, so that only the chain decides when something has expired.
import {rmSync} from 'node:fs'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {afterAll, beforeAll, beforeEach, expect, test} from 'vitest'
import {silent} from '../../base/log.ts'
import {fee} from '../../chains/madeup/block.ts'
import {readSettings} from '../../chains/settings.ts'
import {writeAssets} from '../../db/assets.ts'
import type {Serving} from '../../devnet/family.ts'
import {type MadeUpClient, newAddress, payment} from '../../devnet/madeup/client.ts'
import {madeup} from '../../devnet/madeup/family.ts'
import {assertBooks} from '../../test/support/books.ts'
import {killCustody, startCustody} from '../../test/support/custody.ts'
import {testDatabase} from '../../test/support/database.ts'
import {Indexer} from '../../test/support/indexer.ts'
import {newHome} from '../../test/support/processes.ts'
import {until} from '../../test/support/until.ts'
import {type Running, type Shop, treasuryOf, World} from '../../test/support/world.ts'
import {journalFile} from '../journal-file.ts'

const chain = 'MADEUP'
const gross = 1000n

interface Attempt {
  txid: string
  fate: string
  lapsed: boolean
}

class MadeUpWorld extends World {
  readonly client: MadeUpClient
  readonly treasury: string
  readonly #serving: Serving
  readonly #indexer: Indexer
  /** Blocks take no payments of payouts, only sweeps. */
  isHolding = false
  #isOver = false
  readonly #miner: Promise<void>

  constructor(parts: Running & {client: MadeUpClient; treasury: string; serving: Serving; indexer: Indexer}) {
    super(parts)
    this.client = parts.client
    this.treasury = parts.treasury
    this.#serving = parts.serving
    this.#indexer = parts.indexer
    this.#miner = this.#mine()
  }

  static async open(): Promise<MadeUpWorld> {
    const db = await testDatabase()
    const home = newHome()
    const {serve} = await madeup.open(chain, path.join(home, 'chain.db'))
    const serving = await serve({directory: home, blockIntervalMs: 0, log: silent()})
    const client = await madeup.connect(serving.where.control_url)
    const source = {MADEUP_RPC_URL: serving.where.url, MADEUP_FINALITY: '2'}
    const settings = {MADEUP_FEE_BUDGET: '1', ADDRESS_POOL_SIZE: '20'}
    await writeAssets(db.ownerUrl, readSettings(settings).chains.values())
    const custody = await startCustody(db, home, settings)
    const indexer = Indexer.start({db, chain, environment: source})
    const treasury = await treasuryOf(db, 'madeup')
    const world = new MadeUpWorld({chain, db, home, custody, settings, source, client, treasury, serving, indexer})
    await world.moveClock(1)
    await world.#give([treasury], 500n)
    await world.startWorker()
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
      await this.client.mine(1, this.isHolding ? {only: await this.#sweeps()} : {})
  }

  async #sweeps(): Promise<string[]> {
    const rows = await this.db.rows<{txid: string}>(
      `select o.txid from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id where s.kind = 'sweep'`,
    )
    return rows.map(({txid}) => txid)
  }

  /** The clock of the proofs, by this many hours. */
  async moveClock(hours: number): Promise<void> {
    const [past] = await this.db.rows<{sql: string}>(`select pg_get_functiondef('chain.is_past_end'::regproc) as sql`)
    await this.db.rows(past!.sql.replace('clock_timestamp()', `(clock_timestamp() + interval '${hours} hours')`))
  }

  /** Pays from the faucet, and waits until it is final here. */
  async #give(to: string[], amount: bigint): Promise<void> {
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

  /** A payout that is requested; its payment stays out of the blocks if `held`. */
  async begin({held} = {held: false}): Promise<{shop: Shop; id: string}> {
    const shop = await this.makeShop(1, newAddress())
    await this.#give(shop.addresses, gross)
    this.isHolding = held
    return {shop, id: await this.request(shop, 'MADE')}
  }

  async attempts(payout: string): Promise<Attempt[]> {
    return await this.db.rows<Attempt>(
      'select txid, fate, lapsed from app.attempt_fate where chain = $1 and subject_id = $2 order by seq',
      [chain, payout],
    )
  }

  /** Its attempts, once they are this many. */
  async signed(payout: string, count: number): Promise<Attempt[]> {
    return await until(
      async () => {
        const attempts = await this.attempts(payout)
        return attempts.length === count && attempts
      },
      {timeoutMs: 30_000, what: `${count} attempts`},
    )
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

  async received({wallet}: Shop): Promise<bigint> {
    return await this.client.balance('MADE', wallet)
  }
}

let world: MadeUpWorld
beforeEach(() => {
  world.isHolding = false
})
beforeAll(async () => {
  world = await MadeUpWorld.open()
})
afterAll(() => world?.close())

test('made up: a payout is swept and paid, with one transaction each', async () => {
  const {shop, id} = await world.begin()
  const {net, txid} = await world.becomes(id, 'completed')
  const attempts = await world.attempts(id)
  expect(attempts).toEqual([{txid, fate: 'final', lapsed: false}])
  expect(await world.received(shop)).toBe(BigInt(net))
  expect(await world.client.balance('MADE', shop.addresses[0]!)).toBe(0n)
  await assertBooks(world.db)
})

test('made up: a transaction that expired is followed by another one, with other bytes, and the payout is paid once', async () => {
  const {shop, id} = await world.begin({held: true})
  const [first] = await world.signed(id, 1)
  const [dead, second] = await world.signed(id, 2)
  expect(dead).toEqual({txid: first!.txid, fate: 'dead', lapsed: true})
  world.isHolding = false
  const {net, txid} = await world.becomes(id, 'completed')
  expect([txid, await world.received(shop)]).toEqual([second!.txid, BigInt(net)])
  const [lapse] = await world.db.rows<{evidence: {height: null; head: {height: number}}}>(
    'select evidence from chain.lapse where txid = $1',
    [first!.txid],
  )
  expect(lapse!.evidence).toMatchObject({height: null})
  await assertBooks(world.db)
})

test('made up: a cancelled payout ends without a transaction, once its own has expired', async () => {
  const {shop, id} = await world.begin({held: true})
  await world.becomes(id, 'paying')
  await world.db.rows('select app.cancel_payout_by_operator($1)', [id])
  const {error_code} = await world.becomes(id, 'failed')
  const attempts = await world.attempts(id)
  expect([error_code, attempts.map(({lapsed}) => lapsed), await world.received(shop)]).toEqual([
    'cancelled',
    [true],
    0n,
  ])
  await assertBooks(world.db)
})

test('made up: from the moment it is cancelled, nothing of a payment is sent, whatever forgets it', async () => {
  const {shop, id} = await world.begin({held: true})
  const [attempt] = await world.signed(id, 1)
  await world.sent(attempt!.txid)
  await world.moveClock(-2) // nothing expires
  await world.db.rows('select app.cancel_payout_by_operator($1)', [id])
  await until(async () => (await world.waitsFor(id)) === 'expiry', {timeoutMs: 20_000, what: 'the cancel to be seen'})
  await world.client.forget([attempt!.txid])
  await world.wakePayment(id)
  const before = await world.lastSent(attempt!.txid)
  await sleep(3000)
  await world.wakePayment(id)
  await sleep(1500)
  expect(await world.lastSent(attempt!.txid)).toEqual(before)
  world.isHolding = false
  await world.moveClock(2)
  const {error_code} = await world.becomes(id, 'failed')
  expect([error_code, await world.attempts(id), await world.received(shop)]).toEqual([
    'cancelled',
    [{txid: attempt!.txid, fate: 'dead', lapsed: true}],
    0n,
  ])
})

test('made up: bytes that can never be mined are not sent again', async () => {
  const {id} = await world.begin({held: true})
  const [attempt] = await world.signed(id, 1)
  await world.sent(attempt!.txid)
  await world.killCustody()
  try {
    await until(async () => (await world.attempts(id))[0]!.fate === 'dead', {timeoutMs: 30_000, what: 'the expiry'})
    await until(async () => (await world.waitsFor(id)) === 'custody_unreachable', {timeoutMs: 20_000, what: 'a wait'})
    const before = await world.lastSent(attempt!.txid)
    await sleep(3000)
    expect(await world.lastSent(attempt!.txid)).toEqual(before)
  } finally {
    await world.startCustody()
  }
  world.isHolding = false
  await world.becomes(id, 'completed')
})

test('made up: while two transactions may be mined, nothing is signed or sent; once both have expired, the payout is paid', async () => {
  const {shop, id} = await world.begin({held: true})
  const [first, second] = await world.signed(id, 2)
  await world.moveClock(-2) // no lapse is noted again
  await world.db.rows('delete from chain.lapse where txid = $1', [first!.txid]) // as a rewind does
  await world.wakePayment(id)
  await until(async () => (await world.waitsFor(id)) === 'payment_contested', {timeoutMs: 20_000, what: 'contested'})
  const before = await world.lastSent(second!.txid)
  await world.wakePayment(id)
  await sleep(2500)
  expect((await world.attempts(id)).map(({fate}) => fate)).toEqual(['open', 'open'])
  expect(await world.lastSent(second!.txid)).toEqual(before)
  await world.moveClock(2)
  await world.signed(id, 3)
  world.isHolding = false
  const {net} = await world.becomes(id, 'completed')
  expect(await world.received(shop)).toBe(BigInt(net))
  await assertBooks(world.db)
})

test('made up: a payment that fails in a block fails its payout, and costs its fee', async () => {
  const {shop, id} = await world.begin({held: true})
  const [attempt] = await world.signed(id, 1)
  const before = await world.client.balance('MADE', world.treasury)
  await until(
    async () => {
      await world.client.mine(1, {only: [attempt!.txid], failed: [attempt!.txid]})
      return (await world.client.balance('MADE', world.treasury)) !== before
    },
    {timeoutMs: 10_000, what: 'the transaction in a block'},
  )
  const {error_code} = await world.becomes(id, 'failed')
  expect([error_code, await world.received(shop)]).toEqual(['transaction_reverted', 0n])
  expect(await world.client.balance('MADE', world.treasury)).toBe(before - fee)
  expect(await world.attempts(id)).toEqual([{txid: attempt!.txid, fate: 'dead', lapsed: false}])
  await assertBooks(world.db)
})

test('made up: after the journal was lost, a payout waits until nothing that was signed before can be mined', async () => {
  await killCustody(world.custody)
  rmSync(journalFile(world.home))
  await world.startCustody()
  const {shop, id} = await world.begin()
  const waits = `select from app.payout where id = $1 and waiting_reason = 'copy_unproven'`
  await until(async () => (await world.db.rows(waits, [id])).length, {timeoutMs: 20_000, what: 'the payout to wait'})
  expect(await world.attempts(id)).toEqual([])
  await world.db.rows(`update custody.unproven_copy set noted_at = noted_at - interval '15 seconds'`) // of 20
  expect(await world.attempts(id)).toEqual([])
  const proven = `select from custody.unproven_copy where chain = $1 and proven_at > noted_at + interval '20 seconds'`
  await until(async () => (await world.db.rows(proven, [chain])).length, {timeoutMs: 20_000, what: 'the proof'})
  await world.db.rows('update app.payout set next_step_at = now() where id = $1', [id])
  const {net} = await world.becomes(id, 'completed')
  expect(await world.received(shop)).toBe(BigInt(net))
  await assertBooks(world.db)
})

test('made up: a payout whose transactions expire three times fails', async () => {
  const {shop, id} = await world.begin({held: true})
  const {error_code} = await world.becomes(id, 'failed', 50_000)
  const attempts = await world.attempts(id)
  expect([error_code, attempts.map(({lapsed}) => lapsed), await world.received(shop)]).toEqual([
    'transaction_expired',
    [true, true, true],
    0n,
  ])
  await assertBooks(world.db)
})
