// An attacker with the full database rights of the worker and of the API, and custody's token, on the chains whose
// transactions expire; and then one who writes rows as the owner of the database. The chain, its indexer and custody
// are real; there is no worker but the attacker. Promises: at most one transaction of a payment can be mined at any
// time, whatever is asked; each pays an address on its merchant's whitelist, or our treasury, in the chain's coin.
import {randomUUID} from 'node:crypto'
import pg from 'pg'
import {afterAll, afterEach, beforeAll, describe, expect, test} from 'vitest'
import {parsePayment} from '../../chains/solana/message.ts'
import {addressOf} from '../../chains/tron/address.ts'
import {parseRawData, parseTransaction, rawOf} from '../../chains/tron/transaction.ts'
import {newAddress as newSolanaAddress} from '../../devnet/solana/client.ts'
import * as solanaKeys from '../../devnet/solana/keys.ts'
import {transactionWith, transfer} from '../../devnet/solana/transaction.ts'
import {newAddress as newTronAddress, payment as tronPayment} from '../../devnet/tron/client.ts'
import * as tronKeys from '../../devnet/tron/keys.ts'
import type {MinedWorld} from '../support/mined-world.ts'
import {SolanaWorld, sol} from '../support/solana/world.ts'
import {TronWorld, trx} from '../support/tron/world.ts'
import {until} from '../support/until.ts'
import type {Shop} from '../support/world.ts'

/** What differs between chains. */
interface Field {
  world: MinedWorld
  family: string
  token: string
  coin: bigint
  decimals: number
  /** What nothing that custody signs here may cost more than, with the offer below. */
  fee: bigint
  dearest: object
  /** What intents name besides their row. */
  offer: object
  /** What nobody may name. */
  fields: object[]
  /** The most that a payment reserves besides its amount. */
  reserve: bigint
  /** More than the chain's amounts can be. */
  tooLarge: bigint
  openShop(): Promise<Shop>
  newAddress(): string
  paidBy(raw: string): {from: string | undefined; to: string; amount: bigint}
  /** What makes each transaction of the journal differ from the others. */
  salt: string
  /** A key outside of custody: its address, and a transaction that sends a coin from there. */
  stranger(): {address: string; send(): string}
}

async function onTron(): Promise<Field> {
  const world = await TronWorld.open()
  return {
    world,
    family: 'tron',
    token: 'TRX',
    coin: trx,
    decimals: 6,
    fee: 1_100_000n,
    dearest: {},
    offer: {},
    fields: [{lifetime: {from: 0, end: 1}}, {expiration: 1}, {timestamp: 1}, {ref_block: 1}, {priority_fee: '0'}],
    reserve: 1_100_000n,
    tooLarge: 2n ** 63n,
    openShop: () => world.openShop([10n * trx]),
    newAddress: newTronAddress,
    paidBy(raw) {
      const {owner, message} = parseRawData(parseTransaction(Buffer.from(raw, 'hex')).rawData).contract
      return {from: owner, to: addressOf(message.bytes(2)), amount: message.integer(3)}
    },
    salt: `details ->> 'timestamp'`,
    stranger() {
      const key = tronKeys.newKey()
      const send = () => {
        const {height, hash} = world.tron.head
        return world.tron.submit(rawOf(tronPayment({key, on: {height, hash}}, newTronAddress(), trx)))
      }
      return {address: tronKeys.addressOfKey(key), send}
    },
  }
}

