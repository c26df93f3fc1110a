// Payment requests and their receipts, with the roles of the API and the worker and a chain that the test writes. The
// books are checked after every test.
import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {Money} from '../test/support/money.ts'
import {PaymentRequests} from '../test/support/payment-requests.ts'

let money: Money
let polygon: ChainWriter
let requests: PaymentRequests
let merchantId: string

beforeAll(async () => {
  money = await Money.open()
  polygon = await ChainWriter.open(money.db, 'POLYGON')
  requests = await PaymentRequests.open(money.db)
})
beforeEach(async () => {
  merchantId = (await money.merchant()).merchantId
})
afterAll(async () => {
  await polygon.close()
  await money.close()
})
afterEach(async () => {
  await assertBooks(money.db)
  expect(await money.incidents()).toEqual([])
  expect(await money.db.rows('select name, found from app.audit_checks() where count > 0')).toEqual([])
})

/** A request for so many base units of ETH's USDC, whose address is watched from now on. */
const ask = (amount: number, currency = 'ETH-USDC') => requests.create(money.api, merchantId, {amount, currency})

describe('creating a request', () => {
  test('gives it its own address, which was never watched before', async () => {
    const [one, two] = [await ask(100), await ask(100)]
    expect(one.address).not.toBe(two.address)
    expect(
      await money.db.rows('select chain, is_provisioned, user_id from app.address where address = $1 order by chain', [
        one.address,
      ]),
    ).toEqual([
      {chain: 'ETH', is_provisioned: true, user_id: null},
      {chain: 'POLYGON', is_provisioned: false, user_id: null},
    ])
  })

  test.each([
    ['1.5', '1.5', '1500000'],
    ['1.50', '1.5', '1500000'],
    ['0.000001', '0.000001', '1'],
    ['10', '10', '10000000'],
  ])('an amount of %s comes back as %s', async (asked, canonical, baseUnits) => {
    const made = await requests.create(money.api, merchantId, {amount: asked, currency: 'ETH-USDC'})
    expect(made).toMatchObject({amount: canonical, baseUnits})
  })

  test.each([
    ['0', 'SLINV'],
    ['0.0000001', 'SLINV'],
    ['1.0000000', 'SLINV'],
    ['9'.repeat(80), 'SL422'],
  ])('an amount of %s is refused', async (amount, code) => {
    await expect(requests.create(money.api, merchantId, {amount, currency: 'ETH-USDC'})).rejects.toMatchObject({code})
  })

  test("needs a reference with the merchant's prefix, and a known currency and chain", async () => {
    const prefix = await requests.prefixOf(merchantId)
    for (const externalId of ['other-1', prefix, `${prefix}-`, `${prefix}1`])
      await expect(requests.create(money.api, merchantId, {externalId})).rejects.toMatchObject({code: 'SLPFX'})
    await expect(requests.create(money.api, merchantId, {currency: 'DOGE'})).rejects.toMatchObject({code: 'SL404'})
    await expect(requests.create(money.api, merchantId, {currency: 'BTC'})).rejects.toMatchObject({code: 'SLCHN'})
  })

  test('twenty times at once with one reference makes one request, and takes one address', async () => {
    const taken = () => money.db.rows('select from custody.address where taken_at is not null')
    const before = (await taken()).length
    const externalId = `${await requests.prefixOf(merchantId)}-once`
    const responses = await Promise.allSettled(
      Array.from({length: 20}, () => requests.create(money.api, merchantId, {externalId})),
    )
    const refused = responses.flatMap(response => (response.status === 'rejected' ? [response.reason.code] : []))
    expect(refused).toEqual(Array(19).fill('SL409'))
    expect(await taken()).toHaveLength(before + 1)
  })

  test('twenty times with one reference and one key gives the same response; the key with another body is refused', async () => {
    const asked = {externalId: `${await requests.prefixOf(merchantId)}-keyed`, key: 'k'}
    const responses = await Promise.all(Array.from({length: 20}, () => requests.create(money.api, merchantId, asked)))
    expect(new Set(responses.map(response => JSON.stringify(response))).size).toBe(1)
    await expect(requests.create(money.api, merchantId, {key: 'k', amount: 7})).rejects.toMatchObject({code: 'SLIDK'})
  })
})

