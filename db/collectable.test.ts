// What a payout can collect: final deposits on addresses that are worth a sweep. The rest is held back: it is in the
// balance, but in no payout. The minimum is 100 of a token that the treasury sweeps, and of the coin, whose sweeps cost
// 10. The books are checked after every test.
import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {Money} from '../test/support/money.ts'
import type {TestUser} from '../test/support/people.ts'

let money: Money

const setSweepMin = (amount: number, token = 'USDC') =>
  money.db.rows(`select app.set_sweep_min('ETH', $1, $2)`, [token, amount])

beforeAll(async () => {
  money = await Money.open()
  await money.topUp('ETH', 1_000_000)
})
beforeEach(async () => {
  await setSweepMin(100)
  await setSweepMin(100, 'ETH')
})
afterEach(() => assertBooks(money.db))
afterAll(() => money.close())

/** The balance, and what of it is held back, in base units: amounts and numbers of deposits. */
async function balance({merchantId}: TestUser, token = 'USDC') {
  const [row] = await money.db.rows<{shown: number[]}>(
    `select array[amount::int, deposit_count::int, held_back::int, held_back_count::int] as shown
     from app.balance_now where merchant_id = $1 and token = $2`,
    [merchantId, token],
  )
  return row?.shown ?? [0, 0, 0, 0]
}

/** The response to a payout of everything, or why it is refused. */
async function claim(user: TestUser, token = 'USDC'): Promise<{id: string; gross: number} | string> {
  try {
    const id = await money.claim(user, token)
    const [row] = await money.db.rows<{gross: number}>('select gross::int from app.payout where id = $1', [id])
    return {id, gross: row!.gross}
  } catch (error) {
    return (error as Error).message
  }
}

const idOfClaim = async (user: TestUser, token?: string) => ((await claim(user, token)) as {id: string}).id

/** Sweeps what can be swept for a payout, and pays it. */
async function complete(payout: string, token = 'USDC'): Promise<void> {
  await money.work('begin_sweeping', payout)
  const {rows} = await money.jobs.query<{address: string}>('select address from app.sweepable($1, 1, 10)', [payout])
  for (const {address} of rows) {
    await money.sweep(payout, [address], token)
    await money.mineFinally([(await money.attempt(await money.sweepOf(address, token)))!])
  }
  await money.mineFinally([await money.payAndSign(payout)])
  expect(await money.status(payout)).toBe('completed')
}

async function merchantWith(...amounts: number[]): Promise<TestUser[]> {
  const first = await money.merchant()
  const others = await Promise.all(amounts.slice(1).map(() => money.user(first.merchantId)))
  const users = [first, ...others]
  for (const [n, amount] of amounts.entries()) await money.deposit(users[n]!.address, amount)
  return users
}

test('what no sweep would bring is held back: three small payments to three addresses are no payout', async () => {
  const [user] = await merchantWith(50, 50, 50)
  expect(await balance(user!)).toEqual([150, 3, 150, 3])
  expect(await claim(user!)).toBe(
    'there is nothing to pay out; 0.00015 USDC is held back, on addresses with less to sweep than 0.0001 USDC',
  )
})

test('a balance that is too small for a payout without what is held back names both', async () => {
  const [user] = await merchantWith(100, 60)
  await money.db.rows(`update app.asset set min_payout = 101 where chain = 'ETH' and token = 'USDC'`)
  expect(await claim(user!)).toBe(
    'without what is held back, the balance is below the smallest payout (0.000101 USDC); 0.00006 USDC is held back, on addresses with less to sweep than 0.0001 USDC',
  )
  await money.db.rows(`update app.asset set min_payout = 1 where chain = 'ETH' and token = 'USDC'`)
  expect(await claim(user!)).toMatchObject({gross: 100})
})

test('once an address has the minimum, a payout claims what is on it, and nothing else', async () => {
  const [user, second] = await merchantWith(50, 50, 50)
  await money.deposit(second!.address, 49)
  expect(await balance(user!)).toEqual([199, 4, 199, 4])
  await money.deposit(second!.address, 1)
  expect(await balance(user!)).toEqual([200, 5, 100, 2])
  const payout = (await claim(user!)) as {id: string; gross: number}
  expect(payout.gross).toBe(100)
  expect(await balance(user!)).toEqual([100, 2, 100, 2])
  await complete(payout.id)
})

test.each(['USDC', 'ETH'])('one base unit from a stranger keeps nobody from being paid (%s)', async token => {
  const user = await money.merchant()
  const {address} = await money.user(user.merchantId)
  await money.deposit(user.address, 500, {token})
  await money.deposit(address, 1, {token})
  const payout = (await claim(user, token)) as {id: string; gross: number}
  expect(payout.gross).toBe(500)
  await complete(payout.id, token)
  expect(await balance(user, token)).toEqual([1, 1, 1, 1])
})

