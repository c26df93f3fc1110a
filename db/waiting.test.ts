// What a payout really waits for, and how long: the innermost reason is shown to everybody, and before its payment a
// payout ends by itself.
import pg from 'pg'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {type ReasonCode, reasonOf, reasons, waitingCodes} from '../base/reasons.ts'
import {assertBooks} from '../test/support/books.ts'
import {Money} from '../test/support/money.ts'
import {writeReasons} from './migrate/reasons.ts'

let money: Money

beforeAll(async () => {
  money = await Money.open()
  await money.topUp('ETH', 100_000)
  await money.topUp('USDC', 100_000)
})
afterAll(() => money.close())

const dayMs = 86_400_000
const wait = (payout: string, reason: string | null, detail: string | null = null) =>
  money.work('wait_payout', payout, reason, detail, 1000)
const waitsOutgoing = (id: string, reason: string | null, detail: string | null = null) =>
  money.work('wait_outgoing_payment', id, reason, detail, 1000)

async function rich(amount = 1000) {
  const user = await money.merchant()
  await money.deposit(user.address, amount)
  return user
}

/** Its nonce holds up nothing later. */
const finish = async (address: string) => money.mineFinally([(await money.attempt(await money.sweepOf(address)))!])

const finishPayment = async (payout: string) => money.mineFinally([(await money.attempt(await money.payment(payout)))!])

/** What operators see, and what the API says. */
async function shown(payout: string) {
  const [row] = await money.db.rows<{reason: string; detail: string; since: Date; code: string}>(
    `select w.*, app.payout_waiting(p) ->> 'code' as code from app.payout p cross join lateral app.why_payout_waits(p) w where p.id = $1`,
    [payout],
  )
  return row!
}

test('app.reason has each reason as base/reasons.ts has it, and no other, after each run of a migration', async () => {
  const client = new pg.Client({connectionString: money.db.ownerUrl})
  await client.connect()
  await client.query(`update app.reason set fails = 'timed_out', lies_with = 'others' where reason = 'not_whitelisted'`)
  await client.query(`insert into app.reason values ('of_an_older_version', 'chain', null, null, 'timed_out')`)
  await client.query(`delete from app.reason where reason = 'sweeps'`)
  await writeReasons(client)
  const {rows} = await client.query<{reason: ReasonCode}>(`select * from app.reason order by reason collate "C"`)
  await client.end()
  expect(rows.map(({reason}) => reason)).toEqual(Object.keys(reasons).sort())
  for (const {reason, ...row} of rows) {
    const {liesWith = 'payment', merchant: code = null, fails = 'timed_out'} = reasonOf(reason)
    expect(row).toEqual({lies_with: liesWith, code, message: code && waitingCodes[code], fails})
  }
})