describe('the status of a request', () => {
  test('is awaiting, then detected when money is seen, and paid when it is final', async () => {
    const {id, address} = await ask(100)
    expect(await requests.state(id)).toMatchObject({status: 'awaiting', received: '0', pending: '0', position: null})
    const txid = await money.deposit(address, 100, {final: false})
    expect(await requests.state(id)).toMatchObject({status: 'detected', received: '0', pending: '100', txid: null})
    await money.finalise()
    expect(await requests.state(id)).toMatchObject({status: 'paid', received: '100', pending: '0', txid, late: false})
  })

  test('sums several payments, and shows an overpayment; the payment that sufficed is named', async () => {
    const {id, address} = await ask(100)
    await money.deposit(address, 60)
    expect(await requests.state(id)).toMatchObject({status: 'detected', received: '60', paid_at: null})
    const txid = await money.deposit(address, 50)
    const paid = await requests.state(id)
    expect(paid).toMatchObject({status: 'paid', received: '110', txid})
    await money.deposit(address, 5)
    const more = await requests.state(id)
    expect(more).toMatchObject({status: 'paid', received: '115', txid, paid_at: paid.paid_at})
    expect(Number(more.position)).toBeGreaterThan(Number(paid.position))
  })

  test('without money is expired when its time is over; with less than requested it is underpaid', async () => {
    const [nothing, some] = [await ask(100), await ask(100)]
    await money.deposit(some.address, 99)
    await requests.expire([nothing.id, some.id])
    expect(await requests.state(nothing.id)).toMatchObject({status: 'expired', position: null})
    expect(await requests.state(some.id)).toMatchObject({status: 'underpaid', received: '99', paid_at: null})
  })

  test('is not decided at its expiry while enough money is on its way, until that is final', async () => {
    const {id, address} = await ask(100)
    await money.deposit(address, 40)
    await money.deposit(address, 60, {final: false})
    await requests.expire([id])
    expect(await requests.state(id)).toMatchObject({status: 'detected', late: false})
    await money.finalise()
    expect(await requests.state(id)).toMatchObject({status: 'paid', late: false})
  })

  test('counts late money, and shows that it was late', async () => {
    const [none, part] = [await ask(100), await ask(100)]
    await money.deposit(part.address, 30)
    await requests.expire([none.id, part.id])
    await money.deposit(none.address, 100, {final: false})
    await money.deposit(part.address, 70, {final: false})
    expect(await requests.state(none.id)).toMatchObject({status: 'detected', late: false})
    expect(await requests.state(part.id)).toMatchObject({status: 'underpaid', received: '30', pending: '70'})
    await money.finalise()
    expect(await requests.state(none.id)).toMatchObject({status: 'paid', late: true})
    expect(await requests.state(part.id)).toMatchObject({status: 'paid', late: true})
  })

  test('does not call a payment late that was mined in time and read late, whatever block it moves to afterwards', async () => {
    const {id, address} = await ask(100)
    await money.deposit(address, 30)
    await requests.expire([id])
    const transfer = {txid: money.newTxid(), amount: 70n, recipient: address}
    await money.eth.write({add: [[transfer]]})
    expect(await requests.state(id)).toMatchObject({status: 'underpaid', pending: '70'})
    await money.eth.write({drop: 1, add: [{transfers: [transfer], time: new Date(Date.now() - 60_000)}]})
    expect(await requests.state(id)).toMatchObject({status: 'detected', pending: '70'})
    await money.eth.write({drop: 1, add: [[transfer]]})
    await money.finalise()
    expect(await requests.state(id)).toMatchObject({status: 'paid', late: false})
  })

  test('does not count a reorganised payment until it is back', async () => {
    const {id, address, external_id} = await ask(100)
    const receipts = () => requests.receipts(money.api, merchantId, external_id)
    const txid = await money.deposit(address, 100, {final: false})
    expect(await receipts()).toMatchObject([{txid, amount: '0.0001', status: 'pending', confirmations: 1}])
    await money.eth.write({drop: 1, add: [[]]})
    expect(await requests.state(id)).toMatchObject({status: 'awaiting', pending: '0'})
    expect(await receipts()).toEqual([])
    await requests.expire([id])
    expect(await requests.state(id)).toMatchObject({status: 'expired'})
    await money.eth.write({add: [[{txid, amount: 100n, recipient: address}]]})
    await money.finalise()
    expect(await requests.state(id)).toMatchObject({status: 'paid', late: false})
    expect(await receipts()).toMatchObject([{txid, status: 'final'}])
  })

  test('is no longer paid when an operator takes a final payment back', async () => {
    const {id, address} = await ask(100)
    const txid = await money.deposit(address, 100)
    expect(await requests.state(id)).toMatchObject({status: 'paid'})
    await money.lose(txid)
    await money.resolve('reorged')
    expect(await requests.state(id)).toMatchObject({
      status: 'awaiting',
      received: '0',
      position: null,
      txid: null,
      paid_at: null,
    })
  })
})

