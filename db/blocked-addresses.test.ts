// Addresses that the chain does not let a token leave. The minimum for a sweep is 100. The books are checked after
// every test.
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {Money} from '../test/support/money.ts'
import type {TestUser} from '../test/support/people.ts'

let money: Money

beforeAll(async () => {
  money = await Money.open()
  await money.topUp('ETH', 100_000)
  await money.db.rows(`select app.set_sweep_min('ETH', 'USDC', 100)`)
})
afterEach(() => assertBooks(money.db))
afterAll(() => money.close())

const block = (address: string) => money.work<boolean>('block_address', 'ETH', 'USDC', address, 'it is frozen')
const unblock = (address: string) => money.work<boolean>('unblock_address', 'ETH', 'USDC', address)
const hasBlocked = (payout: string) => money.work<boolean>('has_blocked_deposits', payout)

async function balance({merchantId}: TestUser): Promise<{gross: number; heldBack: number}> {
  const [row] = await money.db.rows<{gross: number; heldBack: number}>(
    `select amount::int as gross, held_back::int as "heldBack" from app.balance_now where merchant_id = $1 and token = 'USDC'`,
    [merchantId],
  )
  return row ?? {gross: 0, heldBack: 0}
}

const gross = async (payout: string) =>
  (await money.db.rows<{gross: number}>('select gross::int from app.payout where id = $1', [payout]))[0]!.gross

const incidents = () =>
  money.db.rows<{why: string; chain: string | null; resolution: string | null}>(
    `select details ->> 'why' as why, chain, resolution from app.incident where kind = 'address_blocked' order by id desc limit 1`,
  )

/** A merchant with two addresses, which have 1000 and 500. */
async function rich() {
  const user = await money.merchant()
  const other = await money.user(user.merchantId)
  await money.deposit(user.address, 1000)
  await money.deposit(other.address, 500)
  return {user, other, frozen: user.address}
}

test('deposits on a blocked address are held back, whatever else is paid out; the incident stops no chain', async () => {
  const {user, frozen} = await rich()
  expect([await block(frozen), await block(frozen)]).toEqual([true, false])
  expect(await balance(user)).toEqual({gross: 1500, heldBack: 1000})
  await money.deposit(frozen, 300)
  expect(await balance(user)).toEqual({gross: 1800, heldBack: 1300})
  expect(await incidents()).toEqual([{why: 'it is frozen', chain: null, resolution: null}])
  expect(await money.db.rows(`select app.why_halted('ETH') as why`)).toEqual([{why: null}])
  const payout = await money.claim(user)
  expect([await gross(payout), await hasBlocked(payout)]).toEqual([500, false])
  await expect(money.claim(user)).rejects.toThrow(
    'there is nothing to pay out; 0.0013 USDC is held back, on addresses that the chain does not let it leave now',
  )
  expect(await unblock(frozen)).toBe(true)
  expect(await incidents()).toMatchObject([{resolution: 'healed'}])
  expect(await gross(await money.claim(user))).toBe(1300)
})

test('a payout that had claimed them does not begin its payment; what was swept stays in the treasury, and the next one pays it', async () => {
  const {user, other, frozen} = await rich()
  const payout = await money.claim(user)
  await money.work('begin_sweeping', payout)
  await money.sweep(payout, [frozen, other.address])
  await money.mineFinally([(await money.attempt(await money.sweepOf(other.address)))!])
  const refused = await money.sweepOf(frozen)
  await block(frozen)
  expect(await hasBlocked(payout)).toBe(true)
  await money.work('end_sweeping', payout)
  expect(await money.work('begin_payment', payout, 0)).toBeNull()
  expect(
    await money.db.rows(`select from app.outgoing_payment where payout_id = $1 and kind = 'payout'`, [payout]),
  ).toEqual([])
  await money.work('fail_payout', payout, 'deposits_blocked', 'so says the worker')
  expect(await balance(user)).toEqual({gross: 1500, heldBack: 1000})
  while (await money.allocate(user, 100));
  await money.work('cancel_outgoing_payment', refused)
  await money.mineFinally([(await money.attempt(refused, {kind: 'cancel'}))!])
  const next = await money.claim(user)
  expect(await gross(next)).toBe(500)
  expect((await money.jobs.query('select from app.sweepable($1, 1, 10)', [next])).rows).toEqual([])
  expect(await money.pay(next)).toBeNull()
  await money.mineFinally([(await money.attempt(await money.payment(next)))!])
  expect(await money.status(next)).toBe('completed')
})

test('a sweep that is final after all ends the blocking; what was swept before is not held back', async () => {
  const {user, other, frozen} = await rich()
  await money.sweep(null, [frozen, other.address])
  await money.mineFinally([(await money.attempt(await money.sweepOf(other.address)))!])
  await Promise.all([frozen, other.address].map(block))
  expect(await balance(user)).toEqual({gross: 1500, heldBack: 1000})
  await money.mineFinally([(await money.attempt(await money.sweepOf(frozen)))!])
  expect(await balance(user)).toEqual({gross: 1500, heldBack: 0})
  expect(await unblock(frozen)).toBe(false)
})

test('of a payout that is paid, deposits stay with it; when the address is free again they are no balance', async () => {
  const {user, other, frozen} = await rich()
  await money.topUp('USDC', 5000)
  const payout = await money.claim(user)
  await money.pay(payout)
  await block(frozen)
  expect(await balance(user)).toEqual({gross: 0, heldBack: 0})
  await money.mineFinally([(await money.attempt(await money.payment(payout)))!])
  expect(await money.status(payout)).toBe('completed')
  await unblock(frozen)
  expect(await balance(user)).toEqual({gross: 0, heldBack: 0})
  await block(frozen) // again, now that the payout is completed
  expect(await money.db.rows('select from app.deposit where settlement_id = $1 and held_back', [payout])).toEqual([])
  await unblock(frozen)
  await money.deposit(other.address, 200)
  expect(await balance(user)).toEqual({gross: 200, heldBack: 0})
})

test('a blocked address is not swept, and only a token of a deposit address can be blocked', async () => {
  const {user, frozen} = await rich()
  await block(frozen)
  await money.sweep(null, [frozen])
  expect(await money.db.rows('select from app.outgoing_payment where source = $1', [frozen])).toEqual([])
  expect(await money.work('block_address', 'ETH', 'USDC', money.treasury, 'a lie')).toBe(false)
  expect(await money.work('block_address', 'ETH', 'USDC', '0xNobody', 'a lie')).toBe(false)
  expect(await money.work('block_address', 'ETH', 'ETH', user.address, 'a lie')).toBe(false)
  expect(await balance(user)).toEqual({gross: 1500, heldBack: 1000})
})

test('it is asked again after a day, with the newest words', async () => {
  const {frozen} = await rich()
  await block(frozen)
  const due = () =>
    money.db.rows<{hours: number; why: string}>(
      `select round(extract(epoch from retry_at - clock_timestamp()) / 3600)::int as hours, why from app.blocked_address where address = $1`,
      [frozen],
    )
  expect(await due()).toEqual([{hours: 24, why: 'it is frozen'}])
  await money.db.rows('update app.blocked_address set retry_at = clock_timestamp()')
  await money.work('keep_blocked', 'ETH', 'USDC', frozen, 'still frozen', 10 * 86_400_000)
  expect(await due()).toEqual([{hours: 24, why: 'still frozen'}])
  expect(await incidents()).toMatchObject([{why: 'still frozen', resolution: null}])
})
