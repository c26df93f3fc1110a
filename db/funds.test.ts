// Gas for addresses that sweep a token themselves: what the worker can begin, what pays with it, and what the ledger
// says. USDC is such a token here.
import {randomUUID} from 'node:crypto'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {Money, networkFee} from '../test/support/money.ts'
import type {TestUser} from '../test/support/people.ts'

let money: Money

beforeAll(async () => {
  money = await Money.open()
  await money.db.rows(`update app.asset set sweep_by = 'fund' where chain = 'ETH' and token = 'USDC'`)
  await money.topUp('ETH', 10_000)
})
afterEach(() => assertBooks(money.db))
afterAll(() => money?.close())

/** A user whose address holds so much. */
async function holder(amount = 100): Promise<TestUser> {
  const user = await money.merchant()
  await money.deposit(user.address, amount)
  return user
}

const beginFund = (payout: string | null, address: string, amount: number) =>
  money.work<string | null>('begin_funds', payout, 'ETH', 'USDC', [address], [amount], networkFee)

async function funds(address: string): Promise<{id: string; amount: string; outcome: string | null}[]> {
  return await money.db.rows(
    `select id, amount::text as amount, outcome from app.outgoing_payment where kind = 'fund' and recipient = $1 order by created_at`,
    [address],
  )
}

/** What an address has of gas, and how much of that is reserved. */
async function gas(address: string): Promise<number[]> {
  const [row] = await money.db.rows<{amount: string; reserved: string}>(
    'select amount, reserved from app.gas where address = $1',
    [address],
  )
  return [Number(row?.amount ?? 0), Number(row?.reserved ?? 0)]
}

async function treasury(): Promise<{balance: number; reserved: number}> {
  const [row] = await money.db.rows<{balance: string; reserved: string}>(
    `select balance, reserved from app.treasury where token = 'ETH'`,
  )
  return {balance: Number(row!.balance), reserved: Number(row!.reserved)}
}

/** Sends an address gas, finally. */
async function fund(address: string, amount: number): Promise<void> {
  await beginFund(null, address, amount)
  await money.mineFinally([(await money.attempt((await funds(address)).at(-1)!.id))!])
}

test('gas is reserved when it begins, and is on the address when it is final; its fee is a network fee', async () => {
  const {address} = await holder()
  const before = await treasury()
  expect(await beginFund(null, address, 50)).toBeNull()
  expect(await treasury()).toEqual({...before, reserved: before.reserved + 50 + networkFee})
  const [begun] = await funds(address)
  const txid = await money.attempt(begun!.id)
  await money.mine([txid!])
  expect(await gas(address)).toEqual([0, 0])
  await money.finalise()
  expect(await gas(address)).toEqual([50, 0])
  expect(await treasury()).toEqual({balance: before.balance - 57, reserved: before.reserved})
  expect(
    await money.db.rows(
      `select kind, account, address, amount::int from app.ledger_entry where reference = $1 order by id`,
      [begun!.id],
    ),
  ).toEqual([
    {kind: 'network_fee', account: 'network', address: null, amount: 7},
    {kind: 'network_fee', account: 'treasury', address: null, amount: -7},
    {kind: 'fund', account: 'gas', address, amount: 50},
    {kind: 'fund', account: 'treasury', address: null, amount: -50},
  ])
})

test('one fund of an address is under way at a time, and none of a blocked address, or of a token with authorisations', async () => {
  const {address} = await holder()
  await beginFund(null, address, 50)
  await beginFund(null, address, 60)
  expect(await funds(address)).toMatchObject([{amount: '50'}])
  await money.mineFinally([(await money.attempt((await funds(address))[0]!.id))!])
  await beginFund(null, address, 5)
  expect(await funds(address)).toMatchObject([{outcome: 'done'}, {amount: '5', outcome: null}])
  await money.mineFinally([(await money.attempt((await funds(address))[1]!.id))!])

  const {address: blocked} = await holder()
  await money.db.rows(`select app.block_address('ETH', 'USDC', $1, 'it is frozen')`, [blocked])
  await beginFund(null, blocked, 50)
  expect(await funds(blocked)).toEqual([])
  const {address: other} = await holder()
  await money.work('begin_funds', null, 'ETH', 'ETH', [other], [50], networkFee)
  expect(await funds(other)).toEqual([])
})