async function onSolana(): Promise<Field> {
  const world = await SolanaWorld.open()
  return {
    world,
    family: 'solana',
    token: 'SOL',
    coin: sol / 10n,
    decimals: 9,
    fee: 105_000n,
    dearest: {priority_fee: '100000'},
    offer: {priority_fee: '0'},
    fields: [{lifetime: {from: 0, end: 1}}, {blockhash: '1'}, {compute_unit_limit: 1}, {nonce: '1'}, {fee_payer: '1'}],
    reserve: 1_000_000n,
    tooLarge: 2n ** 64n,
    openShop: () => world.openShop([sol]),
    newAddress: newSolanaAddress,
    paidBy(raw) {
      const {from, to, amount} = parsePayment(raw)
      return {from, to, amount}
    },
    salt: 'raw',
    stranger() {
      const key = solanaKeys.newKey()
      const address = solanaKeys.addressOfKey(key)
      const payer = solanaKeys.newKey()
      world.giveTo(solanaKeys.addressOfKey(payer), sol)
      // Another account pays the fee, as a thief would have it.
      const send = () =>
        world.solana.submit(
          transactionWith([transfer(address, newSolanaAddress(), sol / 2n)], {
            key: payer,
            on: world.solana.head.hash,
            others: [key],
          }),
        )
      return {address, send}
    },
  }
}

interface Result {
  ok: boolean
  code?: string
  txid?: string
  raw?: string
}