test('the fee is that of what is not held back, and gross is fee, net and held back, also below zero', async () => {
  const [user] = await merchantWith(250, 50)
  const shown = () =>
    money.db.rows(
      'select gross::int, fee::int, held_back::int, (gross - held_back - fee)::int as net from app.merchant_balance where merchant_id = $1',
      [user!.merchantId],
    )
  expect(await shown()).toEqual([{gross: 300, fee: 2, held_back: 50, net: 248}])
  const [deposit] = await money.db.rows<{txid: string}>('select txid from app.deposit where address = $1', [
    user!.address,
  ])
  await complete(await idOfClaim(user!))
  await money.lose(deposit!.txid)
  await money.resolve('reorged')
  expect(await shown()).toEqual([{gross: -200, fee: 0, held_back: 50, net: -250}])
  expect(await claim(user!)).toContain('the balance is below zero; 0.00005 USDC is held back')
})

describe('a sweep under way', () => {
  test.each(['USDC', 'ETH'])(
    'takes its amount, and the fee that its address pays, from what counts for later deposits of its address (%s)',
    async token => {
      const user = await money.merchant()
      await money.deposit(user.address, 500, {token})
      await money.sweep(null, [user.address], token)
      await money.deposit(user.address, 95, {token})
      expect(await balance(user, token)).toEqual([595, 2, 95, 1])
      await money.mineFinally([(await money.attempt(await money.sweepOf(user.address, token)))!], {fee: 10})
      expect(await balance(user, token)).toEqual([595, 2, 95, 1])
      await money.deposit(user.address, 5, {token})
      expect(await balance(user, token)).toEqual([600, 3, 0, 0])
    },
  )

  test('that fails gives its amount back to its address: what came meanwhile is collectable with it', async () => {
    const [user] = await merchantWith(500)
    await money.sweep(null, [user!.address])
    await money.deposit(user!.address, 60)
    await money.mineFinally([(await money.attempt(await money.sweepOf(user!.address)))!], {success: false})
    expect(await balance(user!)).toEqual([560, 2, 0, 0])
    expect(await claim(user!)).toMatchObject({gross: 560})
  })

  test('makes nothing that counted anything else: a payout that claimed it is paid', async () => {
    const [user] = await merchantWith(500)
    const payout = await idOfClaim(user!)
    await money.sweep(null, [user!.address])
    await money.deposit(user!.address, 60)
    await money.mineFinally([(await money.attempt(await money.sweepOf(user!.address)))!])
    await complete(payout)
    expect(await balance(user!)).toEqual([60, 1, 60, 1])
  })
})

test('a deposit that becomes collectable after a claim is not in it, whenever it became final', async () => {
  const [user, second] = await merchantWith(500, 60)
  const payout = await money.withoutAllocation(user!, 'USDC', () => idOfClaim(user!))
  await money.deposit(second!.address, 60)
  expect(await balance(user!)).toEqual([120, 2, 0, 0])
  while (await money.allocate(user!, 1));
  expect(await claim(user!)).toMatchObject({gross: 120})
  await money.work('fail_payout', payout, 'cancelled', 'because')
  while (await money.allocate(user!, 1));
  expect(await balance(user!)).toEqual([500, 1, 0, 0])
})

describe('the minimum', () => {
  test('that is raised changes nothing that counted: it is swept, with what is held back beside it', async () => {
    const [user] = await merchantWith(150)
    await setSweepMin(400)
    await money.deposit(user!.address, 30)
    expect(await balance(user!)).toEqual([180, 2, 30, 1])
    const payout = (await claim(user!)) as {id: string; gross: number}
    expect(payout.gross).toBe(150)
    expect(await money.work('collectable_amount', 'ETH', user!.address, 'USDC')).toBe('150')
    await money.work('begin_sweeping', payout.id)
    expect((await money.jobs.query('select address from app.sweepable($1, 1, 10)', [payout.id])).rows).toEqual([
      {address: user!.address},
    ])
    await money.sweep(payout.id, [user!.address])
    await money.mineFinally([(await money.attempt(await money.sweepOf(user!.address)))!])
    expect(await balance(user!)).toEqual([30, 1, 0, 0]) // it was swept
    await complete(payout.id)
    expect(await claim(user!)).toMatchObject({gross: 30})
  })

  test('that is lowered makes collectable what is worth a sweep now', async () => {
    const [user] = await merchantWith(50, 70, 20)
    await setSweepMin(60)
    expect(await balance(user!)).toEqual([140, 3, 70, 2])
    expect(await claim(user!)).toMatchObject({gross: 70})
    await setSweepMin(0)
    expect(await balance(user!)).toEqual([70, 2, 0, 0])
  })

  test('keeps an address that holds only what is held back from being swept', async () => {
    const [user, second] = await merchantWith(500, 50)
    const payout = await idOfClaim(user!)
    expect((await money.jobs.query('select address from app.sweepable($1, 1, 10)', [payout])).rows).toEqual([
      {address: user!.address},
    ])
    expect(await money.work('collectable_amount', 'ETH', second!.address, 'USDC')).toBe('0')
  })
})

