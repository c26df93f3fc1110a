// What a payout is made of, over HTTP: deposits of users, receipts of payment requests and adjustments. Their sum is
// the gross, in every state.
import {afterAll, beforeAll, beforeEach, expect, test} from 'vitest'
import {type Api, Client, makeKey, startApi} from '../test/support/api.ts'
import {assertBooks} from '../test/support/books.ts'
import {Money} from '../test/support/money.ts'
import {PaymentRequests} from '../test/support/payment-requests.ts'
import type {TestUser} from '../test/support/people.ts'

let money: Money
let requests: PaymentRequests
let api: Api
let shop: TestUser
let client: Client

beforeAll(async () => {
  money = await Money.open()
  requests = await PaymentRequests.open(money.db)
  api = await startApi(money.db)
  await money.topUp('ETH', 1_000_000)
  await money.topUp('USDC', 100_000_000)
})
afterAll(async () => {
  await assertBooks(money.db)
  await api.close()
  await money.close()
})
beforeEach(async () => {
  shop = await money.merchant()
  client = await clientOf(shop)
})

const clientOf = async ({merchantId}: TestUser) => new Client(api, (await makeKey(money.db, merchantId)).secret)
const publicId = (id: string) => `pay_${id.replaceAll('-', '')}`
const refusal = ({status, body}: Awaited<ReturnType<Client['get']>>) => [status, body.error]

/** A payout of all of the shop's USDC. Resolves to its id in the database. */
const claim = () => money.claim(shop)
const pathOf = (payout: string) => `/v1/payouts/${publicId(payout)}/deposits`
const partsOf = (payout: string, limit = 50) => client.all(pathOf(payout), 'deposits', limit)
const grossOf = async (payout: string): Promise<string> =>
  (await client.get(`/v1/payouts/${publicId(payout)}`)).body.gross
const unitsOf = (amount: string) => BigInt(Math.round(Number(amount) * 1e6))

/** The amounts of a payout, whose sum is its gross. */
async function amountsOf(payout: string): Promise<string[]> {
  const parts = await partsOf(payout, 2)
  const sum = parts.reduce((sum, {amount}) => sum + unitsOf(amount), 0n)
  expect(sum).toBe(unitsOf(await grossOf(payout)))
  return parts.map(({amount}) => amount)
}

const complete = async (payout: string) => money.mineFinally([await money.payAndSign(payout)])
const lose = async (txid: string) => {
  await money.lose(txid)
  await money.resolve('reorged')
}
const credit = (txid: string) =>
  money.db.rows('select app.credit_unattributed(id) from app.deposit where txid = $1', [txid])
const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

test('GET /v1/payouts/:id/deposits lists deposits, receipts, and what the operator credited, the newest first: the sum is the gross', async () => {
  const other = await money.user(shop.merchantId)
  const stranger = await money.user(shop.merchantId, [])
  const request = await requests.create(money.api, shop.merchantId, {amount: 3_000_000})
  const txids = [
    await money.deposit(shop.address, 20_000_000),
    await money.deposit(request.address, 3_000_000),
    await money.deposit(stranger.address, 500_000),
    await money.deposit(other.address, 1),
  ]
  await credit(txids[2]!)
  const payout = await claim()
  await money.deposit(shop.address, 7_000_000) // final after the claim
  const {deposits} = (await client.get('/v1/deposits')).body
  const of = (txid: string) => deposits.find((deposit: {txid: string}) => deposit.txid === txid)
  const ofUser = (txid: string) => {
    const {id: deposit_id, user_id, external_ref, amount, output_index, created_at} = of(txid)
    const common = {type: 'deposit', amount, reason: null, deposit_id, status: 'final', txid, output_index}
    return {...common, user_id, external_ref, external_id: null, created_at}
  }
  const receipt = {
    type: 'receipt',
    amount: '3',
    reason: null,
    deposit_id: null,
    status: 'final',
    txid: txids[1],
    output_index: 0,
    user_id: null,
    external_ref: null,
    external_id: request.external_id,
    created_at: time,
  }
  const parts = await partsOf(payout)
  expect(parts).toEqual([ofUser(txids[3]!), ofUser(txids[2]!), receipt, ofUser(txids[0]!)])
  expect(Object.keys(parts[0])).toEqual(Object.keys(receipt))
  for (const limit of [1, 2, 3, 4]) expect(await partsOf(payout, limit)).toEqual(parts)
  expect(await amountsOf(payout)).toEqual(['0.000001', '0.5', '3', '20'])
  expect(await grossOf(payout)).toBe('23.500001')
  await complete(payout)
  expect(await partsOf(payout)).toEqual(parts)
})