describe('a tolerance', () => {
  const withTolerance = (amount: number, tolerance?: string) =>
    requests.create(money.api, merchantId, {amount, ...(tolerance !== undefined && {tolerance})})
  const shown = ({external_id}: {external_id: string}) => requests.shown(money.api, merchantId, external_id)

  test.each([
    ['0.5%', 199, '0'],
    ['0.5%', 200, '0.000001'],
    ['0.00002', 100, '0.00002'],
    ['50%', 101, '0.00005'],
    ['0', 100, '0'],
    ['0.00%', 100, '0'],
  ])('of %s of %i base units is %s, rounded down', async (tolerance, amount, is) => {
    expect(await withTolerance(amount, tolerance)).toMatchObject({tolerance: is})
  })

  test.each(['50.1%', '0.000051', '0.0000001', '1'])('of %s is refused', async tolerance => {
    await expect(withTolerance(100, tolerance)).rejects.toMatchObject({code: 'SLINV', detail: 'tolerance'})
  })

  test("is the merchant's own, unless the request says otherwise; a request keeps the one that it was made with", async () => {
    const before = await withTolerance(1000)
    await money.db.rows('select app.set_payment_tolerance($1, 150)', [merchantId])
    expect((await withTolerance(1000)).tolerance).toBe('0.000015')
    expect((await withTolerance(1000, '0')).tolerance).toBe('0')
    expect((await shown(before)).tolerance).toBe('0')
    for (const bps of [-1, 5001, null])
      await expect(money.db.rows('select app.set_payment_tolerance($1, $2)', [merchantId, bps])).rejects.toMatchObject({
        code: 'SL422',
      })
  })

  test('is what may be missing: then it is paid, and what is missing is told exactly, and not asked for', async () => {
    const made = await withTolerance(1000, '0.5%')
    await money.deposit(made.address, 994)
    expect(await shown(made)).toMatchObject({status: 'detected', shortfall: '0.000006', amount_missing: '0.000006'})
    await money.deposit(made.address, 1, {final: false})
    expect(await shown(made)).toMatchObject({status: 'detected', shortfall: '0.000006', amount_missing: '0'})
    await money.finalise()
    expect(await shown(made)).toMatchObject({
      status: 'paid',
      amount_received: '0.000995',
      shortfall: '0.000005',
      amount_missing: '0',
      explanation: '0.000005 USDC did not come, which is within the tolerance of 0.000005 USDC',
    })
    expect(await requests.events(made.id)).toEqual(['detected', 'partially_paid', 'paid'])
  })
})