test("gas is the operator's own money: with too little, nothing is begun, and what is short is said", async () => {
  const {address} = await holder()
  const {balance, reserved} = await treasury()
  expect(await beginFund(null, address, balance - reserved)).toBe('ETH for sweeping short by 0.00000000000000001')
  expect(await funds(address)).toEqual([])
})

test('a sweep begins with the gas that it may cost, and pays with it, whatever ether its merchant has there', async () => {
  const {address} = await holder()
  await money.deposit(address, 1000, {token: 'ETH'})
  await money.sweep(null, [address])
  expect(await money.db.rows(`select from app.outgoing_payment where source = $1`, [address])).toEqual([])
  await fund(address, 15)
  await money.sweep(null, [address])
  expect(await gas(address)).toEqual([15, networkFee])
  const sweep = await money.sweepOf(address)
  const first = await money.attempt(sweep)
  expect(await money.attempt(sweep, {price: 2})).toBeUndefined() // 5 more than there are
  await money.mineFinally([first!])
  expect(await gas(address)).toEqual([8, 0])
  expect(
    await money.db.rows('select token, amount::int from app.holding where address = $1 order by token', [address]),
  ).toEqual([
    {token: 'ETH', amount: 1000},
    {token: 'USDC', amount: 0},
  ])
})

test('gas that was not sent is given back, and is sent again as a failed sweep is: at once, then a minute later', async () => {
  const user = await holder(100)
  const {address} = user
  const payout = await money.claim(user)
  const unswept = async () =>
    (await money.jobs.query('select failures, failure from app.unswept_for($1)', [payout])).rows
  const sweepable = async () => (await money.jobs.query('select address from app.sweepable($1, 1, 10)', [payout])).rows
  for (const failures of [1, 2]) {
    const before = await treasury()
    await beginFund(null, address, 50)
    const begun = (await funds(address)).at(-1)!
    expect(await unswept()).toEqual([])
    await money.work('give_up_outgoing_payment', begun.id, 'fees rose')
    await money.mineFinally([(await money.attempt(begun.id, {kind: 'cancel'}))!])
    expect((await funds(address)).at(-1)).toMatchObject({outcome: 'cancelled'})
    expect([await gas(address), await treasury()]).toEqual([
      [0, 0],
      {balance: before.balance - 7, reserved: before.reserved},
    ])
    expect(await unswept()).toEqual([{failures, failure: 'the gas for it was not sent: fees rose'}])
  }
  expect(await sweepable()).toEqual([])
  await beginFund(null, address, 50)
  expect(await funds(address)).toHaveLength(2)
  await money.db.rows(
    `update app.outgoing_payment set final_at = final_at - interval '1 minute' where recipient = $1`,
    [address],
  )
  expect(await sweepable()).toEqual([{address}])
  await fund(address, 50)
  expect([(await funds(address)).length, await unswept()]).toEqual([3, []])
})

test('what gas is under way for is not swept from other addresses, too; with sweep_first its payout waits for it', async () => {
  const user = await holder(100)
  const {address: other} = await money.user(user.merchantId)
  await money.deposit(other, 60)
  const payout = await money.claim(user, 'USDC', {sweepFirst: true})
  await money.work('begin_sweeping', payout)
  const shortfall = () => money.work<string>('payout_shortfall', payout, networkFee)
  const before = Number(await shortfall())
  await beginFund(payout, user.address, 50)
  expect(before - Number(await shortfall())).toBe(100)
  const {rows} = await money.jobs.query('select address from app.sweepable($1, 1, 10)', [payout])
  expect(rows).toEqual([{address: other}])
  await money.work('end_sweeping', payout)
  expect(await money.status(payout)).toBe('sweeping')
  const second = await money.claim(await sameMerchant(user), 'USDC', {sweepFirst: true})
  await money.work('begin_sweeping', second)
  await money.db.rows('update app.deposit set settlement_id = $1 where address = $2', [second, user.address])
  await money.work('await_sweeps', second)
  expect(
    await money.db.rows('select outgoing_payment_id as id from app.payout_sweep where payout_id = $1', [second]),
  ).toMatchObject([{id: (await funds(user.address))[0]!.id}])
  await money.db.rows('update app.deposit set settlement_id = $1 where address = $2', [payout, user.address])
  await money.mineFinally([(await money.attempt((await funds(user.address))[0]!.id))!])
})