describe('what is waited for', () => {
  test('while nothing is in the way, there is no reason', async () => {
    const payout = await money.claim(await rich())
    expect(await shown(payout)).toEqual({reason: null, detail: null, since: null, code: null})
  })

  test('a payout that waits for sweeps names those that are not final, and since when; a merchant sees nothing in its way', async () => {
    const user = await rich()
    const payout = await money.claim(user)
    await money.work('begin_sweeping', payout)
    await money.sweep(payout, [user.address])
    await wait(payout, 'sweeps')
    const {reason, detail, code} = await shown(payout)
    expect([reason, code]).toEqual(['sweeps', null])
    expect(detail).toMatch(`1 of 1 sweeps are not final: of ${user.address} since 20`)
    await finish(user.address)
  })

  test('if one of them waits, that is the reason, since then, with which sweep it is', async () => {
    const user = await rich()
    const payout = await money.claim(user)
    await money.work('begin_sweeping', payout)
    await money.sweep(payout, [user.address])
    const sweep = await money.sweepOf(user.address)
    await waitsOutgoing(sweep, 'fee_above_cap', 'ETH_MAX_FEE_GWEI allows 500')
    await money.db.rows(`update app.outgoing_payment set waiting_since = '2026-01-31T12:00:00Z' where id = $1`, [sweep])
    await wait(payout, 'sweeps')
    expect(await shown(payout)).toEqual({
      reason: 'fee_above_cap',
      detail: expect.stringMatching(
        `^the sweep of ${user.address} waits: ETH_MAX_FEE_GWEI allows 500; 1 of 1 sweeps are not final`,
      ),
      since: new Date('2026-01-31T12:00:00Z'),
      code: 'fee_too_high',
    })
    await finish(user.address)
  })

  test('a nonce that is too high waits for what the lowest one waits for', async () => {
    const [first, second] = [await money.claim(await rich()), await money.claim(await rich())]
    await money.pay(first)
    await money.pay(second)
    await waitsOutgoing(await money.payment(first), 'fee_budget_reached', 'the budget is 0.1 ETH')
    await waitsOutgoing(await money.payment(second), 'nonce_too_high', 'an earlier one')
    const {reason, detail, code} = await shown(second)
    expect([reason, code]).toEqual(['fee_budget_reached', 'fee_budget_reached'])
    expect(detail).toMatch(/^an earlier transaction of 0x\w+, with nonce \d+, waits: the budget is 0.1 ETH$/)
    await waitsOutgoing(await money.payment(first), null)
    expect(await shown(second)).toMatchObject({reason: 'nonce_too_high', detail: 'an earlier one'})
    await finishPayment(first)
    await finishPayment(second)
  })

  test('what is wrong with the payment of one merchant is told to the operator, and to no other merchant', async () => {
    const [first, second] = [await money.claim(await rich()), await money.claim(await rich())]
    await money.pay(first)
    await money.pay(second)
    await waitsOutgoing(await money.payment(first), 'not_whitelisted', 'its address is not on the whitelist')
    await waitsOutgoing(await money.payment(second), 'nonce_too_high', 'an earlier one')
    expect(await shown(first)).toMatchObject({reason: 'not_whitelisted', code: 'address_not_whitelisted'})
    const {reason, detail, code} = await shown(second)
    expect([reason, code]).toEqual(['nonce_too_high', 'unresolved_transaction'])
    expect(detail).toMatch(/waits: its address is not on the whitelist$/)
    await finishPayment(first)
    await finishPayment(second)
  })

  test("what a payment waits for is the payout's reason once there is a payment, also while it is paying", async () => {
    const payout = await money.claim(await rich())
    await money.pay(payout)
    const payment = await money.payment(payout)
    await wait(payout, 'sweeps')
    await waitsOutgoing(payment, 'would_revert', 'execution reverted')
    expect(await shown(payout)).toMatchObject({reason: 'would_revert', code: 'transaction_would_fail'})
    await money.attempt(payment)
    await waitsOutgoing(payment, 'node_unreachable', 'ETH_RPC_URL: no answer')
    expect(await shown(payout)).toMatchObject({detail: 'ETH_RPC_URL: no answer', code: 'chain_unreachable'})
  })

  test('lag, a node that is away, and a halt are three reasons', async () => {
    const payout = await money.claim(await rich())
    const codes = []
    for (const reason of ['head_stale', 'node_unreachable', 'chain_halted']) {
      await wait(payout, reason)
      codes.push((await shown(payout)).code)
    }
    expect(codes).toEqual(['chain_lagging', 'chain_unreachable', 'chain_halted'])
  })
})

