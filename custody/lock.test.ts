// Ending an outgoing payment and signing for it exclude each other (custody.lock_outgoing_payment): a real custody,
// asked over its socket, while others hold or change the rows. test/faults/custody-lock.test.ts has what happens when
// custody is stopped while it holds them.
import {randomUUID} from 'node:crypto'
import {setTimeout as sleep} from 'node:timers/promises'
import pg from 'pg'
import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, test} from 'vitest'
import {destinations, WrittenBitcoin} from '../test/support/bitcoin/written-world.ts'
import {fees, higherFees, newAddress, sweepIntent, WrittenEvm} from '../test/support/evm/written-world.ts'
import {until} from '../test/support/until.ts'
import type {WrittenWorld} from '../test/support/written-world.ts'

type Intent = Record<string, unknown>

/**
 * An intent that custody signs, the id of its outgoing payment, and a change of that payment after which nothing may be
 * signed.
 */
interface Case {
  name: string
  make(): Promise<{world: WrittenWorld; intent: Intent; id: string; end: string}>
}

const cancelIt = 'update app.outgoing_payment set cancelling = true where id = $1'
const endIt = `update app.outgoing_payment set status = 'final' where id = $1`
const failPayout = `with touched as (update app.outgoing_payment set next_step_at = null where id = $1 returning payout_id)
  update app.payout set status = 'failed' where id = (select payout_id from touched)`
const wantIt = 'update app.outgoing_payment set cancelling = false where id = $1'

let evm: WrittenEvm
let btc: WrittenBitcoin
/** Somebody else with a transaction of its own. */
let other: pg.Client

beforeAll(async () => {
  ;[evm, btc] = await Promise.all([WrittenEvm.open(), WrittenBitcoin.open()])
})
afterAll(() => Promise.all([evm?.close(), btc?.close()]))
afterEach(() => other?.end())

async function transactionOn(world: WrittenWorld): Promise<pg.Client> {
  const client = new pg.Client({connectionString: world.db.ownerUrl})
  await client.connect()
  await client.query('begin')
  return client
}

/** Makes the row of an intent; returns its id. */
async function forge(world: WrittenWorld, intent: Intent): Promise<string> {
  await world.forgeOutgoingPayment(intent)
  const [row] = await world.db.rows<{id: string}>(
    'select id from app.outgoing_payment where id = $1 or payout_id = $1',
    [intent.outgoing_payment_id ?? intent.payout_id],
  )
  return row!.id
}

async function aSweep(): Promise<{intent: Intent; id: string}> {
  const {address} = await evm.merchant()
  await evm.deposit(address, 10n ** 18n)
  const intent = sweepIntent(address)
  return {intent, id: await forge(evm, intent)}
}

async function nextNonce(): Promise<number> {
  const [row] = await evm.db.rows<{next: number}>(
    `select 1 + coalesce(max(nonce), -1)::int as next from custody.journal where stream = 'ETH' and sender = $1`,
    [evm.treasury],
  )
  return row!.next
}

/** Inputs, and an outgoing payment that spends them. */
const spending = (intent: string, inputs: string[], more: object = {}) => ({intent, inputs, fee: '1000', ...more})