test('a final deposit that is taken back is held back no longer, and the others on its address stay what they are', async () => {
  const [user] = await merchantWith(60)
  const lost = await money.deposit(user!.address, 60)
  expect(await balance(user!)).toEqual([120, 2, 0, 0])
  await money.lose(lost)
  await money.resolve('reorged')
  expect(await balance(user!)).toEqual([60, 1, 0, 0]) // nothing makes it held back again
  const dust = await money.deposit((await money.user(user!.merchantId)).address, 5)
  expect(await balance(user!)).toEqual([65, 2, 5, 1])
  await money.lose(dust)
  await money.resolve('reorged')
  expect(await balance(user!)).toEqual([60, 1, 0, 0])
})

test('unattributed value that an operator credits counts like any deposit of its address', async () => {
  const user = await money.merchant()
  const stranger = await money.user(user.merchantId, [])
  const credit = () =>
    money.db.rows(`select app.credit_unattributed(id) from app.deposit where address = $1 and not credited`, [
      stranger.address,
    ])
  await money.deposit(stranger.address, 60)
  await credit()
  expect(await balance(user)).toEqual([60, 1, 60, 1])
  await money.deposit(stranger.address, 60)
  expect(await balance(user)).toEqual([60, 1, 60, 1])
  await credit()
  expect(await balance(user)).toEqual([120, 2, 0, 0])
})

describe('a database from before anything was held back', () => {
  /** As if its first migration run were still to come. */
  const withoutMinimum = () => money.db.rows(`update app.asset set sweep_min = null where token = 'USDC'`)

  test('holds back what is not worth a sweep, and leaves what is, or was swept', async () => {
    await withoutMinimum()
    const [user, second, third] = await merchantWith(50, 60, 50)
    await money.deposit(second!.address, 60)
    await money.sweep(null, [third!.address])
    await money.mineFinally([(await money.attempt(await money.sweepOf(third!.address)))!])
    expect(await balance(user!)).toEqual([220, 4, 0, 0])
    await setSweepMin(100)
    expect(await balance(user!)).toEqual([220, 4, 50, 1])
    expect(await claim(user!)).toMatchObject({gross: 170})
  })

  test('has a payout that is cancelled while more money comes: its deposits leave what is held back once', async () => {
    await withoutMinimum()
    const [user] = await merchantWith(50, 60)
    const payout = await idOfClaim(user!)
    await setSweepMin(100)
    await money.db.rows('select app.cancel_payout_by_operator($1)', [payout])
    await money.deposit(user!.address, 50) // before the deposits are allocated back
    expect(await balance(user!)).toEqual([160, 3, 60, 1])
    await assertBooks(money.db)
    while (await money.allocate(user!, 1));
    expect(await balance(user!)).toEqual([160, 3, 60, 1])
    expect(await claim(user!)).toMatchObject({gross: 100})
  })

  test.each(['cancelled by the operator', 'paid once more money has come'])(
    'has a payout that could not be paid: it can be %s',
    async how => {
      await withoutMinimum()
      const [user, second, third] = await merchantWith(50, 50, 50)
      const payout = await idOfClaim(user!)
      expect(await money.pay(payout)).toMatch(/short by/)
      await setSweepMin(100)
      expect(await balance(user!)).toEqual([0, 0, 0, 0])
      if (how.startsWith('cancelled')) {
        await money.db.rows('select app.cancel_payout_by_operator($1)', [payout])
        expect(await balance(user!)).toEqual([150, 3, 150, 3])
        while (await money.allocate(user!, 1));
        await money.deposit(user!.address, 50)
        expect(await claim(user!)).toMatchObject({gross: 100})
        return
      }
      for (const {address} of [user!, second!, third!]) await money.deposit(address, 50)
      expect(await balance(user!)).toEqual([150, 3, 0, 0])
      await money.sweep(payout, [user!.address, second!.address])
      for (const {address} of [user!, second!])
        await money.mineFinally([(await money.attempt(await money.sweepOf(address)))!])
      expect(await money.work('begin_payment', payout, 10)).toBeNull()
      await money.mineFinally([(await money.attempt(await money.payment(payout)))!])
      expect(await money.status(payout)).toBe('completed')
    },
  )
})