describe('before its payment begins', () => {
  const timeOut = (payout: string, ms = 3 * dayMs) =>
    money.work<string | null>('time_out_payout', payout, Math.round(ms))
  /** As if it had been requested so many days ago. */
  const age = (payout: string, days: number) =>
    money.db.rows(`update app.payout set created_at = clock_timestamp() - $2 * interval '1 day' where id = $1`, [
      payout,
      days,
    ])
  const incident = (from: string, to: string | null) =>
    money.db.rows(
      `insert into app.incident (chain, kind, subject, details, opened_at, resolved_at) values ('ETH', 'unknown_transaction', gen_random_uuid()::text, '{}',
         clock_timestamp() - $1::interval, clock_timestamp() - $2::interval)`,
      [from, to],
    )
  const removeIncidents = () => money.db.rows(`delete from app.incident where kind = 'unknown_transaction'`)

  test.each<[string | null, string, string]>([
    ['not_whitelisted', 'address_not_whitelisted', 'the operator has to put the payout address on the whitelist'],
    ['insufficient_treasury_funds', 'insufficient_treasury_funds', 'the treasury is short of funds'],
    ['above_limit', 'custody_rejected', 'it would exceed a limit for payouts'],
    ['exceeds_received', 'custody_rejected', 'it was refused for safety, and the operator has to look at it'],
    ['node_unreachable', 'timed_out', 'the chain cannot be reached at the moment'],
    [null, 'timed_out', 'what it needs was still under way'],
  ])('a payout that waits for %s fails in time, as %s', async (reason, code, message) => {
    const user = await rich()
    const payout = await money.claim(user)
    await wait(payout, reason, 'so says the worker')
    await age(payout, 2.99)
    expect(await timeOut(payout)).toBeNull()
    await age(payout, 3.01)
    expect(await timeOut(payout)).toBe(code)
    const [row] = await money.db.rows('select error_message, error_detail from app.payout where id = $1', [payout])
    expect(row).toEqual({
      error_message: `it could not be carried out in time: ${message}`,
      error_detail: reason && `${reason}: so says the worker`,
    })
    expect(await money.balance(user)).toBe(1000)
    expect(await timeOut(payout)).toBeNull()
    await assertBooks(money.db)
  })

  test('the time in which incidents of the chain were open does not count, however they overlap; while one is open, nothing ends', async () => {
    const payout = await money.claim(await rich())
    await age(payout, 5)
    await incident('4 days', '2 days')
    await incident('3 days', '1 day')
    await incident('9 days', '8 days') // before the request
    expect(await timeOut(payout, 2.01 * dayMs)).toBeNull()
    await incident('1 hour', null)
    expect(await timeOut(payout, dayMs)).toBeNull()
    await money.db.rows(
      `update app.incident set resolved_at = clock_timestamp(), resolution = 'kept' where resolved_at is null`,
    )
    expect(await timeOut(payout, 2.01 * dayMs)).toBeNull() // of five days, three did not count, and one hour
    expect(await timeOut(payout, 1.9 * dayMs)).toBe('timed_out')
    await removeIncidents()
  })

  test('nothing is counted wrong, and nothing fails, where a clock was set back', async () => {
    const payout = await money.claim(await rich())
    await age(payout, 5)
    await incident('2 days', '3 days')
    expect(await timeOut(payout, 5.1 * dayMs)).toBeNull()
    expect(await timeOut(payout, 4.9 * dayMs)).toBe('timed_out')
    const early = await money.claim(await rich())
    await age(early, -1)
    expect([await timeOut(early), await money.work('time_out_payout', early, null)]).toEqual([null, null])
    await removeIncidents()
  })

  test('a payment that has just begun, and waits for nothing, does not end', async () => {
    const payout = await money.claim(await rich())
    await age(payout, 4)
    await money.pay(payout)
    expect(await timeOut(payout)).toBeNull()
    await finishPayment(payout)
    expect(await money.status(payout)).toBe('completed')
  })

  test('the time until an entry of the whitelist counts does not count, unless it was removed', async () => {
    const user = await rich()
    const payout = await money.claim(user)
    await wait(payout, 'not_whitelisted')
    await age(payout, 5)
    await money.db.rows(
      `insert into custody.whitelist (merchant_id, chain, address, added_at, active_at)
       select merchant_id, chain, address, clock_timestamp() - interval '4 days', clock_timestamp() + interval '4 days' from app.payout where id = $1`,
      [payout],
    )
    expect(await timeOut(payout)).toBeNull() // one day
    await money.db.rows(
      `update custody.whitelist set removed_at = clock_timestamp() - interval '3 days' where merchant_id = $1`,
      [user.merchantId],
    )
    expect(await timeOut(payout, 4.1 * dayMs)).toBeNull()
    expect(await timeOut(payout)).toBe('address_not_whitelisted') // four days
  })

  test('a nonce that was taken is used up by a cancel; a payout that may be paid by a signed transaction does not end', async () => {
    const [taken, signed] = [await rich(), await rich()]
    const [first, second] = [await money.claim(taken), await money.claim(signed)]
    await money.pay(first)
    await age(first, 4)
    await waitsOutgoing(await money.payment(first), 'fee_above_cap')
    expect(await timeOut(first)).toBe('timed_out')
    const payment = await money.payment(first)
    expect(await money.attempt(payment)).toBeUndefined()
    await money.mineFinally([(await money.attempt(payment, {kind: 'cancel', price: 2}))!])
    await money.pay(second)
    await money.journal(await money.payment(second), {kind: 'effect', txid: money.newTxid(), amount: 990})
    await age(second, 4)
    expect([await timeOut(second), await money.status(second)]).toEqual([null, 'swept'])
    await assertBooks(money.db)
  })

  test('what is paying never ends so', async () => {
    const payout = await money.claim(await rich())
    await money.payAndSign(payout)
    await age(payout, 400)
    expect([await timeOut(payout), await money.status(payout)]).toEqual([null, 'paying'])
  })
})
