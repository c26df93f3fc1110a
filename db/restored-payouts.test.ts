// Payouts that an older copy of the database has forgotten and that custody's journal brings back. Their deposits are
// allocated only if there is exactly one solution; no balance depends on it. Every test ends with books that agree.
import {afterAll, afterEach, beforeAll, describe, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {Money} from '../test/support/money.ts'
import type {TestUser} from '../test/support/people.ts'

let money: Money

beforeAll(async () => {
  money = await Money.open()
  await money.topUp('USDC', 1_000_000)
  await money.topUp('ETH', 1_000_000)
})
afterEach(() => assertBooks(money.db))
afterAll(() => money.close())

interface Recovered {
  id: string
  txid: string
}

/**
 * sluice custody reconcile, for payouts of these gross amounts, in the order in which they were signed. They were
 * claimed so much later than now: what the test has the chain read again afterwards came before them.
 */
async function recover(user: TestUser, grosses: number[], claimed = '1 hour'): Promise<Recovered[]> {
  const [{signed, nonce}] = (await money.db.rows(
    `select (select count(*)::int from custody.journal where stream = 'ETH') as signed,
       coalesce((select next_nonce::int from app.sender where chain = 'ETH' and address = $1), 0) as nonce`,
    [money.treasury],
  )) as [{signed: number; nonce: number}]
  const ids = (
    await money.db.rows<{id: string}>('select uuidv7($2::interval) as id from generate_series(1, $1)', [
      grosses.length,
      claimed,
    ])
  ).map(({id}) => id)
  const entries = grosses.map((gross, n) => {
    const fee = Math.floor(gross / 100)
    const seq = signed + n + 1
    return {
      stream: 'ETH',
      seq,
      kind: 'pay',
      subject_id: ids[n],
      merchant_id: user.merchantId,
      token: 'USDC',
      amount: gross - fee,
      destination: '0x52908400098527886E0F7030069857D2E4169EE7',
      source: money.treasury,
      sender: money.treasury,
      nonce: nonce + n,
      max_fee: 10,
      txid: money.newTxid(),
      raw: '0x02',
      hash: `${seq}`,
      signed_at: new Date(Date.now() + n).toISOString(),
      details: {
        gross: String(gross),
        fee: String(fee),
        fee_bps: 100,
        max_fee_per_gas: '1',
        max_priority_fee_per_gas: '1',
        gas_limit: 10,
      },
    }
  })
  await money.db.rows('select custody.reconcile($1)', [JSON.stringify(entries)])
  return entries.map(({txid}, n) => ({id: ids[n]!, txid}))
}

interface Shown {
  amount: number
  payout: string | null
  before: boolean
}

/** The merchant's deposits, the oldest first. */
const deposits = ({merchantId}: TestUser) =>
  money.db.rows<Shown & {id: string}>(
    `select amount::int, settlement_id as payout, settled_before_restore as before, id from app.deposit where merchant_id = $1 order by seq`,
    [merchantId],
  )
const shown = async (user: TestUser) =>
  (await deposits(user)).map(({amount, payout, before}) => [amount, payout, before])

const balance = async ({merchantId}: TestUser) =>
  (
    await money.db.rows(
      'select amount::int, deposit_count::int as deposits from app.balance_now where merchant_id = $1',
      [merchantId],
    )
  )[0]

test('deposits in the copy, and those that are read again, are allocated once they add up to their payout', async () => {
  const user = await money.merchant()
  await money.deposit(user.address, 200)
  const [first, second] = (await recover(user, [200, 500])) as [Recovered, Recovered]
  expect(await shown(user)).toEqual([[200, first.id, false]])
  expect(await balance(user)).toEqual({amount: -500, deposits: 0})
  await money.deposit(user.address, 300)
  expect(await shown(user)).toEqual([
    [200, first.id, false],
    [300, null, true], // paid in any case, and it is not known yet by which
  ])
  await money.deposit(user.address, 200)
  await money.deposit(user.address, 40)
  expect(await shown(user)).toEqual([
    [200, first.id, false],
    [300, second.id, false],
    [200, second.id, false],
    [40, null, false],
  ])
  expect(await balance(user)).toEqual({amount: 40, deposits: 1})
  expect(
    await money.db.rows('select deposit_count::int from analytics.payouts where payout_id = $1', [
      `pay_${second.id.replaceAll('-', '')}`,
    ]),
  ).toEqual([{deposit_count: 2}])

  await money.mineFinally([first.txid, second.txid])
  expect([await money.status(first.id), await money.status(second.id)]).toEqual(['completed', 'completed'])
  const next = await money.claim(user)
  expect((await shown(user)).at(-1)).toEqual([40, next, false])
})

test('deposits that become final at once are distinguished by their blocks; those of one block belong together', async () => {
  const user = await money.merchant()
  const [first, second] = (await recover(user, [30, 70])) as [Recovered, Recovered]
  await money.deposit(user.address, 30, {final: false})
  await money.block(
    [20, 50].map(amount => ({txid: money.newTxid(), token: 'USDC', amount: BigInt(amount), recipient: user.address})),
    [],
  )
  await money.deposit(user.address, 5)
  expect(await shown(user)).toEqual([
    [30, first.id, false],
    [20, second.id, false],
    [50, second.id, false],
    [5, null, false],
  ])
  await money.mineFinally([first.txid, second.txid])
})

describe('where what is not worth a sweep is held back', () => {
  beforeAll(() => money.db.rows(`select app.set_sweep_min('ETH', 'USDC', 50)`))
  afterAll(() => money.db.rows(`select app.set_sweep_min('ETH', 'USDC', 0)`))

  test('a payout gets what was collectable at its time, in the order in which addresses reached the minimum', async () => {
    const user = await money.merchant()
    const other = await money.user(user.merchantId)
    const [first, second] = (await recover(user, [70, 65])) as [Recovered, Recovered]
    await money.deposit(user.address, 30, {final: false}) // collectable with the 35 below, after the first payout
    await money.deposit(other.address, 70, {final: false})
    await money.deposit(user.address, 35, {final: false})
    await money.deposit((await money.user(user.merchantId)).address, 20)
    expect(await shown(user)).toEqual([
      [30, second.id, false],
      [70, first.id, false],
      [35, second.id, false],
      [20, null, false],
    ])
    expect(await balance(user)).toEqual({amount: 20, deposits: 1})
    await money.mineFinally([first.txid, second.txid])
  })

  test('a payout gets what it claimed while the minimum was lower, though that is held back now', async () => {
    const user = await money.merchant()
    const [{id, txid}] = (await recover(user, [40])) as [Recovered]
    await money.deposit(user.address, 40)
    expect(await shown(user)).toEqual([[40, id, false]])
    expect(
      await money.db.rows('select amount::int, held_back::int from app.balance_now where merchant_id = $1', [
        user.merchantId,
      ]),
    ).toEqual([])
    await money.mineFinally([txid])
  })

  test('what a sweep took that the copy reads together with it was collectable', async () => {
    const user = await money.merchant()
    await money.deposit(user.address, 60)
    await money.sweep(null, [user.address])
    const sweep = (await money.attempt(await money.sweepOf(user.address)))!
    await money.deposit(user.address, 20, {final: false})
    await money.mine([sweep])
    await money.deposit(user.address, 10)
    expect(
      await money.db.rows('select amount::int, held_back from app.deposit where merchant_id = $1 order by seq', [
        user.merchantId,
      ]),
    ).toEqual([
      {amount: 60, held_back: false},
      {amount: 20, held_back: true},
      {amount: 10, held_back: true},
    ])
  })
})

test('two payouts get their own deposits when the second one claimed was signed first', async () => {
  const user = await money.merchant()
  const [later, earlier] = (await recover(user, [70, 30])) as [Recovered, Recovered]
  await money.deposit(user.address, 30)
  await money.deposit(user.address, 70)
  expect(await shown(user)).toEqual([
    [30, earlier.id, false],
    [70, later.id, false],
  ])
  await money.mineFinally([later.txid, earlier.txid])
})

test('earlier debts count together with the deposits', async () => {
  const user = await money.merchant()
  const lost = await money.deposit(user.address, 25)
  const paid = await money.claim(user)
  await money.mineFinally([await money.payAndSign(paid)])
  await money.lose(lost)
  await money.resolve('reorged')
  expect(await balance(user)).toEqual({amount: -25, deposits: 0})
  const [{id, txid}] = (await recover(user, [75])) as [Recovered]
  await money.deposit(user.address, 75)
  expect(await shown(user)).toEqual([
    [25, paid, false],
    [75, null, true],
  ])
  await money.deposit(user.address, 25)
  expect(await shown(user)).toEqual([
    [25, paid, false],
    [75, id, false],
    [25, id, false],
  ])
  expect(await balance(user)).toBeUndefined()
  await money.mineFinally([txid])
})

test('where deposits never add up, nothing is allocated: the payout covers the oldest ones, marked settled before the restore', async () => {
  const user = await money.merchant()
  const [{txid}] = (await recover(user, [100])) as [Recovered]
  for (const amount of [60, 30, 25, 7]) await money.deposit(user.address, amount)
  const expected = [
    [60, null, true],
    [30, null, true],
    [25, null, false],
    [7, null, false],
  ]
  expect(await shown(user)).toEqual(expected)
  expect(await balance(user)).toEqual({amount: 22, deposits: 4})
  await money.mineFinally([txid])
  const views = await money.db.rows(
    `select amount_base_units::int as amount, settled_before_restore as before, settlement_id from analytics.deposits
     where merchant_id = $1 order by created_at`,
    [`mer_${user.merchantId.replaceAll('-', '')}`],
  )
  expect(views.map(({amount, settlement_id, before}) => [amount, settlement_id, before])).toEqual(expected)

  const next = await money.claim(user)
  expect(await money.db.rows('select gross::int from app.payout where id = $1', [next])).toEqual([{gross: 22}])
  expect(await shown(user)).toEqual(expected.map(([amount, , before]) => [amount, next, before]))
})

test('a deposit mined after a payout was requested is not allocated to it', async () => {
  const user = await money.merchant()
  const [{txid}] = (await recover(user, [100], '-1 hour')) as [Recovered]
  await money.deposit(user.address, 60)
  expect(await shown(user)).toEqual([[60, null, false]])
  await money.mineFinally([txid])
})

test('a recovered payout that can no longer be paid releases the deposits allocated to it', async () => {
  const user = await money.merchant()
  await money.deposit(user.address, 80)
  const [{id, txid}] = (await recover(user, [80])) as [Recovered]
  expect(await shown(user)).toEqual([[80, id, false]])
  await money.mineFinally([txid], {success: false})
  expect(await money.status(id)).toMatch(/^failed/)
  await money.allocate(user, 100)
  expect(await shown(user)).toEqual([[80, null, false]])
  expect(await balance(user)).toEqual({amount: 80, deposits: 1})
})

test('deposits that another claim has not allocated yet do not count as unclaimed', async () => {
  const user = await money.merchant()
  await money.deposit(user.address, 50)
  const claimed = await money.withoutAllocation(user, 'USDC', () => money.claim(user))
  const [{id, txid}] = (await recover(user, [50])) as [Recovered]
  await money.deposit(user.address, 50)
  expect(await shown(user)).toEqual([
    [50, null, false],
    [50, null, false],
  ])
  await money.allocate(user, 100)
  expect(await shown(user)).toEqual([
    [50, claimed, false],
    [50, id, false],
  ])
  await money.mineFinally([txid])
})