/** More of the merchant's to claim. */
async function sameMerchant(user: TestUser): Promise<TestUser> {
  const {address} = await money.user(user.merchantId)
  await money.deposit(address, 40)
  return user
}

// --- gas that goes back ---

/** An address that has swept its token, and has so much gas left. */
async function sweptWith(left: number): Promise<TestUser> {
  const user = await holder()
  await fund(user.address, left + 7)
  await money.sweep(null, [user.address])
  await money.mineFinally([(await money.attempt(await money.sweepOf(user.address)))!])
  return user
}

async function idle(): Promise<string[]> {
  const {rows} = await money.jobs.query<{address: string}>(`select address from app.idle_gas('ETH', 10)`)
  return rows.map(({address}) => address)
}

const later = (address: string, days: number) =>
  money.db.rows(`update app.gas set used_at = used_at - $2 * interval '1 day' where address = $1`, [address, days])

async function defunds(address: string): Promise<{id: string; amount: string; outcome: string | null}[]> {
  return await money.db.rows(
    `select id, amount::text as amount, outcome from app.outgoing_payment where kind = 'defund' and source = $1 order by created_at`,
    [address],
  )
}

test('gas is idle if it is worth a sweep and was not used for 30 days, and what uses it begins them anew', async () => {
  await money.db.rows(`update app.asset set sweep_min = 50 where chain = 'ETH' and token = 'ETH'`)
  const {address} = await sweptWith(50)
  const {address: little} = await sweptWith(49)
  await later(little, 31)
  await later(address, 29)
  expect(await idle()).toEqual([])
  await later(address, 2)
  expect(await idle()).toEqual([address])
  await fund(address, 5)
  expect(await idle()).toEqual([])
  await later(address, 31)
  expect(await idle()).toEqual([address])
})

test('gas is not idle while its address holds a token that is worth a sweep, receives one, or has something under way', async () => {
  const {address} = await sweptWith(60)
  await later(address, 31)
  await money.deposit(address, 100, {final: false})
  expect(await idle()).not.toContain(address)
  await money.finalise()
  expect(await idle()).not.toContain(address)
  await money.work('begin_defunds', 'ETH', [address], [50], [networkFee])
  expect(await defunds(address)).toEqual([])
  await money.db.rows(`select app.block_address('ETH', 'USDC', $1, 'it is frozen')`, [address])
  expect(await idle()).toContain(address)

  await money.deposit(address, 1000, {token: 'ETH'})
  await money.sweep(null, [address], 'ETH')
  expect(await idle()).not.toContain(address)
  await money.mineFinally([(await money.attempt(await money.sweepOf(address, 'ETH')))!])
  expect(await idle()).toContain(address)
})

test('a chain whose tokens need no gas any more leaves none on addresses for more than a day', async () => {
  const {address} = await sweptWith(60)
  await money.db.rows(`update app.asset set sweep_by = null where chain = 'ETH' and token = 'USDC'`)
  expect(await idle()).not.toContain(address)
  await later(address, 1)
  expect(await idle()).toContain(address)
  await money.db.rows(`update app.asset set sweep_by = 'fund' where chain = 'ETH' and token = 'USDC'`)
})