describe('what is too little to be a payment', () => {
  beforeAll(() => money.db.rows(`update app.asset set min_payment = 10 where token = 'USDC'`))
  afterAll(() => money.db.rows(`update app.asset set min_payment = 1 where token = 'USDC'`))
  const shown = ({external_id}: {external_id: string}) => requests.shown(money.api, merchantId, external_id)

  test('moves no request, which can be cancelled and expires; it is listed, and is in the balance', async () => {
    const [one, other] = [await ask(100), await ask(100)]
    for (const {address} of [one, other]) await money.deposit(address, 9)
    expect(await shown(one)).toMatchObject({
      status: 'awaiting',
      amount_received: '0.000009',
      amount_missing: '0.000091',
      receipts: [{amount: '0.000009', status: 'final'}],
      explanation: 'only 0.000009 USDC came, which is too little to count as a payment',
    })
    await money.api.query('select app.cancel_payment_request($1, $2)', [merchantId, one.external_id])
    await requests.expire([other.id])
    expect(await requests.state(one.id)).toMatchObject({status: 'cancelled', received: '9', position: null})
    expect(await requests.state(other.id)).toMatchObject({status: 'expired', received: '9', position: null})
    expect([await requests.events(one.id), await requests.events(other.id)]).toEqual([['cancelled'], ['expired']])
    expect(await money.db.rows('select amount from app.balance_now where merchant_id = $1', [merchantId])).toEqual([
      {amount: '18'},
    ])
  })

  test('adds up with everything else: the sum decides, and a last bit of it completes an order', async () => {
    const made = await ask(1000)
    await money.deposit(made.address, 5)
    await money.deposit(made.address, 4)
    expect(await requests.state(made.id)).toMatchObject({status: 'awaiting', received: '9'})
    await money.deposit(made.address, 1)
    expect(await requests.state(made.id)).toMatchObject({status: 'detected', received: '10'})
    await money.deposit(made.address, 980)
    expect(await shown(made)).toMatchObject({status: 'detected', amount_missing: '0.00001'})
    await money.deposit(made.address, 1)
    expect(await shown(made)).toMatchObject({
      status: 'paid',
      shortfall: '0.000009',
      explanation: '0.000009 USDC did not come, which is too little to be asked for',
    })
    expect(await requests.events(made.id)).toEqual(['detected', 'partially_paid', 'partially_paid', 'paid'])
  })

  test('may be missing only up to a hundredth; and as events, dust on top of a part is told nobody', async () => {
    const made = await ask(500)
    await money.deposit(made.address, 494)
    expect(await shown(made)).toMatchObject({status: 'detected', shortfall: '0.000006', amount_missing: '0.00001'})
    await requests.expire([made.id])
    expect(await requests.events(made.id)).toEqual(['detected', 'partially_paid', 'underpaid'])
    const other = await ask(500)
    await money.deposit(other.address, 100)
    for (let n = 0; n < 3; n++) await money.deposit(other.address, 9)
    expect(await requests.state(other.id)).toMatchObject({status: 'detected', received: '127'})
    expect(await requests.events(other.id)).toEqual(['detected', 'partially_paid'])
  })

  test('is never the price of a request: one over the smallest amount needs all of it', async () => {
    const made = await ask(10)
    await money.deposit(made.address, 9)
    expect(await requests.state(made.id)).toMatchObject({status: 'awaiting'})
    await money.deposit(made.address, 1)
    expect(await requests.state(made.id)).toMatchObject({status: 'paid'})
    await expect(ask(9)).rejects.toMatchObject({code: 'SL422'})
    const tolerant = await requests.create(money.api, merchantId, {amount: 18, tolerance: '50%'})
    await money.deposit(tolerant.address, 9)
    expect(await requests.state(tolerant.id)).toMatchObject({status: 'awaiting'})
  })

  test('is not asked for, also by a request from before, which any amount moves', async () => {
    const made = await ask(100)
    await money.db.rows('update app.payment_request set detected_from = 1 where id = $1', [made.id])
    await money.deposit(made.address, 99)
    expect(await shown(made)).toMatchObject({status: 'detected', shortfall: '0.000001', amount_missing: '0.00001'})
    expect(await requests.state((await ask(100)).id)).toMatchObject({status: 'awaiting'})
  })
})

