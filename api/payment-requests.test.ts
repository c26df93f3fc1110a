// The contract of payment requests, line by line, and every refusal of it, over HTTP, on the real database. The states
// of a request are tested in db/payment-requests.test.ts; these tests check what a merchant sees of them.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type Api, Client, makeKey, type Reply, startApi} from '../test/support/api.ts'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {beginToPay, includeFinally, makeTreasury, topUp} from '../test/support/evm/payouts.ts'
import {PaymentRequests} from '../test/support/payment-requests.ts'
import {makeMerchant, makeUser} from '../test/support/people.ts'
import {readQrSvg} from '../test/support/qr.ts'

const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const destination = '0x52908400098527886E0F7030069857D2E4169EE7'
const usdcContract = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'
const chainSettings = {ETH_CHAIN_ID: '31337', POLYGON_CHAIN_ID: '31338', ETH_USDC_CONTRACT: usdcContract}

let db: TestDatabase
let api: Api
let eth: ChainWriter
let requests: PaymentRequests

beforeAll(async () => {
  db = await testDatabase()
  api = await startApi(db, {chainSettings})
  requests = await PaymentRequests.open(db)
  eth = await ChainWriter.open(db, 'ETH')
  await (await ChainWriter.open(db, 'POLYGON')).close()
})
afterAll(async () => {
  expect(await db.rows('select * from app.balance_audit')).toEqual([])
  expect(await db.rows('select * from app.ledger_audit')).toEqual([])
  await eth.close()
  await api.close()
  await db.drop()
})

interface Merchant {
  id: string
  prefix: string
  secret: string
  client: Client
}

async function newMerchant(chains = ['ETH', 'POLYGON', 'BTC'], of = api): Promise<Merchant> {
  const id = await makeMerchant(db, chains)
  const {secret} = await makeKey(db, id)
  return {id, prefix: await requests.prefixOf(id), secret, client: new Client(of, secret, 'x-api-key')}
}

let references = 0
const reference = ({prefix}: Merchant) => `${prefix}-${++references}`

/** The data of a new request. */
async function ask(merchant: Merchant, amount = '25', currency = 'ETH-USDC') {
  const external_id = reference(merchant)
  const {status, body} = await merchant.client.post(`/v1/${currency}/payment-request`, {external_id, amount})
  expect(status).toBe(200)
  return body.data
}

let txids = 0
async function pay({address}: {address: string}, amount: bigint, {final = true, token = 'USDC'} = {}): Promise<string> {
  const txid = `0xtx${++txids}`
  await eth.write({add: [[{txid, amount, token, recipient: address}]]})
  if (final) await eth.finalise(eth.head.height)
  return txid
}

async function expire({external_id}: {external_id: string}): Promise<void> {
  const [row] = await db.rows<{id: string}>('select id from app.payment_request where external_id = $1', [external_id])
  await requests.expire([row!.id])
}

const refusal = ({status, body}: Reply) => [status, body.error]
const stateOf = async ({client}: Merchant, external_id: string) =>
  (await client.get(`/v1/payment-requests/${external_id}`)).body.data
const paymentsOf = async ({client}: Merchant, query = '') => (await client.get(`/payments${query}`)).body.data
const takenAddresses = async () =>
  (await db.rows<{n: number}>('select count(*)::int as n from custody.address where taken_at is not null'))[0]!.n
const requestCount = async ({id}: Merchant) =>
  (await db.rows('select from app.payment_request where merchant_id = $1', [id])).length

/** Opens all connections of the API's pool, so that requests that follow at once reach the database at once. */
async function openConnections({client}: Merchant): Promise<void> {
  await Promise.all(Array.from({length: 30}, (_, n) => client.get(`/v1/users?limit=${n + 1}`)))
}

// --- assets ---

test('GET /v1/crypto lists the assets of the enabled chains, in a fixed order', async () => {
  const merchant = await newMerchant()
  const {status, body} = await merchant.client.get('/v1/crypto')
  expect(status).toBe(200)
  expect(Object.keys(body)).toEqual(['code', 'data'])
  expect(body).toEqual({
    code: 200,
    data: [
      {name: 'BTC', display_name: 'Bitcoin'},
      {name: 'ETH', display_name: 'Ether'},
      {name: 'ETH-USDC', display_name: 'USD Coin'},
      {name: 'POL', display_name: 'Polygon Ecosystem Token'},
      {name: 'POLYGON-USDC', display_name: 'USD Coin'},
    ],
  })
  await db.rows(`select app.set_merchant_chain($1, 'ETH', false)`, [merchant.id])
  expect((await merchant.client.get('/v1/crypto')).body.data.map(({name}: {name: string}) => name)).toEqual([
    'BTC',
    'POL',
    'POLYGON-USDC',
  ])
  expect((await (await newMerchant([])).client.get('/v1/crypto')).body).toEqual({code: 200, data: []})
})

// --- a new request ---