test('gas goes back to the operator in the treasury, and nothing of the merchant moves', async () => {
  const {address, merchantId} = await sweptWith(60)
  await money.deposit(address, 1000, {token: 'ETH'})
  const [before, funds] = [await treasury(), await money.operatorFunds('ETH')]
  await money.beginDefund(address, 50)
  await money.beginDefund(address, 50)
  expect(await gas(address)).toEqual([60, 60])
  const [begun] = await defunds(address)
  await money.mineFinally([(await money.attempt(begun!.id))!])
  expect(await gas(address)).toEqual([3, 0])
  expect(await treasury()).toEqual({...before, balance: before.balance + 50})
  expect(await money.operatorFunds('ETH')).toBe(funds + 50)
  expect(
    await money.db.rows(
      `select kind, account, address, merchant_id, amount::int from app.ledger_entry where reference = $1 order by id`,
      [begun!.id],
    ),
  ).toEqual([
    {kind: 'network_fee', account: 'network', address: null, merchant_id: merchantId, amount: 7},
    {kind: 'network_fee', account: 'gas', address, merchant_id: null, amount: -7},
    {kind: 'defund', account: 'treasury', address: null, merchant_id: null, amount: 50},
    {kind: 'defund', account: 'gas', address, merchant_id: null, amount: -50},
  ])
  expect(
    await money.db.rows(`select amount::int from app.holding where token = 'ETH' and address = $1`, [address]),
  ).toEqual([{amount: 1000}])
  expect(await money.db.rows(`select from analytics.sweeps where sweep_id = $1`, [begun!.id])).toEqual([])
})

test('an older copy learns from the journal of gas that goes back, and reserves it', async () => {
  const {address, merchantId} = await sweptWith(60)
  const [last] = await money.db.rows<{seq: number; nonce: number}>(
    `select (select max(seq)::int from custody.journal where stream = 'ETH') as seq, max(nonce) as nonce
     from app.outgoing_payment where fee_payer = $1`,
    [address],
  )
  const [txid, seq] = [money.newTxid(), last!.seq + 1]
  const what = {
    kind: 'defund',
    subject_id: randomUUID(),
    merchant_id: merchantId,
    token: 'ETH',
    amount: 50,
    max_fee: 10,
  }
  const from = {source: address, sender: address, destination: money.treasury, nonce: last!.nonce + 1}
  const details = {max_fee_per_gas: '1', max_priority_fee_per_gas: '1', gas_limit: 10}
  const signed = {stream: 'ETH', seq, txid, raw: '0x02', hash: txid, signed_at: new Date().toISOString(), details}
  await money.db.rows('select custody.reconcile($1)', [JSON.stringify([{...signed, ...what, ...from}])])
  expect([await gas(address), await defunds(address)]).toMatchObject([[60, 60], [{id: what.subject_id, outcome: null}]])
  await money.mineFinally([txid])
  expect([await gas(address), await defunds(address)]).toMatchObject([[3, 0], [{amount: '50', outcome: 'done'}]])
})

test('analysts see gas on addresses apart from the treasury, and what it paid among the costs of its merchant', async () => {
  const analytics = () =>
    money.db.rows<{token: string; gas: number}>(
      `select token, (gas_on_addresses * 10 ^ 18)::int as gas from analytics.treasury where chain = 'ETH' and token in ('ETH', 'USDC') order by token`,
    )
  const [before] = await analytics()
  const {address, merchantId} = await sweptWith(60)
  expect(await analytics()).toEqual([
    {token: 'ETH', gas: before!.gas + 60},
    {token: 'USDC', gas: 0},
  ])
  await money.beginDefund(address, 50)
  await money.mineFinally([(await money.attempt((await defunds(address))[0]!.id))!])
  expect((await analytics())[0]).toEqual({token: 'ETH', gas: before!.gas + 3})
  const costs = `select token, (sum(network_costs) * 10 ^ 18)::int as costs from analytics.earnings
    where merchant_id = app.public_id('mer', $1) and network_costs > 0 group by token`
  expect(await money.db.rows(costs, [merchantId])).toEqual([{token: 'ETH', costs: 3 * 7}]) // the fund, the sweep, the defund
})