const cases: Case[] = [
  {
    name: 'the payment of a payout on Ethereum',
    async make() {
      const payout_id = await evm.swept(await evm.merchant())
      const intent = {intent: 'pay', payout_id, nonce: await nextNonce(), ...fees}
      return {world: evm, intent, id: await forge(evm, intent), end: failPayout}
    },
  },
  {
    name: 'a sweep on Ethereum',
    make: async () => ({world: evm, ...(await aSweep()), end: cancelIt}),
  },
  {
    name: 'a withdrawal on Ethereum',
    async make() {
      const recipient = newAddress()
      await evm.whitelist(null, recipient)
      const nonce = await nextNonce()
      const [row] = await evm.db.rows<{id: string}>(
        `insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, max_fee)
         values ('withdrawal', 'ETH', 'ETH', 700, $1, $2, $1, $3, 1) returning id`,
        [evm.treasury, recipient, nonce],
      )
      const {id} = row!
      return {world: evm, intent: {intent: 'withdraw', outgoing_payment_id: id, nonce, ...fees}, id, end: cancelIt}
    },
  },
  {
    name: 'a cancel on Ethereum',
    async make() {
      const intent = {intent: 'cancel', chain: 'ETH', sender: evm.treasury, nonce: await nextNonce(), ...fees}
      await evm.forgeOutgoingPayment(intent)
      const [row] = await evm.db.rows<{id: string}>(
        'select id from app.outgoing_payment where fee_payer = $1 and nonce = $2',
        [evm.treasury, intent.nonce],
      )
      return {world: evm, intent, id: row!.id, end: wantIt}
    },
  },
  {
    name: 'the payment of a payout on Bitcoin',
    async make() {
      const merchant = await btc.merchant()
      const inputs = [await btc.output(merchant.bitcoin, 200_000n)]
      const intent = spending('pay_outputs', inputs, {payout_id: await btc.swept(merchant)})
      return {world: btc, intent, id: await forge(btc, intent), end: failPayout}
    },
  },
  {
    name: 'a sweep on Bitcoin',
    async make() {
      const {bitcoin} = await btc.merchant()
      const inputs = [await btc.output(bitcoin, 200_000n)]
      const intent = spending('sweep_outputs', inputs, {outgoing_payment_id: randomUUID(), chain: 'BTC'})
      return {world: btc, intent, id: await forge(btc, intent), end: cancelIt}
    },
  },
  {
    name: 'a CPFP child',
    async make() {
      const {bitcoin} = await btc.merchant()
      const inputs = await btc.unconfirmed([[bitcoin, 90_000n]])
      const id = await btc.cpfp(inputs, 150)
      const intent = spending('cpfp_outputs', inputs, {outgoing_payment_id: id, chain: 'BTC'})
      return {world: btc, intent, id, end: cancelIt}
    },
  },
  {
    name: 'a withdrawal on Bitcoin',
    async make() {
      const recipient = destinations.p2wpkh()
      await btc.whitelist(null, recipient)
      const inputs = [await btc.output(btc.treasury, 90_000n)]
      const [row] = await btc.db.rows<{id: string}>(
        `insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, first_input, max_fee)
         values ('withdrawal', 'BTC', 'BTC', 70000, $1, $2, $1, $3, 1) returning id`,
        [btc.treasury, recipient, inputs[0]],
      )
      await btc.reserve(inputs, row!.id)
      const intent = spending('withdraw_outputs', inputs, {outgoing_payment_id: row!.id})
      return {world: btc, intent, id: row!.id, end: cancelIt}
    },
  },
  {
    name: 'a cancel on Bitcoin',
    async make() {
      const inputs = [await btc.output((await btc.merchant()).bitcoin, 200_000n)]
      const intent = spending('cancel_outputs', inputs, {outgoing_payment_id: randomUUID(), chain: 'BTC'})
      return {world: btc, intent, id: await forge(btc, intent), end: wantIt}
    },
  },
]

/** Waits until custody waits for a row that somebody else holds. */
const custodyWaits = (world: WrittenWorld) =>
  until(
    async () =>
      (
        await world.db.rows(
          `select from pg_stat_activity where datname = current_database() and application_name = 'sluice-custody' and wait_event = 'PgSleep'`,
        )
      ).length,
    {timeoutMs: 10_000, what: 'custody to wait for a lock', intervalMs: 5},
  )

describe.each(cases)('$name', ({make}) => {
  test('is refused while somebody else holds its row, and signed when custody is asked again', async () => {
    const {world, intent, id} = await make()
    const before = await world.journal()
    other = await transactionOn(world)
    await other.query('select from app.outgoing_payment where id = $1 for update', [id])
    const began = performance.now()
    const [refused] = await world.sign(intent)
    const ms = performance.now() - began
    expect(refused).toMatchObject({ok: false, code: 'payment_locked'})
    expect(ms).toBeGreaterThan(450)
    expect(ms).toBeLessThan(3000) // half a second, and what a busy machine adds
    expect(await world.journal()).toEqual(before)
    const [noted] = await world.db.rows('select code, request from custody.refusal order by id desc limit 1')
    expect(noted).toEqual({code: 'payment_locked', request: intent})
    await other.query('rollback')
    expect(await world.sign(intent)).toMatchObject([{ok: true}])
  })

  test('is judged by what holds once its row is locked: what ended it a moment before is seen', async () => {
    const {world, intent, id, end} = await make()
    const before = await world.journal()
    other = await transactionOn(world)
    await other.query(end, [id])
    const asked = world.sign(intent)
    await custodyWaits(world)
    await other.query('commit')
    const [response] = await asked
    expect(['wrong_state', 'payment_locked']).toContain(response.code) // locked: this machine was too slow
    expect(await world.sign(intent)).toMatchObject([{ok: false, code: 'wrong_state'}])
    expect(await world.journal()).toEqual(before)
  })

  test('that has ended is not signed, nor replaced', async () => {
    const {world, intent, id} = await make()
    expect(await world.sign(intent)).toMatchObject([{ok: true}])
    const before = await world.journal()
    await world.db.rows(endIt, [id])
    const higher = 'fee' in intent ? {fee: '5000'} : higherFees
    const [response] = await world.sign({...intent, ...higher})
    expect(response.code).toBe('wrong_state')
    expect(await world.journal()).toEqual(before)
  })
})