describe('the events of a request', () => {
  const endpoint = async (types: string[] | null) =>
    (
      await money.api.query('select id from app.create_webhook_endpoint($1, $2, $3)', [
        merchantId,
        'https://x.example',
        types,
      ])
    ).rows[0].id as string
  const sentTo = async (id: string) =>
    (
      await money.db.rows<{type: string}>(
        'select e.type from app.delivery d join app.event e on e.id = d.event_id where d.endpoint_id = $1 order by e.position',
        [id],
      )
    ).map(({type}) => type)

  test('go only to endpoints that name them, with its state then, and its notes', async () => {
    const [all, own, one] = [
      await endpoint(null),
      await endpoint(['payment_request.paid', 'payment_request.detected']),
      await endpoint(['payout.failed', 'payment_request.paid']),
    ]
    const {id, address, external_id} = await ask(100)
    await money.db.rows(`update app.payment_request set metadata = '{"order": "7"}' where id = $1`, [id])
    const txid = await money.deposit(address, 100)
    expect([await sentTo(all), await sentTo(own), await sentTo(one)]).toEqual([
      [],
      ['payment_request.detected', 'payment_request.paid'],
      ['payment_request.paid'],
    ])
    const [paid] = await money.db.rows<{payload: object}>(
      `select payload from app.event where subject_id = $1 and type = 'payment_request.paid'`,
      [id],
    )
    expect(paid!.payload).toEqual({
      type: 'payment_request.paid',
      id: expect.stringMatching(/^evt_[0-9a-f]{32}$/),
      external_id,
      currency: 'ETH-USDC',
      address,
      amount: '0.0001',
      tolerance: '0',
      status: 'paid',
      amount_received: '0.0001',
      amount_pending: '0',
      shortfall: '0',
      late: false,
      txid,
      expires_at: expect.any(String),
      metadata: {order: '7'},
      created_at: expect.any(String),
    })
  })

  test('tell what a shop would have to poll for: expired, underpaid, paid late, and reopened', async () => {
    const [none, part, gone] = [await ask(100), await ask(100), await ask(100)]
    await money.deposit(part.address, 40)
    const txid = await money.deposit(gone.address, 100)
    await requests.expire([none.id, part.id])
    await money.deposit(part.address, 10)
    await money.deposit(part.address, 50)
    await money.deposit(none.address, 100)
    await money.lose(txid)
    await money.resolve('reorged')
    expect([await requests.events(none.id), await requests.events(part.id), await requests.events(gone.id)]).toEqual([
      ['expired', 'detected', 'paid'],
      ['detected', 'partially_paid', 'underpaid', 'partially_paid', 'paid'],
      ['detected', 'paid', 'reopened'],
    ])
  })

  test('say that a request is not paid any more, also if a part of it stays', async () => {
    const {id, address} = await ask(100)
    await money.deposit(address, 60)
    const rest = await money.deposit(address, 40)
    await money.lose(rest)
    await money.resolve('reorged')
    expect(await requests.state(id)).toMatchObject({status: 'detected', received: '60'})
    expect(await requests.events(id)).toEqual(['detected', 'partially_paid', 'paid', 'reopened'])
  })

  test('say that what was seen has left the chain', async () => {
    const {id, address} = await ask(100)
    await money.deposit(address, 100, {final: false})
    await money.eth.write({drop: 1, add: [[]]})
    expect(await requests.events(id)).toEqual(['detected', 'reopened'])
    expect(await requests.state(id)).toMatchObject({status: 'awaiting'})
  })
})

describe('the money of a request', () => {
  test("counts in the balance, is paid out with it, and is no user's deposit: it causes no event of one", async () => {
    const {address} = await ask(1000)
    const user = await money.user(merchantId)
    await money.deposit(user.address, 500)
    await money.deposit(address, 1000)
    expect(
      await money.db.rows('select amount, deposit_count from app.balance_now where merchant_id = $1', [merchantId]),
    ).toEqual([{amount: '1500', deposit_count: '2'}])
    expect(
      await money.db.rows(
        `select type from app.event where merchant_id = $1 and type like 'deposit.%' order by position`,
        [merchantId],
      ),
    ).toEqual([{type: 'deposit.pending'}, {type: 'deposit.confirmed'}])
    const [payout] = await money.db.rows<{gross: string}>(
      `select app.create_payout($1, 'ETH', 'USDC', false, null, null)::json ->> 'gross' as gross`,
      [merchantId],
    )
    expect(payout).toEqual({gross: '0.0015'})
    expect(
      await money.db.rows('select from app.deposit where merchant_id = $1 and settlement_id is not null', [merchantId]),
    ).toHaveLength(2)
  })

  test('counts only its own token and chain: any other transfer to the address is unattributed', async () => {
    const {id, address} = await ask(100)
    await money.deposit(address, 100, {token: 'ETH'})
    await polygon.write({add: [[{txid: '0xpolygon', amount: 100n, token: 'POL', recipient: address}]]})
    expect(await requests.state(id)).toMatchObject({status: 'awaiting', pending: '0', received: '0'})
    expect(
      await money.db.rows('select chain, token, credited from app.deposit where address = $1 order by chain', [
        address,
      ]),
    ).toEqual([
      {chain: 'ETH', token: 'ETH', credited: false},
      {chain: 'POLYGON', token: 'POL', credited: false},
    ])
  })
})