test('POST /v1/:currency/payment-request gives each payment its own address, a URI, a page and 24 hours', async () => {
  const merchant = await newMerchant()
  const external_id = reference(merchant)
  const {status, headers, body} = await merchant.client.post('/v1/ETH-USDC/payment-request', {
    external_id,
    amount: '25',
  })
  expect([status, headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8'])
  expect(Object.keys(body)).toEqual(['code', 'message', 'data'])
  expect([body.code, typeof body.message]).toEqual([200, 'string'])
  const {address, payment_url, expires_at} = body.data
  expect(Object.entries(body.data)).toEqual([
    ['external_id', external_id],
    ['currency', 'ETH-USDC'],
    ['address', expect.stringMatching(/^0x[0-9a-fA-F]{40}$/)],
    ['amount', '25'],
    ['tolerance', '0'],
    ['payment_uri', `ethereum:${usdcContract}@31337/transfer?address=${address}&uint256=25000000`],
    ['payment_url', expect.stringMatching(new RegExp(`^${api.url}/pay/[\\w-]{32}$`))],
    ['expires_at', expect.stringMatching(timestamp)],
    ['metadata', {}],
    ['return_url', null],
  ])
  expect(Date.parse(expires_at) - Date.now()).toBeGreaterThan(86_400_000 - 60_000)
  expect(Date.parse(expires_at) - Date.now()).toBeLessThanOrEqual(86_400_000)
  const other = await ask(merchant)
  expect([other.address, other.payment_url]).not.toEqual([address, payment_url])
})

test('metadata and return_url are kept as given, shown with the request and its payment, and part of the idempotent request', async () => {
  const merchant = await newMerchant()
  const body = {
    external_id: reference(merchant),
    amount: '25',
    metadata: {order: '1042'},
    return_url: 'https://shop.example/o?id=1#x',
  }
  const headers = {'idempotency-key': '"noted"'}
  const post = (fields: object) =>
    merchant.client.call('POST', '/v1/ETH-USDC/payment-request', {...body, ...fields}, headers)
  const {data} = (await post({})).body
  expect(data).toMatchObject({metadata: body.metadata, return_url: body.return_url})
  expect((await post({})).body.data).toEqual(data)
  expect((await post({metadata: {order: '1042'}})).body.data).toEqual(data)
  for (const fields of [{metadata: {order: '1'}}, {return_url: 'https://shop.example/'}, {metadata: undefined}])
    expect(refusal(await post(fields))).toEqual([422, 'idempotency_key_reused'])
  const shown = {external_id: body.external_id, metadata: body.metadata, return_url: body.return_url}
  expect(await stateOf(merchant, body.external_id)).toMatchObject(shown)
  expect((await merchant.client.get('/v1/payment-requests')).body.data).toMatchObject([shown])
  await pay(data, 25_000_000n)
  expect(await paymentsOf(merchant)).toMatchObject([{metadata: body.metadata}])
  for (const return_url of [
    'http://shop.example/',
    'shop.example',
    'https://',
    'https://user@shop.example/',
    'javascript:alert(1)',
    `https://x/${'x'.repeat(2048)}`,
    'https://a b/',
    '',
    null,
    1,
  ])
    expect(
      refusal(
        await merchant.client.post('/v1/ETH/payment-request', {
          external_id: reference(merchant),
          amount: '1',
          return_url,
        }),
      ),
    ).toEqual([400, 'invalid_request'])
})

// --- cancelling ---

test('a request that is awaiting can be cancelled, once or again; what comes all the same counts as late', async () => {
  const [merchant, other] = [await newMerchant(), await newMerchant()]
  const made = await ask(merchant)
  const cancel = (id: string, by = merchant) => by.client.post(`/v1/payment-requests/${id}/cancel`)
  const {status, body} = await cancel(made.external_id)
  expect(status).toBe(200)
  expect(body.data).toMatchObject({
    ...made,
    payment_uri: null,
    status: 'cancelled',
    cancelled_at: expect.stringMatching(timestamp),
    receipts: [],
  })
  expect(await stateOf(merchant, made.external_id)).toEqual(body.data)
  expect((await cancel(made.external_id)).body.data).toEqual(body.data)
  expect(await paymentsOf(merchant)).toEqual([])

  await pay(made, 24_000_000n, {final: false})
  expect(await stateOf(merchant, made.external_id)).toMatchObject({status: 'detected', receipts: [{late: true}]})
  await eth.finalise(eth.head.height)
  expect(await stateOf(merchant, made.external_id)).toMatchObject({
    status: 'underpaid',
    amount_received: '24',
    late: true,
  })
  await pay(made, 1_000_000n)
  expect(await paymentsOf(merchant)).toMatchObject([{external_id: made.external_id, status: 'paid', late: true}])
  expect(refusal(await cancel(made.external_id))).toEqual([422, 'unprocessable'])
  expect(await stateOf(merchant, made.external_id)).toMatchObject({
    status: 'paid',
    cancelled_at: body.data.cancelled_at,
  })

  const [seen, paid, expired] = [await ask(merchant), await ask(merchant), await ask(merchant)]
  await pay(paid, 25_000_000n)
  await pay(seen, 25_000_000n, {final: false})
  await expire(expired)
  for (const {external_id} of [seen, paid, expired])
    expect(refusal(await cancel(external_id))).toEqual([422, 'unprocessable'])
  const kept = await ask(merchant)
  for (const [id, by] of [
    [kept.external_id, other],
    [`${merchant.prefix}-none`, merchant],
    ['%00', merchant],
  ] as const)
    expect(refusal(await cancel(id, by))).toEqual([404, 'payment_request_not_found'])
  expect(await stateOf(merchant, kept.external_id)).toMatchObject({status: 'awaiting', cancelled_at: null})
})

test('GET /v1/payment-requests lists requests newest first, also of one status, in pages', async () => {
  const merchant = await newMerchant()
  const made = []
  for (let n = 0; n < 6; n++) made.push(await ask(merchant))
  const [cancelled, expired, underpaid, detected, paid, awaiting] = made
  await merchant.client.post(`/v1/payment-requests/${cancelled.external_id}/cancel`)
  await expire(expired)
  await pay(underpaid, 1n)
  await expire(underpaid)
  await pay(paid, 25_000_000n)
  await pay(detected, 1n, {final: false})
  const statuses = {cancelled, expired, underpaid, detected, paid, awaiting}
  const list = async (query: string) => (await merchant.client.get(`/v1/payment-requests${query}`)).body
  const all = await list('')
  expect(Object.keys(all)).toEqual(['code', 'data', 'next_cursor', 'has_more'])
  const newestFirst = Object.entries(statuses).reverse()
  expect(all.data).toMatchObject(
    newestFirst.map(([status, {external_id, address, amount}]) => ({external_id, address, amount, status})),
  )
  for (const item of all.data) {
    const {
      payment_uri: _uri,
      payment_url: _url,
      receipts: _receipts,
      ...state
    } = await stateOf(merchant, item.external_id)
    expect(item).toEqual(state)
  }
  for (const [n, [status]] of newestFirst.entries())
    expect((await list(`?status=${status}`)).data).toEqual([all.data[n]])
  expect(await merchant.client.all('/v1/payment-requests', 'data', 2)).toEqual(all.data)
  expect(refusal(await merchant.client.get('/v1/payment-requests?status=open'))).toEqual([400, 'invalid_request'])
  expect((await (await newMerchant()).client.get('/v1/payment-requests')).body.data).toEqual([])
})

test('each asset has a payment URI with the settings of its chain', async () => {
  const merchant = await newMerchant()
  await db.rows(`insert into custody.address (address, family, derivation_index) values ('bcrt1qpay', 'bitcoin', 0)`)
  const uris = new Map<string, string>()
  for (const [currency, amount] of [
    ['ETH', '0.5'],
    ['POL', '1.000000000000000001'],
    ['BTC', '0.00012345'],
  ] as const) {
    const {payment_uri, address} = await ask(merchant, amount, currency)
    uris.set(currency, payment_uri.replace(address, 'ADDRESS'))
  }
  expect(Object.fromEntries(uris)).toEqual({
    ETH: 'ethereum:ADDRESS@31337?value=500000000000000000',
    POL: 'ethereum:ADDRESS@31338?value=1000000000000000001',
    BTC: 'bitcoin:ADDRESS?amount=0.00012345',
  })
})

test('the public URL and the lifetime of requests are settings', async () => {
  const own = await startApi(db, {publicUrl: 'https://pay.example/sluice', paymentExpiryMs: 90_000})
  try {
    const {payment_url, expires_at} = await ask(await newMerchant(['ETH'], own))
    expect(payment_url).toMatch(/^https:\/\/pay\.example\/sluice\/pay\/[\w-]{32}$/)
    expect(Date.parse(expires_at) - Date.now()).toBeLessThanOrEqual(90_000)
    expect(Date.parse(expires_at) - Date.now()).toBeGreaterThan(30_000)
  } finally {
    await own.close()
  }
})

test('amounts are returned in canonical form', async () => {
  const merchant = await newMerchant()
  for (const [given, currency, canonical] of [
    ['1.50', 'ETH-USDC', '1.5'],
    ['10.000000', 'ETH-USDC', '10'],
    ['0.000001', 'ETH-USDC', '0.000001'],
    ['100', 'ETH', '100'],
    ['0.000000000000000001', 'ETH', '0.000000000000000001'],
    ['123456789.012345678901234567', 'ETH', '123456789.012345678901234567'],
  ] as const) {
    const {external_id, amount} = await ask(merchant, given, currency)
    expect(amount).toBe(canonical)
    expect((await stateOf(merchant, external_id)).amount).toBe(canonical)
  }
})

test('an invalid amount is 400 invalid_request that names the amount, and takes no address', async () => {
  const merchant = await newMerchant()
  const before = await takenAddresses()
  const amounts = [
    '0',
    '0.0',
    '-1',
    '+1',
    '1e3',
    '1.0000000',
    '0.0000001',
    '',
    ' 1',
    '1 ',
    '007',
    '00',
    '.5',
    '1.',
    '1,5',
  ]
  for (const amount of [
    ...amounts,
    '1.2.3',
    '0x10',
    'NaN',
    'Infinity',
    '１',
    '9'.repeat(101),
    `0.${'0'.repeat(20_000)}1`,
    25,
    0.5,
    null,
    true,
    ['1'],
    {},
  ]) {
    const reply = await merchant.client.post('/v1/ETH-USDC/payment-request', {external_id: reference(merchant), amount})
    expect(refusal(reply), String(amount).slice(0, 100)).toEqual([400, 'invalid_request'])
    expect(reply.body.details).toMatchObject([{path: 'amount', message: expect.any(String)}])
  }
  const asNumber = await merchant.client.post('/v1/ETH/payment-request', {external_id: reference(merchant), amount: 25})
  expect(asNumber.body.message).toMatch(/^amount: must be a JSON string/)
  const long = {external_id: reference(merchant), amount: '1'.repeat(101)}
  const tooLong = await merchant.client.post('/v1/ETH/payment-request', long)
  expect(tooLong.body.message).toBe('amount: must have at most 100 characters')
  const missing = await merchant.client.post('/v1/ETH/payment-request', {external_id: reference(merchant)})
  expect(refusal(missing)).toEqual([400, 'invalid_request'])
  expect([await takenAddresses(), await requestCount(merchant)]).toEqual([before, 0])
})

test('an amount that is not worth collecting from an address of its own is 422 unprocessable', async () => {
  const merchant = await newMerchant(['ETH'])
  await db.rows(`select app.set_sweep_min('ETH', 'USDC', 1000000)`)
  const post = (amount: string) =>
    merchant.client.post('/v1/ETH-USDC/payment-request', {external_id: reference(merchant), amount})
  const refused = await post('0.999999')
  expect([...refusal(refused), refused.body.message]).toEqual([
    422,
    'unprocessable',
    'amount: must be at least 1 ETH-USDC; less is not worth collecting from its address, which is used for nothing else',
  ])
  expect(await requestCount(merchant)).toBe(0)
  expect((await post('1')).status).toBe(200)
  await db.rows(`select app.set_sweep_min('ETH', 'USDC', 0)`)
})

test('an amount that nobody can pay on its chain is 422 unprocessable, and takes no address', async () => {
  const merchant = await newMerchant(['BTC', 'ETH', 'POLYGON', 'SOL', 'TRON'])
  const before = await takenAddresses()
  const post = async (currency: string, amount: string) => {
    const reply = await merchant.client.post(`/v1/${currency}/payment-request`, {
      external_id: reference(merchant),
      amount,
    })
    return [...refusal(reply), reply.body.message]
  }
  const least = (coins: string) => [422, 'unprocessable', `amount: must be at least ${coins}; less is no payment`]
  expect(await post('SOL', '0.000890879')).toEqual(least('0.00089088 SOL'))
  expect(await post('BTC', '0.00000293')).toEqual(least('0.00000294 BTC'))
  for (const [currency, amount] of [
    ['BTC', '21000000.00000001'],
    ['ETH', '1000000000.000000000000000001'],
    ['ETH-USDC', '9'.repeat(78)],
    ['POL', '18446744073709551616'],
    ['SOL', '18446744073.709551616'],
    ['TRX', '9223372036854.775808'],
  ] as const)
    expect(await post(currency, amount)).toEqual([422, 'unprocessable', `amount: there are not so many ${currency}`])
  expect([await takenAddresses(), await requestCount(merchant)]).toEqual([before, 0])
  await db.rows(`insert into custody.address (address, family, derivation_index) values
    ('bcrt1qleast', 'bitcoin', 10), ('bcrt1qmost', 'bitcoin', 11), ('solana', 'solana', 10), ('tron', 'tron', 10)`)
  for (const [currency, amount] of [
    ['SOL', '0.00089088'],
    ['BTC', '0.00000294'],
    ['BTC', '21000000'],
    ['ETH', '0.000000000000000001'],
    ['TRX', '0.000001'],
  ] as const)
    expect((await ask(merchant, amount, currency)).amount).toBe(amount)
})

test('an external_id without the prefix of the account and - is 400 external_id_prefix_mismatch', async () => {
  const merchant = await newMerchant()
  const {prefix} = merchant
  const {prefix: another} = await newMerchant()
  const post = (external_id: unknown) => merchant.client.post('/v1/ETH/payment-request', {external_id, amount: '1'})
  for (const external_id of [
    '1042',
    prefix,
    `${prefix}-`,
    `${prefix}_1`,
    `${prefix}1-1`,
    `${prefix.toUpperCase()}-1`,
    ` ${prefix}-1`,
    `${another}-1`,
  ]) {
    const reply = await post(external_id)
    expect(refusal(reply), external_id).toEqual([400, 'external_id_prefix_mismatch'])
    expect(reply.body.message).toContain(`${prefix}-`)
  }
  for (const external_id of [
    '',
    null,
    7,
    ['a'],
    undefined,
    `${prefix}-a\0b`,
    `${prefix}-${'x'.repeat(255 - prefix.length)}`,
  ]) {
    const reply = await post(external_id)
    expect(refusal(reply), String(external_id)).toEqual([400, 'invalid_request'])
    expect(reply.body.details).toMatchObject([{path: 'external_id'}])
  }
  expect(await requestCount(merchant)).toBe(0)
  for (const external_id of [`${prefix}-😀 /?#%2F"\\`, `${prefix}-${'x'.repeat(254 - prefix.length)}`]) {
    const {status, body} = await post(external_id)
    expect([status, body.data.external_id]).toEqual([200, external_id])
    expect((await stateOf(merchant, encodeURIComponent(external_id))).external_id).toBe(external_id)
    expect((await merchant.client.get(`/payments?external_id=${encodeURIComponent(external_id)}`)).status).toBe(200)
  }
})

test('an unknown currency is 404 currency_not_found, even if it is the name of another route', async () => {
  const merchant = await newMerchant()
  for (const currency of [
    'DOGE',
    'eth',
    'USDC',
    'BTC-USDC',
    'payments',
    'balances',
    '%00',
    '%F0%9F%98%80',
    'ETH%20',
    "'",
  ]) {
    const reply = await merchant.client.post(`/v1/${currency}/payment-request`, {
      external_id: reference(merchant),
      amount: '1',
    })
    expect(refusal(reply), currency).toEqual([404, 'currency_not_found'])
  }
  // These are the paths of other routes, which still work.
  expect(refusal(await merchant.client.get('/v1/users/payment-request'))).toEqual([404, 'user_not_found'])
  expect(refusal(await merchant.client.post('/v1/users/payment-request', {}))).toEqual([405, 'method_not_allowed'])
  const other = await merchant.client.get('/v1/ETH/payment-request')
  expect([...refusal(other), other.headers.get('allow')]).toEqual([405, 'method_not_allowed', 'OPTIONS, POST'])
})

test('a disabled chain is 422 chain_not_enabled; requests from before it was disabled stay visible and can be paid', async () => {
  const merchant = await newMerchant(['ETH'])
  const made = await ask(merchant)
  for (const currency of ['POL', 'BTC', 'SOL']) {
    const reply = await merchant.client.post(`/v1/${currency}/payment-request`, {
      external_id: reference(merchant),
      amount: '1',
    })
    expect(refusal(reply)).toEqual([422, 'chain_not_enabled'])
  }
  await db.rows(`select app.set_merchant_chain($1, 'ETH', false)`, [merchant.id])
  const reply = await merchant.client.post('/v1/ETH/payment-request', {external_id: reference(merchant), amount: '1'})
  expect(refusal(reply)).toEqual([422, 'chain_not_enabled'])
  expect(await requestCount(merchant)).toBe(1)
  await pay(made, 25_000_000n)
  expect(await stateOf(merchant, made.external_id)).toMatchObject({...made, status: 'paid', payment_uri: null})
  expect(await paymentsOf(merchant)).toMatchObject([{external_id: made.external_id, status: 'paid'}])
})

test('an external_id is one reference in each Unicode form, and a new one has no character that nobody sees', async () => {
  const merchant = await newMerchant()
  const {client, prefix} = merchant
  const request = (external_id: string) => client.post('/v1/ETH-USDC/payment-request', {external_id, amount: '25'})
  const first = `${prefix}-caf\u00e9`
  const other = `${prefix}-cafe\u0301`
  const {body} = await request(first)
  expect(refusal(await request(other))).toEqual([409, 'external_id_conflict'])
  const shown = await client.get(`/v1/payment-requests/${encodeURIComponent(other)}`)
  expect(shown.body.data).toMatchObject({external_id: first, address: body.data.address})
  for (const bad of ['a\u200b', 'a ']) {
    const {status, body} = await request(`${prefix}-${bad}`)
    expect([status, body.details]).toMatchObject([
      400,
      [{path: 'external_id', message: expect.stringMatching(/^must not /)}],
    ])
  }
  const old = `${prefix}-old\u200b`
  await request(`${prefix}-old`)
  await db.rows('update app.payment_request set external_id = $1 where external_id = $2', [old, `${prefix}-old`])
  expect(refusal(await request(old))).toEqual([409, 'external_id_conflict']) // from before that was checked
  expect((await client.post(`/v1/payment-requests/${encodeURIComponent(other)}/cancel`)).body.data).toMatchObject({
    external_id: first,
    status: 'cancelled',
  })
})

test('an external_id belongs to one request: reuse is 409 external_id_conflict, and GET recovers a lost response', async () => {
  const [merchant, other] = [await newMerchant(), await newMerchant()]
  const made = await ask(merchant)
  for (const [currency, amount] of [
    ['ETH-USDC', '25'],
    ['ETH-USDC', '26'],
    ['POL', '25'],
  ]) {
    const body = {external_id: made.external_id, amount}
    expect(refusal(await merchant.client.post(`/v1/${currency}/payment-request`, body))).toEqual([
      409,
      'external_id_conflict',
    ])
  }
  const {status, body} = await merchant.client.get(`/v1/payment-requests/${made.external_id}`)
  expect(status).toBe(200)
  expect(Object.keys(body)).toEqual(['code', 'message', 'data'])
  expect(body).toEqual({
    code: 200,
    message: expect.any(String),
    data: {
      ...made,
      status: 'awaiting',
      explanation: 'nothing came yet',
      amount_received: '0',
      amount_pending: '0',
      shortfall: '25',
      amount_missing: '25',
      late: false,
      txid: null,
      paid_at: null,
      created_at: expect.stringMatching(timestamp),
      cancelled_at: null,
      receipts: [],
    },
  })
  for (const [client, id] of [
    [other.client, made.external_id],
    [merchant.client, `${merchant.prefix}-none`],
    [merchant.client, '%00'],
    [merchant.client, 'payment-request'],
    [merchant.client, 'x'.repeat(8000)],
  ] as const)
    for (const path of [`/v1/payment-requests/${id}`, `/v1/payment-requests/${id}/qr.svg`])
      expect(refusal(await client.get(path)), path).toEqual([404, 'payment_request_not_found'])
})

test('of twenty simultaneous calls with one external_id, one gets a request and one address is taken', async () => {
  const merchant = await newMerchant()
  await openConnections(merchant)
  const [before, body] = [await takenAddresses(), {external_id: reference(merchant), amount: '25'}]
  const replies = await Promise.all(
    Array.from({length: 20}, () => merchant.client.post('/v1/ETH/payment-request', body)),
  )
  expect(replies.map(({status}) => status).sort()).toEqual([200, ...Array(19).fill(409)])
  for (const reply of replies) if (reply.status !== 200) expect(reply.body.error).toBe('external_id_conflict')
  expect([await takenAddresses(), await requestCount(merchant)]).toEqual([before + 1, 1])
})

test('an empty address pool is 503 unavailable, and stores nothing', async () => {
  const merchant = await newMerchant()
  const body = {external_id: reference(merchant), amount: '1'}
  const ask = () => merchant.client.call('POST', '/v1/BTC/payment-request', body, {'idempotency-key': 'once-more'})
  const reply = await ask()
  expect([...refusal(reply), reply.headers.get('retry-after')]).toEqual([503, 'unavailable', '1'])
  expect(await requestCount(merchant)).toBe(0)
  await db.rows(`insert into custody.address (address, family, derivation_index) values ('bcrt1qlater', 'bitcoin', 1)`)
  expect((await ask()).body.data).toMatchObject({address: 'bcrt1qlater', ...body})
})

// --- Idempotency-Key ---

const withKey = ({client}: Merchant, key: string, body: unknown, currency = 'ETH-USDC') =>
  client.call('POST', `/v1/${currency}/payment-request`, body, {'idempotency-key': key})

test('expires_in sets when one request expires, from five minutes to a week', async () => {
  const merchant = await newMerchant()
  const post = (expires_in: unknown) =>
    merchant.client.post('/v1/ETH/payment-request', {external_id: reference(merchant), amount: '1', expires_in})
  for (const seconds of [300, 3600, 604_800]) {
    const {status, body} = await post(seconds)
    const left = Date.parse(body.data.expires_at) - Date.now()
    expect([status, left <= 1000 * seconds, left > 1000 * seconds - 60_000]).toEqual([200, true, true])
  }
  for (const wrong of [299, 604_801, 300.5, -300, '300', null, [300]]) {
    const reply = await post(wrong)
    expect(refusal(reply), String(wrong)).toEqual([400, 'invalid_request'])
    expect(reply.body.details).toMatchObject([{path: 'expires_in'}])
  }
})

test('the same Idempotency-Key with the same body returns the first response, quoted or bare, however late', async () => {
  const [merchant, other] = [await newMerchant(), await newMerchant()]
  const body = {external_id: reference(merchant), amount: '25.0'}
  const first = await withKey(merchant, '"key-1"', body)
  expect(first.status).toBe(200)
  await pay(first.body.data, 25_000_000n)
  await db.rows(`select app.set_merchant_chain($1, 'ETH', false)`, [merchant.id])
  for (const [key, again] of [
    ['key-1', body],
    ['"key-1"', {amount: '25.0', note: 'unknown fields do not count', external_id: body.external_id}],
  ] as const) {
    const reply = await withKey(merchant, key, again)
    expect([reply.status, reply.body]).toEqual([200, first.body])
  }
  for (const [currency, changed] of [
    ['ETH-USDC', {...body, amount: '26'}],
    ['ETH-USDC', {...body, external_id: reference(merchant)}],
    ['ETH', body],
    ['ETH-USDC', {...body, expires_in: 3600}],
  ] as const)
    expect(refusal(await withKey(merchant, 'key-1', changed, currency))).toEqual([422, 'idempotency_key_reused'])
  expect(refusal(await withKey(merchant, 'key-2', body, 'POL'))).toEqual([409, 'external_id_conflict'])
  expect(await requestCount(merchant)).toBe(1)
  // Each merchant has its own keys, and those of payouts are separate from those of requests.
  expect((await withKey(other, 'key-1', {external_id: reference(other), amount: '1'})).status).toBe(200)
  const refused = await merchant.client.call(
    'POST',
    '/v1/payouts',
    {chain: 'ETH', token: 'USDC'},
    {'idempotency-key': 'key-1'},
  )
  expect(refusal(refused)).toEqual([422, 'payout_failed'])
})

test('a refused request does not use up its key, and a malformed key is 400', async () => {
  const merchant = await newMerchant()
  const external_id = reference(merchant)
  expect(refusal(await withKey(merchant, 'k', {external_id, amount: '1.0000001'}))).toEqual([400, 'invalid_request'])
  expect(refusal(await withKey(merchant, 'k', {external_id, amount: '1'}, 'DOGE'))).toEqual([404, 'currency_not_found'])
  expect((await withKey(merchant, 'k', {external_id, amount: '1'})).status).toBe(200)
  for (const key of ['""', 'a b', '"', 'x'.repeat(256)])
    expect(refusal(await withKey(merchant, key, {external_id: reference(merchant), amount: '1'})), key).toEqual([
      400,
      'invalid_request',
    ])
})

test('twenty simultaneous calls with one Idempotency-Key and one body get the same response, and one address is taken', async () => {
  const merchant = await newMerchant()
  await openConnections(merchant)
  const [before, body] = [await takenAddresses(), {external_id: reference(merchant), amount: '25'}]
  const replies = await Promise.all(Array.from({length: 20}, () => withKey(merchant, 'twenty', body)))
  expect(replies.map(({status}) => status)).toEqual(Array(20).fill(200))
  for (const reply of replies) expect(reply.body).toEqual(replies[0]!.body)
  expect([await takenAddresses(), await requestCount(merchant)]).toEqual([before + 1, 1])
})

// --- its states ---

test('GET shows what arrived: detected, paid with the transaction, overpaid, and late', async () => {
  const merchant = await newMerchant()
  const made = await ask(merchant)
  const state = () => stateOf(merchant, made.external_id)
  const first = await pay(made, 10_000_000n, {final: false})
  const receipt = {
    txid: first,
    output_index: 0,
    sender: expect.stringMatching(/^0x/),
    amount: '10',
    status: 'pending',
    confirmations: 1,
    late: false,
    settlement_id: null,
    created_at: expect.stringMatching(timestamp),
  }
  expect(await state()).toEqual({
    ...(await state()),
    ...made,
    payment_uri: made.payment_uri.replace('25000000', '15000000'), // what is still missing
    status: 'detected',
    amount_received: '0',
    amount_pending: '10',
    shortfall: '25',
    amount_missing: '15',
    txid: null,
    paid_at: null,
    receipts: [receipt],
  })
  expect(await paymentsOf(merchant)).toEqual([])
  const second = await pay(made, 20_000_000n)
  expect(await state()).toMatchObject({
    status: 'paid',
    amount: '25',
    amount_received: '30',
    amount_pending: '0',
    late: false,
    txid: second,
    paid_at: expect.stringMatching(timestamp),
    receipts: [
      {...receipt, status: 'final', confirmations: 2},
      {txid: second, amount: '20', status: 'final'},
    ],
  })
  await expire(made)
  await pay(made, 1n)
  expect(await state()).toMatchObject({amount_received: '30.000001', late: true, txid: second})
})

test('GET /payments shows paid requests and expired underpaid ones, and nothing else', async () => {
  const merchant = await newMerchant()
  const [, seen, expired, part, paid] = [
    await ask(merchant),
    await ask(merchant),
    await ask(merchant),
    await ask(merchant),
    await ask(merchant),
  ]
  await pay(part, 24_999_999n)
  expect(await paymentsOf(merchant)).toEqual([])
  await expire(part)
  await expire(expired)
  const txid = await pay(paid, 26_000_000n)
  await pay(seen, 25_000_000n, {final: false})
  const {status, body} = await merchant.client.get('/payments')
  expect(status).toBe(200)
  expect(Object.keys(body)).toEqual(['code', 'data', 'next_cursor', 'has_more'])
  expect(body).toMatchObject({code: 200, next_cursor: null, has_more: false})
  expect(Object.entries(body.data[0])).toEqual([
    ['external_id', paid.external_id],
    ['currency', 'ETH-USDC'],
    ['amount', '25'],
    ['amount_received', '26'],
    ['shortfall', '0'],
    ['status', 'paid'],
    ['late', false],
    ['txid', txid],
    ['paid_at', expect.stringMatching(timestamp)],
    ['settlement_id', null],
    ['settlement', null],
    ['metadata', {}],
  ])
  expect(body.data.slice(1)).toMatchObject([
    {external_id: part.external_id, status: 'underpaid', amount: '25', amount_received: '24.999999', paid_at: null},
  ])
  expect(await paymentsOf(await newMerchant())).toEqual([])
})

test('receipts count in the balance and are paid out with it; they are no deposits, and cause no events', async () => {
  const merchant = await newMerchant()
  const {client} = merchant
  const treasury = await makeTreasury(db)
  await topUp(eth, treasury, 'ETH', 10n ** 20n)
  await topUp(eth, treasury, 'USDC', 10n ** 12n)
  await client.put('/v1/payout-address', {chain: 'ETH', address: destination})
  const user = await makeUser(db, merchant.id)
  const made = await ask(merchant)
  await pay(user, 5_000_000n)
  await pay(made, 20_000_000n)
  const receipts = await db.rows<{id: string}>('select id from app.deposit where address = $1', [made.address])
  expect(receipts).toHaveLength(1)
  await db.rows('select app.sequence_events()')

  expect((await client.get('/v1/balances')).body.balances).toMatchObject([{gross: '25', depositCount: 2}])
  for (const query of ['', '?limit=1', '?status=final', '?chain=ETH&limit=1', '?chain=ETH&status=final'])
    expect((await client.get(`/v1/deposits${query}`)).body.deposits, query).toMatchObject([{address: user.address}])
  const depositId = `dep_${receipts[0]!.id.replaceAll('-', '')}`
  expect(refusal(await client.get(`/v1/deposits/${depositId}`))).toEqual([404, 'deposit_not_found'])
  expect((await client.get('/v1/events')).body.events).toMatchObject([{amount: '5'}, {amount: '5'}])

  const {body: payout} = await client.post('/v1/payouts', {chain: 'ETH', token: 'USDC'})
  expect(payout).toMatchObject({gross: '25'})
  expect((await client.get('/v1/balances')).body.balances).toEqual([])
  expect((await stateOf(merchant, made.external_id)).receipts).toMatchObject([{settlement_id: payout.id}])
  await pay(made, 5_000_000n)
  const payment = async () => (await paymentsOf(merchant))[0]
  expect(await payment()).toMatchObject({amount_received: '25', settlement_id: null, settlement: null})
  await includeFinally(db, eth, await beginToPay(db, payout.id.slice(4)))
  expect(await payment()).toMatchObject({settlement_id: null, settlement: null})

  const {body: rest} = await client.post('/v1/payouts', {chain: 'ETH', token: 'USDC'})
  expect(await payment()).toMatchObject({settlement_id: rest.id, settlement: null})
  const txid = await beginToPay(db, rest.id.slice(4))
  await includeFinally(db, eth, txid)
  const settlement = {id: rest.id, status: 'completed', payout_txid: txid}
  expect(await payment()).toMatchObject({settlement_id: rest.id, settlement})
})

test('a payment has no settlement_id while one of its receipts is in no payout', async () => {
  const merchant = await newMerchant(['ETH'])
  const {client} = merchant
  await client.put('/v1/payout-address', {chain: 'ETH', address: destination})
  const made = await ask(merchant)
  const payoutOf = async (amount: bigint) => {
    await pay(made, amount)
    return (await client.post('/v1/payouts', {chain: 'ETH', token: 'USDC'})).body.id
  }
  const [first, second] = [await payoutOf(10_000_000n), await payoutOf(20_000_000n)]
  expect(await paymentsOf(merchant)).toMatchObject([{settlement_id: second}])
  await client.post(`/v1/payouts/${first}/cancel`)
  await db.rows(`select app.allocate_deposits($1, 'ETH', 'USDC', 10)`, [merchant.id])
  expect(await paymentsOf(merchant)).toMatchObject([{settlement_id: null}])
})

// --- pages and filters of GET /payments ---

test('GET /payments filters by external_id, currency and status, alone or together', async () => {
  const merchant = await newMerchant(['ETH'])
  for (let n = 0; n < 3; n++) {
    await pay(await ask(merchant), 25_000_000n)
    await pay(await ask(merchant, '25', 'ETH'), 25n * 10n ** 18n, {token: 'ETH'})
    for (const [currency, token] of [
      ['ETH-USDC', 'USDC'],
      ['ETH', 'ETH'],
    ] as const) {
      const made = await ask(merchant, '25', currency)
      await pay(made, 7n, {token})
      await expire(made)
    }
  }
  const everything = await paymentsOf(merchant)
  expect(everything).toHaveLength(12)
  for (const external_id of [undefined, everything[4].external_id, `${merchant.prefix}-none`])
    for (const currency of [undefined, 'ETH', 'ETH-USDC', 'BTC'])
      for (const status of [undefined, 'paid', 'underpaid']) {
        const filters = Object.entries({external_id, currency, status}).filter(([, value]) => value !== undefined)
        const path = `/payments?${new URLSearchParams(filters as [string, string][])}`
        const expected = everything.filter((item: Record<string, unknown>) =>
          filters.every(([key, value]) => item[key] === value),
        )
        expect(await merchant.client.all(path, 'data', 2), path).toEqual(expected)
      }
})

test('GET /payments has pages of 1 to 200, by default 200, newest first; an item that changes moves to the front, and nothing else moves', async () => {
  const merchant = await newMerchant(['ETH'])
  const made = []
  for (let n = 0; n < 5; n++) {
    made.unshift(await ask(merchant))
    await pay(made[0], 25_000_000n)
  }
  const [newest, , , , oldest] = made
  const ids = (items: {external_id: string}[]) => items.map(({external_id}) => external_id)
  expect(ids(await merchant.client.all('/payments', 'data', 2))).toEqual(ids(made))
  // More money for the oldest, which was on a page to come, and for the newest, which was on a page before.
  let page = 0
  const between = async () => {
    if (++page === 1) await pay(oldest, 1n)
    if (page === 1) await pay(newest, 1n)
  }
  expect(ids(await merchant.client.all('/payments', 'data', 2, between))).toEqual(ids(made.slice(0, 4)))
  expect(ids(await paymentsOf(merchant))).toEqual(ids([newest, oldest, ...made.slice(1, 4)]))

  await db.rows(
    `insert into app.payment_request (merchant_id, external_id, chain, token, amount, page_token, expires_at, status, received, txid, paid_at, position)
     select $1, g::text, 'ETH', 'USDC', 1, 'page ' || g, now(), 'paid', 1, '0xX', now(), nextval('app.payment_position') from generate_series(1, 201) g`,
    [merchant.id],
  )
  for (const [query, length] of [
    ['', 200],
    ['?limit=200', 200],
    ['?limit=1', 1],
  ] as const) {
    const {body} = await merchant.client.get(`/payments${query}`)
    expect([body.data.length, body.has_more]).toEqual([length, true])
  }
  for (const limit of ['0', '201', '1.5', 'ten', '']) {
    const {status, body} = await merchant.client.get(`/payments?limit=${limit}`)
    expect([status, body.error, body.details[0].path]).toEqual([400, 'invalid_request', 'limit'])
  }
  await db.rows(`delete from app.payment_request where page_token like 'page %'`)
})

test('GET /payments refuses a cursor of another list, other filters or another merchant, and invalid filters', async () => {
  const [merchant, other] = [await newMerchant(['ETH']), await newMerchant(['ETH'])]
  for (let n = 0; n < 2; n++) await pay(await ask(merchant), 25_000_000n)
  const {next_cursor} = (await merchant.client.get('/payments?limit=1')).body
  const {next_cursor: ofPaid} = (await merchant.client.get('/payments?limit=1&status=paid')).body
  expect((await merchant.client.get(`/payments?cursor=${next_cursor}`)).body.data).toHaveLength(1)
  for (const [client, path] of [
    [merchant.client, `/payments?status=paid&cursor=${next_cursor}`],
    [merchant.client, `/payments?currency=ETH&cursor=${next_cursor}`],
    [merchant.client, `/payments?cursor=${ofPaid}`],
    [merchant.client, `/v1/deposits?cursor=${next_cursor}`],
    [other.client, `/payments?cursor=${next_cursor}`],
    [merchant.client, '/payments?cursor=x'],
    [merchant.client, '/payments?status=awaiting'],
    [merchant.client, '/payments?currency=DOGE'],
    [merchant.client, '/payments?external_id='],
    [merchant.client, '/payments?external_id=%00'],
  ] as const)
    expect(refusal(await client.get(path)), path).toEqual([400, 'invalid_request'])
})

// --- QR code ---

test('GET /v1/payment-requests/:external_id/qr.svg draws the payment URI of a coin, and of a token the address unless asked for the URI', async () => {
  const merchant = await newMerchant()
  const [token, coin] = [await ask(merchant), await ask(merchant, '1', 'ETH')]
  for (const [path, text] of [
    [`${token.external_id}/qr.svg`, token.address],
    [`${token.external_id}/qr.svg?content=payment_uri`, token.payment_uri],
    [`${coin.external_id}/qr.svg`, coin.payment_uri],
    [`${coin.external_id}/qr.svg?content=payment_uri`, coin.payment_uri],
  ]) {
    const response = await fetch(`${api.url}/v1/payment-requests/${path}`, {headers: {'x-api-key': merchant.secret}})
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'image/svg+xml'])
    expect((await readQrSvg(await response.text())).text, path).toBe(text)
  }
  expect(refusal(await merchant.client.get(`/v1/payment-requests/${coin.external_id}/qr.svg?content=x`))).toEqual([
    400,
    'invalid_request',
  ])
})