test('what the operator credited at the address of a payment request, in another token, is in its payout, and in no list else', async () => {
  const request = await requests.create(money.api, shop.merchantId, {})
  await credit(await money.deposit(request.address, 700, {token: 'ETH'}))
  const payout = await money.claim(shop, 'ETH')
  expect(await partsOf(payout)).toMatchObject([
    {type: 'receipt', amount: '0.0000000000000007', external_id: request.external_id},
  ])
  expect(await requests.receipts(money.api, shop.merchantId, request.external_id)).toEqual([])
  expect((await client.get('/v1/deposits')).body.deposits).toEqual([])
})

test('a deposit that is lost after it was paid out stays in its payout; its debt is in the next one, and so is what cancels it', async () => {
  const request = await requests.create(money.api, shop.merchantId, {amount: 4_000_000})
  const lost = await money.deposit(shop.address, 10_000_000)
  const receipt = await money.deposit(request.address, 4_000_000)
  const first = await claim()
  await complete(first)
  await lose(lost)
  await lose(receipt)
  expect(await amountsOf(first)).toEqual(['4', '10'])
  expect((await partsOf(first)).map(({status}) => status)).toEqual(['reorged', 'reorged'])
  await money.deposit(shop.address, 20_000_000)
  const second = await claim()
  expect(await amountsOf(second)).toEqual(['-4', '-10', '20'])
  const {id} = (await client.get(`/v1/deposits?txid=${lost}`)).body.deposits[0]
  expect((await partsOf(second)).slice(0, 2)).toMatchObject([
    {type: 'adjustment', reason: 'deposit_lost', txid: receipt, external_id: request.external_id, deposit_id: null},
    {type: 'adjustment', reason: 'deposit_lost', txid: lost, deposit_id: id, status: null, external_id: null},
  ])
  await complete(second)

  await money.giveBack(lost, shop.address, 10_000_000)
  const third = await claim()
  expect(await partsOf(third)).toMatchObject([{type: 'adjustment', reason: 'deposit_back', amount: '10', txid: lost}])
  expect(await amountsOf(third)).toEqual(['10'])
  for (const [payout, amounts] of [
    [first, ['4', '10']],
    [second, ['-4', '-10', '20']],
  ] as const)
    expect(await amountsOf(payout)).toEqual(amounts)
})

test('a lost deposit that comes back with another amount counts in its payout as it was paid out', async () => {
  const lost = await money.deposit(shop.address, 10_000_000)
  const first = await claim()
  await complete(first)
  await lose(lost)
  await money.block([{txid: lost, amount: 12_000_000n, recipient: shop.address}], [])
  expect((await client.get('/v1/deposits')).body.deposits).toMatchObject([{status: 'pending', amount: '12'}])
  expect(await amountsOf(first)).toEqual(['10'])
  await money.finalise()
  expect(await amountsOf(first)).toEqual(['10'])
  const second = await claim()
  expect(await amountsOf(second)).toEqual(['12', '-10'])
  await complete(second)
  await lose(lost)
  expect([await amountsOf(first), await amountsOf(second)]).toEqual([['10'], ['12', '-10']])
})

test('a payout that fails is made of nothing: what it had collected is in the balance, and belongs to the next one', async () => {
  await money.deposit(shop.address, 10_000_000)
  await money.deposit(shop.address, 5_000_000)
  const failed = await claim()
  const {next_cursor} = (await client.get(`${pathOf(failed)}?limit=1`)).body
  await money.withoutAllocation(shop, 'USDC', () => client.post(`/v1/payouts/${publicId(failed)}/cancel`))
  // At once, though its deposits are not released yet.
  for (const path of [pathOf(failed), `${pathOf(failed)}?limit=1&cursor=${next_cursor}`])
    expect((await client.get(path)).body).toEqual({deposits: [], next_cursor: null, has_more: false})
  while (await money.allocate(shop, 100));
  const next = await claim()
  expect([await partsOf(failed), await amountsOf(next)]).toEqual([[], ['5', '10']])
})

test('a payout that fails while it pays gives its debt back, with what cancels the debt of its lost deposit', async () => {
  const lost = await money.deposit(shop.address, 10_000_000)
  await money.deposit(shop.address, 5_000_000)
  const first = await claim()
  const effect = await money.payAndSign(first)
  await lose(lost)
  expect(await amountsOf(first)).toEqual(['5', '10'])
  await money.deposit(shop.address, 16_000_000)
  const second = await claim()
  expect(await amountsOf(second)).toEqual(['-10', '16'])
  await money.mineFinally([effect], {success: false})
  while (await money.allocate(shop, 100));
  expect([await partsOf(first), await amountsOf(second)]).toEqual([[], ['-10', '16']])
  const third = await claim()
  expect(await partsOf(third)).toMatchObject([
    {type: 'adjustment', reason: 'payout_failed', amount: '10', txid: lost},
    {type: 'deposit', amount: '5'},
  ])
  expect(await amountsOf(third)).toEqual(['10', '5'])
})