test('how many days a treasury lasts counts the gas that it sends, less what comes back', async () => {
  const spent = async () => {
    const [row] = await money.db.rows<{spent: number}>(
      `select (app.operator_funds('ETH', 'ETH') * 7 / app.gas_left_days('ETH'))::float8 as spent`,
    )
    return row!.spent
  }
  const before = await spent()
  const {address} = await sweptWith(60)
  expect(await spent()).toBeCloseTo(before + 67 + 7, 3)
  await money.beginDefund(address, 50)
  await money.mineFinally([(await money.attempt((await defunds(address))[0]!.id))!])
  expect(await spent()).toBeCloseTo(before + 67 + 7 - 50, 3)
})

test('no payout waits for gas that goes back, or counts on it', async () => {
  const user = await sweptWith(60)
  await money.deposit(user.address, 1000, {token: 'ETH'})
  const payout = await money.claim(user, 'ETH', {sweepFirst: true})
  await money.work('begin_sweeping', payout)
  const shortfall = () => money.work<string>('payout_shortfall', payout, networkFee)
  const before = await shortfall()
  await money.beginDefund(user.address, 50)
  expect(await shortfall()).toBe(before)
  await money.work('await_sweeps', payout)
  expect(await money.db.rows('select from app.payout_sweep where payout_id = $1', [payout])).toEqual([])
  const {rows} = await money.jobs.query('select address, amount::int from app.sweepable($1, 1, 10)', [payout])
  expect(rows).toEqual([{address: user.address, amount: 1000}])
  await money.sweep(payout, [user.address], 'ETH') // beside it: each moves what is its own
  const [begun] = await defunds(user.address)
  const txids = [await money.attempt(begun!.id), await money.attempt(await money.sweepOf(user.address, 'ETH'))]
  await money.mineFinally(txids.map(txid => txid!))
  expect(await gas(user.address)).toEqual([3, 0])
  const merchants = `select amount::int from app.holding where token = 'ETH' and address = $1
    union all select amount::int from app.treasury_share where token = 'ETH' and merchant_id = $2`
  expect(await money.db.rows(merchants, [user.address, user.merchantId])).toEqual([{amount: 3}, {amount: 997}])
})

test('when fees rise, as much less goes back, and its cancel pays with the same gas; it is not begun again at once', async () => {
  const {address} = await sweptWith(60)
  await money.beginDefund(address, 40)
  const [begun] = await defunds(address)
  await money.attempt(begun!.id)
  await money.attempt(begun!.id, {price: 3, amount: '20'})
  expect(await defunds(address)).toMatchObject([{amount: '20'}])
  expect(await gas(address)).toEqual([60, 50])
  await money.work('give_up_outgoing_payment', begun!.id, 'fees rose')
  expect(await money.attempt(begun!.id, {kind: 'cancel', price: 7})).toBeUndefined() // 10 more than there are
  const cancel = await money.attempt(begun!.id, {kind: 'cancel', price: 5})
  expect(await gas(address)).toEqual([60, 51])
  await money.mineFinally([cancel!])
  expect(await gas(address)).toEqual([53, 0])
  await money.work('begin_defunds', 'ETH', [address], [40], [networkFee])
  expect(await defunds(address)).toMatchObject([{outcome: 'cancelled'}])
})

test('a payout knows that its address gets gas for the sweep of another token, and waits for that', async () => {
  await money.db.rows(
    `insert into app.asset select (jsonb_populate_record(a, '{"token": "EURC", "name": "ETH-EURC"}')).* from app.asset a where a.chain = 'ETH' and a.token = 'USDC'`,
  )
  await money.topUp('ETH', 1000)
  const user = await holder(100)
  await money.deposit(user.address, 100, {token: 'EURC'})
  const payout = await money.claim(user, 'EURC')
  const gettingGas = () => money.work<number>('getting_gas_for', payout)
  expect(await gettingGas()).toBe(0)
  await beginFund(null, user.address, 50)
  expect(await gettingGas()).toBe(1)
  expect(await money.work<number>('getting_gas_for', await money.claim(await holder(100)))).toBe(0)
  await money.mineFinally([(await money.attempt((await funds(user.address))[0]!.id))!])
  expect(await gettingGas()).toBe(0)
})