describe.each([
  ['Tron', onTron],
  ['Solana', onSolana],
])('on %s', (_, open) => {
  let field: Field
  let world: MinedWorld
  let worker: pg.Client

  beforeAll(async () => {
    field = await open()
    world = field.world
    worker = new pg.Client({connectionString: world.db.url('sluice_jobs')})
    await worker.connect()
  })
  afterEach(() => {
    world.isMining = true
  })
  afterAll(async () => {
    await worker?.end()
    await world?.close()
  })

  async function sign(...intents: object[]): Promise<Result[]> {
    const {status, body} = await world.custody.ask('/sign', {intents})
    expect({status, body}).toMatchObject({status: 200})
    return body.results
  }

  const journal = async () =>
    (
      await world.db.rows<{n: number}>('select count(*)::int as n from custody.journal where stream = $1', [
        world.chain,
      ])
    )[0]!.n

  /** Custody refuses for this reason, records that, and signs nothing. */
  async function refused(intent: object, code: string): Promise<void> {
    const before = await journal()
    expect(await sign(intent)).toMatchObject([{ok: false, code}])
    expect(await journal()).toBe(before)
    const [noted] = await world.db.rows('select code from custody.refusal order by id desc limit 1')
    expect(noted).toEqual({code})
  }

  /** A payout whose payment has begun, as the worker begins it. */
  async function begun(shop?: Shop): Promise<{shop: Shop; id: string; payment: string}> {
    const of = shop ?? (await field.openShop())
    const id = await world.request(of, field.token)
    await worker.query('select app.begin_sweeping($1)', [id])
    await worker.query('select app.end_sweeping($1)', [id])
    await worker.query('select app.begin_payment($1, $2)', [id, String(field.reserve)])
    const [row] = await world.db.rows<{id: string}>(
      `select id from app.outgoing_payment where payout_id = $1 and kind = 'payout'`,
      [id],
    )
    return {shop: of, id, payment: row!.id}
  }

  /** Writes rows without triggers and foreign keys. */
  async function asOwner(sql: string, values: unknown[] = []): Promise<void> {
    const client = await world.db.pool.connect()
    try {
      await client.query('set session_replication_role = replica')
      await client.query(sql, values)
    } finally {
      await client.query('reset session_replication_role')
      client.release()
    }
  }

  const pay = (payout_id: string) => ({intent: `pay_${field.family}`, payout_id, ...field.offer})
  const sweep = (outgoing_payment_id: string) => ({
    intent: `sweep_${field.family}`,
    chain: world.chain,
    outgoing_payment_id,
    ...field.offer,
  })
  const withdraw = (outgoing_payment_id: string) => ({
    intent: `withdraw_${field.family}`,
    outgoing_payment_id,
    ...field.offer,
  })

  test('whoever asks, and however often, gets one transaction', async () => {
    const {shop, id} = await begun()
    const results = [...(await sign(pay(id), pay(id))), ...(await sign(pay(id)))]
    expect(new Set(results.map(({raw}) => raw)).size).toBe(1)
    const {from, to, amount} = field.paidBy(results[0]!.raw!)
    expect([from, to, amount]).toEqual([world.treasury, shop.wallet, 10n * field.coin - field.coin / 10n])
    expect(await world.attempts(id)).toHaveLength(1)
  })

  test('nobody can name an end, a block, an amount, a fee above the bound, or a recipient', async () => {
    const {id} = await begun()
    const before = await journal()
    for (const more of [...field.fields, {amount: '1'}, {max_fee: '1'}, {destination: field.newAddress()}])
      expect((await world.custody.ask('/sign', {intents: [{...pay(id), ...more}]})).status).toBe(400)
    if ('priority_fee' in field.offer) await refused({...pay(id), priority_fee: '100001'}, 'fee_above_cap')
    expect(await journal()).toBe(before)
  })

  test('what somebody is changing at that moment is not signed', async () => {
    const {id, payment} = await begun()
    const shop = await field.openShop()
    const toSweep = await forgeSweep(shop.addresses[0]!, 9n * field.coin)
    const toWithdraw = randomUUID()
    await asOwner(
      `insert into app.outgoing_payment (id, kind, chain, token, amount, source, recipient, fee_payer, max_fee)
       values ($1, 'withdrawal', $2, $3, $4, $5, $6, $5, 1)`,
      [toWithdraw, world.chain, field.token, String(field.coin), world.treasury, shop.wallet],
    )
    await world.whitelist(null, shop.wallet)
    const holder = await world.db.pool.connect()
    await holder.query('begin')
    await holder.query('select from app.outgoing_payment where id = any($1) for update', [
      [payment, toSweep, toWithdraw],
    ])
    for (const intent of [pay(id), sweep(toSweep), withdraw(toWithdraw)]) await refused(intent, 'payment_locked')
    await holder.query('rollback')
    holder.release()
    expect(await sign(pay(id), sweep(toSweep), withdraw(toWithdraw))).toMatchObject(Array(3).fill({ok: true}))
  })

  test('a payment that may still be mined is not followed by another, whatever the worker does to its rows', async () => {
    const {id, payment} = await begun()
    const [first] = await sign(pay(id))
    const {rows} = await worker.query('select app.store_signed($1, 1, $2, $3, $4, $5, $6, $7) as stored', [
      ...[payment, 'effect', 'ab'.repeat(32), '00', '1', '0', {}],
    ])
    expect(rows).toEqual([{stored: true}]) // nothing that was signed
    const {chain} = world
    for (const sql of [
      `select app.expire_payment('${payment}', 'transaction_expired', '', 0)`,
      `select app.cancel_outgoing_payment('${payment}')`,
      `select app.end_unsigned('${payment}')`,
      `select app.fail_payout('${id}', 'cancelled', '')`,
      `select chain.note_lapse('${chain}', '${first!.txid}', '{}')`,
      `delete from custody.journal where txid = '${first!.txid}'`,
      `insert into chain.lapse (chain, txid, final_height, final_hash, evidence) values ('${chain}', '${first!.txid}', 1, '', '{}')`,
      `update chain.cursor set head_time = now() + interval '1 hour' where chain = '${chain}'`,
      `update chain.cursor set head_hash = 'forged', head_height = 1 where chain = '${chain}'`,
      `select chain.finalise('${chain}', 1000000, '')`,
    ]) {
      await worker
        .query(sql)
        .catch((error: pg.DatabaseError) => expect(['42501', '42883', 'P0001']).toContain(error.code))
      const [again] = await sign(pay(id))
      expect([sql, again!.ok ? again!.txid : 'refused']).toEqual([sql, again!.ok ? first!.txid : 'refused'])
      expect(await world.attempts(id)).toMatchObject([{txid: first!.txid}])
    }
  })

  test('only a payout that is swept is paid, and only where its merchant allowed it', async () => {
    const shop = await field.openShop()
    await refused(pay(randomUUID()), 'unknown_settlement')
    const id = await world.request(shop, field.token)
    await refused(pay(id), 'wrong_state') // it is not swept, and its payment has not begun
    const other = await field.openShop()
    await world.api.query('select app.set_payout_address($1, $2, $3)', [other.id, world.chain, field.newAddress()])
    const {id: elsewhere} = await begun(other)
    await refused(pay(elsewhere), 'not_whitelisted')
  })

  test('an intent is signed for a row of its kind alone', async () => {
    const {id, payment} = await begun()
    await refused(withdraw(payment), 'unknown_settlement')
    await refused(sweep(payment), 'settlement_changed')
    await refused(withdraw(randomUUID()), 'unknown_settlement')
    await refused(sweep(randomUUID()), 'unknown_settlement')
    await asOwner(`update app.payout set chain = 'ETH', token = 'ETH' where id = $1`, [id])
    await refused(pay(id), 'unknown_settlement')
  })

  async function forgeSweep(source: string, amount: bigint, token = field.token): Promise<string> {
    const id = randomUUID()
    await asOwner(
      `insert into app.outgoing_payment (id, kind, chain, token, amount, source, recipient, fee_payer, max_fee)
       values ($1, 'sweep', $2, $3, $4, $5, $6, $5, 1)`,
      [id, world.chain, token, String(amount), source, field.newAddress()],
    )
    return id
  }

  test('a forged sweep moves money of a deposit address to the treasury, or is refused', async () => {
    const shop = await field.openShop()
    const [address] = shop.addresses
    await refused(sweep(await forgeSweep(field.newAddress(), field.coin)), 'not_ours')
    await refused(sweep(await forgeSweep(world.treasury, field.coin)), 'not_ours')
    await refused(sweep(await forgeSweep(address!, field.coin, 'OTHER')), 'unknown_settlement')
    await refused(sweep(await forgeSweep(address!, field.tooLarge)), 'above_limit')
    await refused(sweep(await forgeSweep(address!, 1000n)), 'sweep_too_dear')
    const [signed] = await sign(sweep(await forgeSweep(address!, 9n * field.coin)))
    expect(field.paidBy(signed!.raw!)).toEqual({from: address, to: world.treasury, amount: 9n * field.coin})
  })

  test('no two transactions have the same bytes, also after custody started again', async () => {
    const ids = [(await begun()).id, (await begun()).id]
    await sign(...ids.map(pay))
    await world.killCustody()
    await world.startCustody()
    await sign(pay((await begun()).id))
    const salts = await world.db.rows<{salt: string}>(
      `select ${field.salt} as salt from custody.journal where stream = $1 and txid is not null order by seq`,
      [world.chain],
    )
    expect(salts.length).toBeGreaterThan(3)
    expect(new Set(salts.map(({salt}) => salt)).size).toBe(salts.length)
  })

  test('network fees of a day stay within the budget, whatever the worker asks for', async () => {
    const ids = [await begun(), await begun(), await begun(), await begun()].map(({id}) => id)
    await world.indexer.stop() // nothing is proven to have expired meanwhile
    const [row] = await world.db.rows<{used: string}>(
      `select coalesce(sum(j.max_fee), 0)::text as used from custody.journal j join app.attempt_fate f on f.chain = j.stream and f.seq = j.seq
       where j.stream = $1 and not f.lapsed`,
      [world.chain],
    )
    const most = BigInt(row!.used) + (5n * field.fee) / 2n // a quarter is for payments under way
    const budget = String((most * 4n) / 3n).padStart(field.decimals + 1, '0')
    const coins = `${budget.slice(0, -field.decimals)}.${budget.slice(-field.decimals)}`
    await world.killCustody()
    await world.startCustody({settings: {[`${world.chain}_FEE_BUDGET`]: coins}})
    const results = await sign(...ids.map(id => ({...pay(id), ...field.dearest})))
    const spent = 'fee_budget_reached'
    expect(results.map(({ok, code}) => code ?? ok)).toEqual([true, true, spent, spent])
    const raise = `insert into custody.budget_raise (chain, day, amount) values ('${world.chain}', (now() at time zone 'UTC')::date, 1)`
    for (const client of [worker, world.api]) await expect(client.query(raise)).rejects.toMatchObject({code: '42501'})
    await world.killCustody()
    await world.startCustody()
    world.indexer.start()
  })

  test('with the rights of the indexer nothing is signed, nobody is named, and nothing expires before the clock says so', async () => {
    const {id} = await begun()
    const [signed] = await sign(pay(id))
    const {chain} = world
    const indexer = new pg.Client({connectionString: world.db.url('sluice_indexer')})
    await indexer.connect()
    for (const sql of [
      `insert into custody.journal (stream, seq) values ('${chain}', 999)`,
      `insert into custody.whitelist (chain, address, active_at) values ('${chain}', '${field.newAddress()}', now())`,
      `update app.payout set address = '${field.newAddress()}'`,
      `update app.outgoing_payment set recipient = '${field.newAddress()}'`,
      `insert into chain.lapse (chain, txid, final_height, final_hash, evidence) values ('${chain}', '${signed!.txid}', 1, '', '{}')`,
      `update chain.cursor set head_height = 1`,
      `select app.expire_payment('${id}', 'transaction_expired', '', 0)`,
    ])
      await expect(indexer.query(sql)).rejects.toMatchObject({code: '42501'})

    // It links blocks of the future (far above those that the real indexer writes now), and says that the last of them
    // is final.
    await world.moveClock(-1) // now it is that of the machine
    await indexer.query('begin')
    await indexer.query(
      `insert into chain.block (id, chain, height, hash, parent_hash, time)
       select $1 || ':' || n, $1, n, 'forged ' || n, 'forged ' || n - 1, now() + interval '1 year' from chain.cursor c, generate_series(c.head_height + 100, c.head_height + 1000) n
       where c.chain = $1`,
      [chain],
    )
    const last = `select chain.finalise($1, b.height, b.hash) as is_final from chain.block b where b.chain = $1 order by b.height desc limit 1`
    expect((await indexer.query(last, [chain])).rows).toEqual([{is_final: true}])
    const lapse = await indexer.query(`select chain.note_lapse($1, $2, '{}') as has_lapsed`, [chain, signed!.txid])
    expect(lapse.rows).toEqual([{has_lapsed: false}])
    await indexer.query('rollback')
    await indexer.end()
    await world.moveClock(1)
    expect(await world.attempts(id)).toMatchObject([{txid: signed!.txid, lapsed: false}])
  })

  // The chain stays halted: this test is the last one.
  test('what an address of ours sends without custody is seen, whoever signed it, and nothing more is signed', async () => {
    const {shop, id} = await begun()
    const {address, send} = field.stranger()
    await world.db.rows(
      `with own as (insert into custody.address (address, family, purpose, derivation_index, taken_at, merchant_id) values ($1, $3, 'deposit', 99999, now(), $2))
       insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
       select $4, $1, $1, id, merchant_id, true from app.user where merchant_id = $2 limit 1`,
      [address, shop.id, field.family, world.chain],
    )
    await world.pay([address], [10n * field.coin])
    const txid = send()
    const sql = `select subject, details from app.incident where kind = 'unknown_transaction' and resolved_at is null`
    const incident = await until(async () => (await world.db.rows(sql))[0], {timeoutMs: 20_000, what: 'the incident'})
    expect(incident).toMatchObject({subject: `${world.chain}:${address}`, details: {count: 1, newest: txid}})
    await refused(pay(id), 'chain_halted')
  })
})
