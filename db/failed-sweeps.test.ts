// Sweeps that failed, and what a payout counts on.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {Money} from '../test/support/money.ts'

let money: Money

beforeAll(async () => {
  money = await Money.open()
  await money.topUp('ETH', 100_000)
  await money.topUp('USDC', 500)
})
afterAll(() => money.close())

/** A payout whose only address is being swept. */
async function sweeping({sweepFirst = false} = {}) {
  const user = await money.merchant()
  await money.deposit(user.address, 1000)
  const payout = await money.claim(user, 'USDC', {sweepFirst})
  await money.work('begin_sweeping', payout)
  await money.sweep(payout, [user.address])
  return {user, payout, sweep: await money.sweepOf(user.address)}
}

async function failNow(sweep: string, how: 'reverted' | 'cancelled'): Promise<void> {
  if (how === 'cancelled') await money.work('give_up_outgoing_payment', sweep, 'the node says: it is frozen')
  const txid = await money.attempt(sweep, how === 'cancelled' ? {kind: 'cancel'} : {})
  await money.mineFinally([txid!], {success: how !== 'reverted'})
}

const failed = async (payout: string) =>
  (await money.jobs.query('select failures, failure, amount from app.unswept_for($1)', [payout])).rows

const isSweepable = async (payout: string) =>
  (await money.jobs.query('select from app.sweepable($1, 1, 10)', [payout])).rows.length > 0

/** Minutes from the last failure to the next try. */
async function waitMinutes(address: string): Promise<number> {
  const [row] = await money.db.rows<{minutes: number}>(
    `select round(extract(epoch from f.retry_at - max(s.final_at)) / 60)::int as minutes
     from app.sweep_failures('ETH', 'USDC', $1) f, app.outgoing_payment s where s.source = $1 group by f.retry_at`,
    [address],
  )
  return row!.minutes
}

test('a sweep that failed says why, and its address is tried again at once, then less and less often, six times a day', async () => {
  const {user, payout, sweep} = await sweeping()
  expect(await failed(payout)).toEqual([])
  await failNow(sweep, 'cancelled')
  expect(await failed(payout)).toEqual([{failures: 1, failure: 'the node says: it is frozen', amount: '1000'}])
  const waits: [number, boolean][] = [[await waitMinutes(user.address), await isSweepable(payout)]]
  for (let n = 0; n < 5; n++) {
    await money.sweep(payout, [user.address])
    await failNow(await money.sweepOf(user.address), 'reverted')
    waits.push([await waitMinutes(user.address), await isSweepable(payout)])
  }
  expect(waits).toEqual([
    [0, true],
    [1, false],
    [8, false],
    [64, false],
    [512, false],
    [1440, false],
  ])
  expect(await failed(payout)).toMatchObject([{failures: 6, failure: 'its transaction was mined, and failed'}])
  await money.db.rows(`update app.outgoing_payment set final_at = final_at - interval '1 day' where source = $1`, [
    user.address,
  ])
  expect([await isSweepable(payout), await failed(payout)]).toEqual([true, []])
})

test('what failed before a sweep that did not counts no more, and another payout does not try more often', async () => {
  const {user, payout, sweep} = await sweeping()
  await failNow(sweep, 'reverted')
  await money.sweep(payout, [user.address])
  await failNow(await money.sweepOf(user.address), 'reverted')
  await money.work('fail_payout', payout, 'timed_out', 'so says the worker')
  while (await money.allocate(user, 100));
  const other = await money.claim(user)
  expect(await isSweepable(other)).toBe(false)
  await money.work('begin_sweeping', other)
  await money.sweep(other, [user.address])
  await money.mineFinally([(await money.attempt(await money.sweepOf(user.address)))!])
  await money.deposit(user.address, 1000)
  expect(await isSweepable(await money.claim(user))).toBe(true)
})

test('a payout does not count on a sweep that waits a minute for a reason of its own, is given up, or needed three transactions', async () => {
  const {payout, sweep} = await sweeping()
  const missing = async () => Number(await money.work<string>('payout_shortfall', payout, 0))
  const set = (reason: string | null, seconds = 0) =>
    money.db.rows(
      `update app.outgoing_payment set waiting_reason = $2, waiting_since = clock_timestamp() - $3 * interval '1 second' where id = $1`,
      [sweep, reason, seconds],
    )
  expect(await missing()).toBe(0)
  await set('would_revert', 30)
  expect(await missing()).toBe(0)
  await set('would_revert', 61)
  expect(await missing()).toBeGreaterThan(0)
  await set('chain_halted', 61) // as every other one
  expect(await missing()).toBe(0)
  await set(null)
  for (const price of [1, 3]) await money.attempt(sweep, {price})
  expect(await missing()).toBe(0)
  await money.attempt(sweep, {price: 5})
  expect(await missing()).toBeGreaterThan(0)
})

test('only a payout with sweep_first waits for its sweeps before it is swept', async () => {
  for (const sweepFirst of [false, true]) {
    const {payout, sweep} = await sweeping({sweepFirst})
    await money.work('end_sweeping', payout)
    expect(await money.status(payout)).toBe(sweepFirst ? 'sweeping' : 'swept')
    await money.mineFinally([(await money.attempt(sweep))!])
    await money.work('end_sweeping', payout)
    expect(await money.status(payout)).toBe('swept')
  }
})