test('one turn waits half a second in all, refuses every payment that is held, and signs the others', async () => {
  const [a, b, c, free] = [await aSweep(), await aSweep(), await aSweep(), await aSweep()]
  other = await transactionOn(evm)
  await other.query('select from app.outgoing_payment where id = any($1) for update', [[a.id, b.id, c.id]])
  const began = performance.now()
  const codes = (await evm.sign(a.intent, b.intent, free.intent, c.intent)).map(({ok, code}) => code ?? ok)
  expect(performance.now() - began).toBeLessThan(1400)
  expect(codes).toEqual(['payment_locked', 'payment_locked', true, 'payment_locked'])
})

test('whoever needs the payments of a turn in another order waits for custody, and never fails', async () => {
  const [a, b] = [await aSweep(), await aSweep()]
  other = await transactionOn(evm)
  await other.query(cancelIt, [b.id])
  const asked = evm.sign(a.intent, b.intent)
  await custodyWaits(evm) // it has locked the first, and wants the second
  const ended = other.query(cancelIt, [a.id])
  expect(await asked).toMatchObject([{ok: true}, {ok: false, code: 'payment_locked'}])
  await ended
  await other.query('commit')
  expect(await evm.sign(a.intent, b.intent)).toMatchObject([{code: 'wrong_state'}, {code: 'wrong_state'}])
})

describe('in the database', () => {
  let custody: pg.Client

  beforeEach(async () => {
    custody = new pg.Client({connectionString: evm.db.url('sluice_custody')})
    await custody.connect()
    await custody.query('begin')
  })
  afterEach(() => custody.end())

  const lock = async (id: string, ms = 500) =>
    (await custody.query<{waited: number | null}>('select custody.lock_outgoing_payment($1, $2) as waited', [id, ms]))
      .rows[0]!.waited

  test('the lock lasts until the end of the transaction, and stops changes, but no row that refers to the payment', async () => {
    const {id} = await aSweep()
    other = await transactionOn(evm)
    expect(await lock(id)).toBe(0)
    await other.query(`insert into custody.decision (outgoing_payment_id, decision) values ($1, 'cancel')`, [id])
    await other.query(`set local lock_timeout = '200ms'`)
    await other.query('savepoint before')
    for (const change of [cancelIt, endIt, 'delete from app.outgoing_payment where id = $1']) {
      await expect(other.query(change, [id])).rejects.toThrow('lock timeout')
      await other.query('rollback to before')
    }
    await custody.query('commit')
    await other.query(cancelIt, [id])
  })

  test('somebody who has waited for longer, and so would find the deadlock first, gets the lock', async () => {
    const [a, b] = [await aSweep(), await aSweep()]
    other = await transactionOn(evm)
    await other.query(cancelIt, [b.id])
    expect(await lock(a.id)).toBe(0)
    const ended = other.query(cancelIt, [a.id]).then(() => 'ended') // after a second it looks for a deadlock
    await sleep(700)
    expect(await lock(b.id, 1000)).toBeNull()
    await custody.query('rollback')
    expect(await ended).toBe('ended')
    await other.query('commit')
  })

  test('a lock of the whole table, as sluice custody reconcile takes it, ends the turn after half a second', async () => {
    const {id} = await aSweep()
    other = await transactionOn(evm)
    await other.query('lock table app.outgoing_payment in exclusive mode')
    const began = performance.now()
    await expect(lock(id)).rejects.toThrow('lock timeout')
    expect(performance.now() - began).toBeLessThan(3000)
  })
})