// --- keys and limits ---

test('both groups of routes accept either header, and without a key all of them are 401 invalid_api_key', async () => {
  const {prefix, secret} = await newMerchant()
  for (const header of ['authorization', 'x-api-key'] as const) {
    const [client, stranger] = [new Client(api, secret, header), new Client(api, `sk_${'A'.repeat(43)}`, header)]
    for (const [method, path, body] of [
      ['GET', '/v1/crypto'],
      ['POST', '/v1/ETH/payment-request', {external_id: `${prefix}-${header}`, amount: '1'}],
      ['GET', `/v1/payment-requests/${prefix}-${header}`],
      ['GET', '/payments'],
      ['GET', '/v1/balances'],
      ['GET', '/v1/payouts'],
    ] as const) {
      expect((await client.call(method, path, body)).status, `${header} ${path}`).toBe(200)
      for (const each of [stranger, new Client(api)])
        expect(refusal(await each.call(method, path, body)), path).toEqual([401, 'invalid_api_key'])
    }
  }
})

test('GET /payments counts for the rate limit, like every route that needs a key', async () => {
  const limited = await startApi(db, {rateLimitPerMinute: 2})
  try {
    const {client} = await newMerchant(['ETH'], limited)
    expect((await client.get('/payments')).headers.get('ratelimit')).toContain('r=1;')
    expect((await client.get('/v1/crypto')).headers.get('ratelimit')).toContain('r=0;')
    expect(refusal(await client.get('/payments'))).toEqual([429, 'rate_limited'])
  } finally {
    await limited.close()
  }
})

test('a time that no database has, and a list of what was paid in more than a month, are refused in words', async () => {
  const {client} = await newMerchant()
  const list = (query: string) => client.get(`/v1/payment-requests?${query}`)
  for (const time of ['0000-01-01T00:00:00Z', '9999-12-31T23:59:59-23:59', '2026-13-01T00:00:00Z', 'yesterday'])
    for (const filter of ['created_from', 'created_to', 'paid_from', 'paid_to'])
      expect(refusal(await list(`${filter}=${encodeURIComponent(time)}`)), `${filter}=${time}`).toEqual([
        400,
        'invalid_request',
      ])
  expect(refusal(await list(`created_from=${encodeURIComponent('2026-01-01T00:00:00+23:59')}`))).toEqual([
    200,
    undefined,
  ])
  for (const query of ['paid_to=2026-01-01T00:00:00Z', 'paid_from=2020-01-01T00:00:00Z'])
    expect(refusal(await list(query)), query).toEqual([400, 'invalid_request'])
  const month = 'paid_from=2026-01-01T00:00:00Z&paid_to=2026-02-01T00:00:00Z'
  for (const query of [month, `${month}&status=paid`, `${month}&status=awaiting`])
    expect((await list(query)).body.data).toEqual([])
})