test('while a payout still collects its deposits, its list is 409 payout_collecting, and never a part of it', async () => {
  for (let n = 1; n <= 3; n++) await money.deposit(shop.address, n * 1_000_000)
  const payout = await money.withoutAllocation(shop, 'USDC', claim)
  const collects = async (message: string) => {
    const reply = await client.get(pathOf(payout))
    expect([...refusal(reply), reply.headers.get('retry-after')]).toEqual([409, 'payout_collecting', '1'])
    expect(reply.body.message).toContain(message)
  }
  const named = async () =>
    (await client.get(`/v1/deposits?settlement_id=${publicId(payout)}`)).body.deposits.map(
      ({amount}: {amount: string}) => amount,
    )
  await collects('0 of 3 so far')
  expect(await named()).toEqual([])
  await money.allocate(shop, 1)
  await collects('1 of 3 so far')
  expect(await named()).toEqual(['1'])
  while (await money.allocate(shop, 1));
  expect([await amountsOf(payout), await named()]).toEqual([
    ['3', '2', '1'],
    ['3', '2', '1'],
  ])
})

test('what a payout is made of is its own merchant’s only, and a cursor is of one payout', async () => {
  for (const amount of [1, 2, 3]) await money.deposit(shop.address, amount * 1_000_000)
  const payout = await claim()
  const stranger = await clientOf(await money.merchant())
  for (const path of [pathOf(payout), `/v1/payouts/pay_${'0'.repeat(32)}/deposits`, '/v1/payouts/x/deposits'])
    expect(refusal(await stranger.get(path)), path).toEqual([404, 'payout_not_found'])
  const {next_cursor} = (await client.get(`${pathOf(payout)}?limit=1`)).body
  await money.deposit(shop.address, 4_000_000)
  for (const path of [pathOf(await claim()), '/v1/payouts'])
    expect(refusal(await client.get(`${path}?cursor=${next_cursor}`)), path).toEqual([400, 'invalid_request'])
  for (const query of ['limit=0', 'limit=201', 'status=final'])
    expect(refusal(await client.get(`${pathOf(payout)}?${query}`)), query).toEqual([400, 'invalid_request'])
  const {secret} = await makeKey(money.db, shop.merchantId, ['users'])
  expect(refusal(await new Client(api, secret).get(pathOf(payout)))).toEqual([403, 'insufficient_scope'])
})

test('GET /v1/deposits?settlement_id= lists the deposits of users that a payout collected, alone and with every other filter', async () => {
  const other = await money.user(shop.merchantId)
  const request = await requests.create(money.api, shop.merchantId, {amount: 9_000_000})
  const lost = await money.deposit(shop.address, 1_000_000)
  const txids = [lost, await money.deposit(other.address, 2_000_000), await money.deposit(shop.address, 3_000_000)]
  await money.deposit(request.address, 9_000_000)
  const payout = await claim()
  const settlement_id = publicId(payout)
  await complete(payout)
  await lose(lost)
  await money.deposit(shop.address, 40_000_000)
  const later = publicId(await claim())
  const {deposits} = (await client.get('/v1/deposits')).body
  const [{created_at, user_id}] = deposits.filter(({txid}: {txid: string}) => txid === txids[1])
  const filters: [Record<string, string>, string[]][] = [
    [{}, ['3', '2', '1']],
    [{status: 'final'}, ['3', '2']],
    [{status: 'reorged'}, ['1']],
    [{status: 'pending'}, []],
    [{chain: 'ETH'}, ['3', '2', '1']],
    [{chain: 'POLYGON'}, []],
    [{token: 'USDC', status: 'reorged'}, ['1']],
    [{token: 'ETH'}, []],
    [{user_id}, ['2']],
    [{user_id, status: 'reorged'}, []],
    [{address: shop.address}, ['3', '1']],
    [{address: shop.address, user_id}, []],
    [{txid: txids[2]!}, ['3']],
    [{txid: txids[2]!, user_id}, []],
    [{created_from: created_at}, ['3', '2']],
    [{created_to: created_at}, ['1']],
    [{created_from: created_at, user_id}, ['2']],
  ]
  for (const [filter, amounts] of filters) {
    const path = `/v1/deposits?${new URLSearchParams({...filter, settlement_id})}`
    const listed = await client.all(path, 'deposits', 1)
    expect([path, listed.map(({amount}) => amount)]).toEqual([path, amounts])
    for (const deposit of listed) expect(deposit.settlement_id).toBe(settlement_id)
    for (const deposit of await client.all(path.replace(settlement_id, later), 'deposits', 1))
      expect(deposit.settlement_id).toBe(later)
  }
})

test('deposits of a payout that is not the merchant’s, or does not exist, are 404 payout_not_found', async () => {
  await money.deposit(shop.address, 1_000_000)
  const payout = publicId(await claim())
  const stranger = await clientOf(await money.merchant())
  for (const settlement_id of [payout, `pay_${'0'.repeat(32)}`, 'x'])
    for (const more of ['', '&status=final', '&txid=0x1'])
      expect(refusal(await stranger.get(`/v1/deposits?settlement_id=${settlement_id}${more}`))).toEqual([
        404,
        'payout_not_found',
      ])
})
