// The contract of payouts, line by line, and every refusal of it, over HTTP, on the real database. The worker's own
// functions take its steps (test/support/payouts.ts).
import {afterAll, beforeAll, expect, test} from 'vitest'
import {readSettings} from '../chains/settings.ts'
import {writeAssets} from '../db/migrate/assets.ts'
import {type Api, Client, fillPool, makeKey, type Reply, startApi} from '../test/support/api.ts'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {beginToPay, includeFinally, makeTreasury, topUp} from '../test/support/evm/payouts.ts'
import {makeMerchant, makeUser, type TestUser} from '../test/support/people.ts'

const destination = '0x52908400098527886E0F7030069857D2E4169EE7'
const elsewhere = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'
const usdc = {chain: 'ETH', token: 'USDC'}

let db: TestDatabase
let api: Api
let eth: ChainWriter
let treasury: string

beforeAll(async () => {
  db = await testDatabase()
  api = await startApi(db)
  await fillPool(db, 3)
  eth = await ChainWriter.open(db, 'ETH')
  await (await ChainWriter.open(db, 'POLYGON')).close()
  treasury = await makeTreasury(db)
  await topUp(eth, treasury, 'ETH', 10n ** 20n)
  await topUp(eth, treasury, 'USDC', 10n ** 12n)
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
  client: Client
  user: TestUser
}

async function newMerchant(chains = ['ETH', 'POLYGON']): Promise<Merchant> {
  const id = await makeMerchant(db, chains)
  return {id, client: new Client(api, (await makeKey(db, id)).secret), user: await makeUser(db, id)}
}

let txids = 0
async function deposit({user}: Merchant, amount: bigint, token = 'USDC'): Promise<void> {
  await eth.write({add: [[{txid: `0xtx${++txids}`, amount, token, recipient: user.address}]]})
  await eth.finalise(eth.head.height)
}

/** A merchant with a payout address and this much USDC. */
async function richMerchant(amount = 250_000_000n): Promise<Merchant> {
  const merchant = await newMerchant()
  await merchant.client.put('/v1/payout-address', {chain: 'ETH', address: destination})
  await deposit(merchant, amount)
  return merchant
}

const uuid = (publicId: string) => publicId.slice(4)
const refusal = ({status, body}: Reply) => [status, body.error]
const withKey = (client: Client, key: string, body: unknown = usdc) =>
  client.call('POST', '/v1/payouts', body, {'idempotency-key': key})
const payoutsOf = async (client: Client) => (await client.get('/v1/payouts')).body.payouts

/** Takes all steps of the worker for an accepted payout, up to its final block. */
async function finish(payout: string, success = true): Promise<string> {
  const txid = await beginToPay(db, uuid(payout))
  await includeFinally(db, eth, txid, success)
  return txid
}

test('POST /v1/payouts collects the whole balance and returns 202 with gross, fee and net', async () => {
  const merchant = await richMerchant()
  const {client} = merchant
  const {body: before} = await client.get('/v1/balances')
  const created = await client.post('/v1/payouts', usdc)
  expect(created.status).toBe(202)
  expect(Object.keys(created.body)).toEqual(['id', 'status', 'gross', 'fee', 'net', 'txid'])
  expect(created.body).toEqual({
    id: expect.stringMatching(/^pay_[0-9a-f]{32}$/),
    status: 'pending',
    gross: '250',
    fee: '2.5',
    net: '247.5',
    txid: null,
  })
  expect(before.balances).toMatchObject([{gross: '250', fee: '2.5', net: '247.5'}])
  expect((await client.get('/v1/balances')).body.balances).toEqual([])
  const {id} = created.body
  const {body: payout} = await client.get(`/v1/payouts/${id}`)
  const {gross, fee, net} = created.body
  const shown = {
    id,
    status: 'pending',
    ...usdc,
    gross,
    fee,
    net,
    txid: null,
    error: null,
    waiting: null,
    address: destination,
    completed_at: null,
  }
  expect(payout).toEqual(shown)
  expect(Object.keys(payout)).toEqual(Object.keys(shown))
  const created_at = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  expect(await payoutsOf(client)).toEqual([{...shown, created_at}])
})

test('a payout shows why it waits, in the list too, with the published reasons only', async () => {
  const {client} = await richMerchant()
  const {body: payout} = await client.post('/v1/payouts', usdc)
  const id = uuid(payout.id)
  const waits = async (reason: string | null) => {
    await db.rows(`select app.wait_payout($1, $2, 'ETH short by 0.5', 3600000)`, [id, reason])
    const {waiting} = (await client.get(`/v1/payouts/${payout.id}`)).body
    expect((await payoutsOf(client))[0].waiting).toEqual(waiting)
    return waiting
  }
  const codes = {
    not_whitelisted: 'address_not_whitelisted',
    daily_limit: 'limit_reached',
    fee_budget_reached: 'fee_budget_reached',
    insufficient_treasury_funds: 'insufficient_treasury_funds',
    treasury_immature: 'treasury_immature',
    chain_halted: 'chain_halted',
    journal_changed: 'chain_halted',
    fee_above_cap: 'fee_too_high',
    custody_unreachable: 'custody_unavailable',
    nonce_too_high: 'unresolved_transaction',
    head_stale: 'chain_lagging',
    node_unreachable: 'chain_unreachable',
    would_revert: 'transaction_would_fail',
    exceeds_received: 'custody_rejected',
    disk_full: 'service_error',
    copy_unproven: 'chain_halted',
    payment_contested: 'payment_contested',
  }
  for (const [reason, code] of Object.entries(codes))
    expect(await waits(reason)).toEqual({
      code,
      message: expect.not.stringContaining('17'),
      since: expect.stringMatching(/^\d{4}-.*Z$/),
    })
  for (const reason of [null, 'sweeps', 'allocation']) expect(await waits(reason)).toBe(null)
  await beginToPay(db, id)
  await db.rows(
    `select app.wait_outgoing_payment(s.id, 'fee_above_cap', null, 1) from app.outgoing_payment s where s.payout_id = $1`,
    [id],
  )
  expect((await client.get(`/v1/payouts/${payout.id}`)).body).toMatchObject({
    status: 'paying',
    waiting: {code: 'fee_too_high'},
  })
  await db.rows(
    `select chain.note_unproven(o.chain, o.txid, 'the nodes contradict each other') from app.outgoing_payment s
     join app.outgoing_attempt o on o.outgoing_payment_id = s.id where s.payout_id = $1`,
    [id],
  )
  expect((await client.get(`/v1/payouts/${payout.id}`)).body).toMatchObject({waiting: {code: 'unproven_expiry'}})
})

test('a paid payout is completed with its txid, its deposits show the settlement, and the merchant is notified', async () => {
  const merchant = await richMerchant()
  const {client} = merchant
  const {body: endpoint} = await client.post('/v1/webhook-endpoints', {url: 'http://127.0.0.1:9/'})
  const {body: payout} = await client.post('/v1/payouts', usdc)
  const [deposit] = (await client.get('/v1/deposits')).body.deposits
  expect(deposit.settlement_id).toBe(payout.id)
  expect((await client.get(`/v1/deposits/${deposit.id}`)).body).toMatchObject({
    settlement_id: payout.id,
    settlement: null,
  })

  const txid = await beginToPay(db, uuid(payout.id))
  expect((await client.get(`/v1/payouts/${payout.id}`)).body).toMatchObject({status: 'paying', txid: null})
  await includeFinally(db, eth, txid)
  const completed_at = expect.stringMatching(/^\d{4}-.*Z$/)
  expect((await client.get(`/v1/payouts/${payout.id}`)).body).toMatchObject({
    status: 'completed',
    txid,
    error: null,
    completed_at,
  })
  expect((await payoutsOf(client))[0]).toMatchObject({completed_at})
  expect((await client.get(`/v1/deposits/${deposit.id}`)).body).toMatchObject({
    settlement_id: payout.id,
    settlement: {id: payout.id, status: 'completed', payout_txid: txid},
  })

  await db.rows('select app.sequence_events()')
  const {body} = await client.get('/v1/events?type=payout.completed')
  const {gross, fee, net} = payout
  expect(body.events).toEqual([
    {
      type: 'payout.completed',
      id: expect.stringMatching(/^evt_/),
      payout_id: payout.id,
      ...usdc,
      gross,
      fee,
      net,
      address: destination,
      txid,
      error: null,
      created_at: expect.any(String),
      sequence: expect.any(Number),
    },
  ])
  const {deliveries} = (await client.get(`/v1/webhook-endpoints/${endpoint.id}/deliveries`)).body
  expect(deliveries).toMatchObject([{event_id: body.events[0].id, event_type: 'payout.completed'}])
})

test('a failed payout says why, and its deposits are in the balance again', async () => {
  const {client} = await richMerchant()
  const {body: payout} = await client.post('/v1/payouts', usdc)
  await finish(payout.id, false)
  const error = {code: 'transaction_reverted', message: expect.stringMatching(/reverted/)}
  expect((await client.get(`/v1/payouts/${payout.id}`)).body).toMatchObject({status: 'failed', txid: null, error})
  expect((await client.get('/v1/balances')).body.balances).toMatchObject([{gross: '250', depositCount: 1}])
  await db.rows('select app.sequence_events()')
  const {events} = (await client.get('/v1/events?type=payout.failed')).body
  expect(events).toMatchObject([{payout_id: payout.id, txid: null, error}])
  expect((await client.get('/v1/events?type=payout.completed')).body.events).toEqual([])
  expect((await client.post('/v1/payouts', usdc)).body).toMatchObject({gross: '250'})
})

test('of many requests at once, one is accepted and the others are 422 payout_failed', async () => {
  const {client} = await richMerchant()
  await Promise.all(Array.from({length: 20}, (_, n) => client.get(`/v1/users?limit=${n + 1}`))) // opens connections
  const replies = await Promise.all(Array.from({length: 20}, () => client.post('/v1/payouts', usdc)))
  expect(replies.map(reply => reply.status).sort()).toEqual([202, ...Array(19).fill(422)])
  for (const reply of replies) if (reply.status === 422) expect(reply.body.error).toBe('payout_failed')
  expect(await payoutsOf(client)).toHaveLength(1)
})

test('payouts are listed newest first, page by page, to their own merchant only', async () => {
  const merchant = await richMerchant()
  const {client} = merchant
  const ids: string[] = []
  for (let n = 0; n < 5; n++) {
    if (n > 0) await deposit(merchant, 1_000_000n)
    ids.unshift((await client.post('/v1/payouts', usdc)).body.id)
  }
  const listed = await client.all('/v1/payouts', 'payouts', 2)
  expect(listed.map(({id}) => id)).toEqual(ids)
  const stranger = await newMerchant()
  expect(await payoutsOf(stranger.client)).toEqual([])
  for (const path of [`/v1/payouts/${ids[0]}`, `/v1/payouts/pay_${'0'.repeat(32)}`, '/v1/payouts/x']) {
    expect(refusal(await stranger.client.get(path)), path).toEqual([404, 'payout_not_found'])
    expect(refusal(await stranger.client.post(`${path}/cancel`)), path).toEqual([404, 'payout_not_found'])
  }
  expect((await client.get(`/v1/payouts/${ids[0]}`)).body.status).toBe('pending')
})

test('POST /v1/payouts/:id/cancel fails a payout at once until its payment has begun, and no more of them in a day than is allowed', async () => {
  const merchant = await richMerchant()
  const {client} = merchant
  const {body: payout} = await client.post('/v1/payouts', usdc)
  const cancelled = await client.post(`/v1/payouts/${payout.id}/cancel`)
  expect(cancelled.status).toBe(200)
  expect(cancelled.body).toMatchObject({id: payout.id, status: 'failed', error: {code: 'cancelled'}})
  expect((await client.get('/v1/balances')).body.balances).toMatchObject([{gross: '250'}])
  expect(refusal(await client.post(`/v1/payouts/${payout.id}/cancel`))).toEqual([422, 'unprocessable'])

  await db.rows('select app.set_cancels_per_day($1, 1)', [merchant.id])
  const begin = async () => {
    const {body} = await client.post('/v1/payouts', usdc)
    await db.rows('select app.begin_sweeping($1)', [uuid(body.id)])
    return body
  }
  expect((await client.post(`/v1/payouts/${(await begin()).id}/cancel`)).body).toMatchObject({status: 'failed'})
  const second = await begin()
  const refused = await client.post(`/v1/payouts/${second.id}/cancel`)
  expect([...refusal(refused), Number(refused.headers.get('retry-after')) > 86_000]).toEqual([
    429,
    'rate_limited',
    true,
  ])
  expect(refused.body.message).toMatch('no more than 1 payouts')

  await db.rows('select app.set_cancels_per_day($1, 2)', [merchant.id])
  await beginToPay(db, uuid(second.id))
  const tooLate = await client.post(`/v1/payouts/${second.id}/cancel`)
  expect(refusal(tooLate)).toEqual([422, 'unprocessable'])
  expect(tooLate.body.message).toMatch(/can no longer be cancelled/)
  await finish(second.id)
  expect(refusal(await client.post(`/v1/payouts/${second.id}/cancel`))).toEqual([422, 'unprocessable'])
})

test('a payout worth less than its network fee is 422, unless the operator set a smaller minimum', async () => {
  const merchant = await newMerchant()
  const {client} = merchant
  await client.put('/v1/payout-address', {chain: 'ETH', address: destination})
  await deposit(merchant, 999_999n)
  await deposit(merchant, 199n, 'ETH')
  const eth = {chain: 'ETH', token: 'ETH'}
  const post = async (body: unknown) => {
    const reply = await client.post('/v1/payouts', body)
    return [...refusal(reply), reply.body.message]
  }
  const set = (more: Record<string, string>) =>
    writeAssets(db.ownerUrl, readSettings({ETH_SWEEP_MIN: 'ETH:0,USDC:0', ...more}).chains.values())
  try {
    await set({})
    expect(await post(eth)).toEqual([422, 'payout_failed', 'the balance is below the smallest payout (0.001 ETH)'])
    expect(await post(usdc)).toEqual([422, 'payout_failed', 'the balance is below the smallest payout (1 USDC)'])
    await set({ETH_MIN_PAYOUT: 'ETH:0.000000000000000198'})
    expect(await post(usdc)).toEqual([422, 'payout_failed', 'the balance is below the smallest payout (1 USDC)'])
    expect((await client.post('/v1/payouts', eth)).body.net).toBe('0.000000000000000198')
    expect(await payoutsOf(client)).toHaveLength(1)
  } finally {
    await set({ETH_MIN_PAYOUT: 'ETH:0,USDC:0', POLYGON_MIN_PAYOUT: 'POL:0'})
  }
})

test('a payout that is impossible is 422 with the code and the reason, and changes nothing', async () => {
  const merchant = await newMerchant(['ETH'])
  const {client} = merchant
  const post = async (body: unknown) => {
    const reply = await client.post('/v1/payouts', body)
    const [detail] = reply.body.details ?? []
    return [...refusal(reply), ...(detail ? [detail.code] : []), reply.body.message]
  }
  expect(await post({chain: 'ETH', token: 'DOGE'})).toEqual([422, 'unsupported_token', 'there is no DOGE on ETH'])
  expect(await post({chain: 'ETH', token: 'usdc'})).toEqual([422, 'unsupported_token', expect.any(String)])
  expect(await post({chain: 'POLYGON', token: 'EURC'})).toEqual([422, 'unsupported_token', expect.any(String)])
  expect(await post({chain: 'POLYGON', token: 'POL'})).toEqual([422, 'chain_not_enabled', expect.any(String)])
  expect(await post({chain: 'BTC', token: 'BTC'})).toEqual([422, 'chain_not_enabled', expect.any(String)])
  await deposit(merchant, 5n)
  expect(await post(usdc)).toEqual([
    422,
    'payout_failed',
    'no_payout_address',
    'no payout address is registered for ETH',
  ])
  await client.put('/v1/payout-address', {chain: 'ETH', address: destination})
  expect(await post({chain: 'ETH', token: 'ETH'})).toEqual([
    422,
    'payout_failed',
    'nothing_to_pay_out',
    'there is nothing to pay out',
  ])
  await db.rows(`update app.asset set min_payout = 1000000 where chain = 'ETH' and token = 'USDC'`)
  expect(await post(usdc)).toEqual([
    422,
    'payout_failed',
    'below_smallest_payout',
    'the balance is below the smallest payout (1 USDC)',
  ])
  await db.rows(`update app.asset set min_payout = 1 where chain = 'ETH' and token = 'USDC'`)
  await db.rows(
    `insert into app.incident (chain, kind, subject, details) values ('ETH', 'unknown_transaction', 'ETH:x', '{}')`,
  )
  expect(await post(usdc)).toEqual([
    422,
    'payout_failed',
    'chain_stopped',
    expect.stringMatching(/^payouts of ETH are stopped: incident \d+/),
  ])
  await db.rows(`update app.incident set resolved_at = now(), resolution = 'kept'`)
  // A balance that is there already can be paid out, though its chain was disabled.
  await db.rows(`select app.set_merchant_chain($1, 'ETH', false)`, [merchant.id])
  expect(await post({chain: 'ETH', token: 'ETH'})).toEqual([422, 'chain_not_enabled', expect.any(String)])
  expect(await payoutsOf(client)).toEqual([])
  expect((await client.post('/v1/payouts', usdc)).status).toBe(202)
})

test('the payout address of a disabled chain can be set while a balance, or a payout, is left there', async () => {
  const merchant = await newMerchant(['ETH', 'POLYGON'])
  const {client} = merchant
  const set = () => client.put('/v1/payout-address', {chain: 'ETH', address: destination})
  await db.rows(`select app.set_merchant_chain($1, 'ETH', false)`, [merchant.id])
  expect(refusal(await set())).toEqual([422, 'chain_not_enabled'])
  await deposit(merchant, 250_000_000n)
  expect((await set()).status).toBe(200)
  const {body: payout} = await client.post('/v1/payouts', usdc)
  expect((await client.get('/v1/balances')).body.balances).toEqual([])
  expect((await set()).status).toBe(200)
  await finish(payout.id)
  expect(refusal(await set())).toEqual([422, 'chain_not_enabled'])
})

test('GET /v1/payouts lists the payouts of a status, chain and token, alone and together, page by page', async () => {
  const merchant = await richMerchant()
  const {client} = merchant
  const made: {id: string; status: string; chain: string; token: string}[] = []
  for (const token of ['USDC', 'ETH', 'USDC', 'ETH', 'USDC']) {
    await deposit(merchant, 10n ** 18n, token)
    const {body} = await client.post('/v1/payouts', {chain: 'ETH', token})
    if (made.length < 2) await client.post(`/v1/payouts/${body.id}/cancel`)
    made.unshift({id: body.id, status: made.length < 2 ? 'failed' : 'pending', chain: 'ETH', token})
  }
  const filters: Record<string, string>[] = [
    {},
    {status: 'failed'},
    {token: 'ETH'},
    {chain: 'ETH'},
    {chain: 'ETH', token: 'USDC'},
    {chain: 'POLYGON'},
    {status: 'pending', token: 'USDC'},
    {status: 'failed', chain: 'ETH', token: 'ETH'},
    {status: 'completed'},
    {token: 'DOGE'},
  ]
  for (const filter of filters) {
    const wanted = made.filter(payout =>
      Object.entries(filter).every(([name, value]) => payout[name as 'id'] === value),
    )
    const listed = await client.all(`/v1/payouts?${new URLSearchParams(filter)}`, 'payouts', 1)
    expect(
      listed.map(({id}: {id: string}) => id),
      JSON.stringify(filter),
    ).toEqual(wanted.map(({id}) => id))
  }
  const {next_cursor} = (await client.get('/v1/payouts?token=ETH&limit=1')).body
  expect(refusal(await client.get(`/v1/payouts?token=USDC&cursor=${next_cursor}`))).toEqual([400, 'invalid_request'])
  for (const query of ['status=paid', 'chain=DOGE', 'token='])
    expect(refusal(await client.get(`/v1/payouts?${query}`)), query).toEqual([400, 'invalid_request'])
})

test('GET /v1/payout-addresses shows where payouts go, and whether the operator approved it', async () => {
  const {id, client} = await newMerchant()
  expect((await client.get('/v1/payout-addresses')).body).toEqual({payout_addresses: []})
  for (const chain of ['POLYGON', 'ETH']) await client.put('/v1/payout-address', {chain, address: destination})
  const listed = async () => (await client.get('/v1/payout-addresses')).body.payout_addresses
  const time = expect.stringMatching(/^\d{4}-.*Z$/)
  const of = (chain: string) => ({
    chain,
    address: destination,
    whitelisted: false,
    whitelisted_at: null,
    updated_at: time,
  })
  expect(await listed()).toEqual([of('ETH'), of('POLYGON')])
  expect(Object.keys((await listed())[0])).toEqual(Object.keys(of('ETH')))

  const enter = (activeAt: string) =>
    db.rows(
      `insert into custody.whitelist (merchant_id, chain, address, active_at) values ($1, 'ETH', $2, ${activeAt})`,
      [id, destination],
    )
  const remove = () =>
    db.rows('update custody.whitelist set removed_at = clock_timestamp() where merchant_id = $1', [id])
  await enter(`clock_timestamp() + interval '1 hour'`)
  expect(await listed()).toEqual([{...of('ETH'), whitelisted_at: time}, of('POLYGON')])
  await remove()
  await enter('clock_timestamp()')
  expect(await listed()).toEqual([{...of('ETH'), whitelisted: true, whitelisted_at: time}, of('POLYGON')])
  await remove()
  expect(await listed()).toEqual([of('ETH'), of('POLYGON')])
  const other = await newMerchant()
  expect((await other.client.get('/v1/payout-addresses')).body).toEqual({payout_addresses: []})
})

test('a negative balance is 422 payout_failed', async () => {
  const {id, client} = await newMerchant()
  await client.put('/v1/payout-address', {chain: 'ETH', address: destination})
  await db.rows(
    `insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values ($1, 'ETH', 'USDC', -5, 0)`,
    [id],
  )
  const reply = await client.post('/v1/payouts', usdc)
  expect([...refusal(reply), reply.body.message]).toEqual([422, 'payout_failed', 'the balance is below zero'])
  await db.rows('delete from app.balance_delta where merchant_id = $1', [id])
})

test('no payout goes to an address of the service: a user’s, a free one of the pool, or the treasury', async () => {
  const merchant = await newMerchant()
  const {client, user} = merchant
  const [free] = await db.rows<{address: string}>(
    `select address from custody.address where taken_at is null and purpose = 'deposit' limit 1`,
  )
  for (const address of [user.address, free!.address, treasury, treasury.toLowerCase()]) {
    const reply = await client.put('/v1/payout-address', {chain: 'ETH', address})
    expect(refusal(reply), address).toEqual([422, 'unprocessable'])
  }
  // One that became an address of the service only after it was registered.
  await client.put('/v1/payout-address', {chain: 'ETH', address: elsewhere})
  await db.rows(`insert into custody.address (address, family, derivation_index) values ($1, 'evm', 999)`, [elsewhere])
  await deposit(merchant, 5_000_000n)
  const reply = await client.post('/v1/payouts', usdc)
  expect(refusal(reply)).toEqual([422, 'payout_failed'])
  expect(reply.body.message).toMatch(/belongs to this service/)
})

test('changing the payout address does not change a payout under way', async () => {
  const {client} = await richMerchant()
  const {body: payout} = await client.post('/v1/payouts', usdc)
  await client.put('/v1/payout-address', {chain: 'ETH', address: '0xde709f2102306220921060314715629080e2fb77'})
  expect((await client.get(`/v1/payouts/${payout.id}`)).body.address).toBe(destination)
})

// --- Idempotency-Key ---

test('the same Idempotency-Key returns the first response again, quoted or bare, and makes one payout', async () => {
  const merchant = await richMerchant()
  const {client} = merchant
  const first = await withKey(client, '"key-1"')
  expect(first.status).toBe(202)
  await finish(first.body.id)
  await deposit(merchant, 1_000_000n)
  for (const [key, body] of [
    ['"key-1"', usdc],
    ['key-1', usdc],
    ['key-1', {token: 'USDC', chain: 'ETH', sweep_first: false, note: 'unknown fields do not count'}],
  ] as const) {
    const again = await withKey(client, key, body)
    expect([again.status, again.body]).toEqual([202, first.body])
  }
  expect(await payoutsOf(client)).toHaveLength(1)
  for (const body of [
    {...usdc, sweep_first: true},
    {chain: 'ETH', token: 'ETH'},
    {chain: 'POLYGON', token: 'POL'},
  ])
    expect(refusal(await withKey(client, 'key-1', body))).toEqual([422, 'idempotency_key_reused'])
  expect((await withKey(client, 'key-2')).body.id).not.toBe(first.body.id)
  // A key is its merchant's own.
  expect((await withKey((await richMerchant()).client, 'key-1')).body.id).not.toBe(first.body.id)
})

test('simultaneous duplicates with one key get the same response', async () => {
  const {client} = await richMerchant()
  const replies = await Promise.all(Array.from({length: 20}, () => withKey(client, 'duplicate')))
  for (const reply of replies) expect([reply.status, reply.body]).toEqual([202, replies[0]!.body])
  expect(await payoutsOf(client)).toHaveLength(1)
})

test('a refused request does not use up its key', async () => {
  const merchant = await newMerchant()
  const {client} = merchant
  await client.put('/v1/payout-address', {chain: 'ETH', address: destination})
  expect(refusal(await withKey(client, 'again'))).toEqual([422, 'payout_failed'])
  await deposit(merchant, 5_000_000n)
  expect((await withKey(client, 'again')).status).toBe(202)
})

test('a key is 1 to 255 visible characters; any other key is 400, and makes no payout', async () => {
  const {client} = await richMerchant()
  for (const key of [
    '',
    '""',
    '"',
    '"open',
    'open" quote',
    '"a"b',
    '"a", "b"',
    '"a";x=1',
    '"\\x"',
    'two words',
    'x'.repeat(256),
    `"${'x'.repeat(256)}"`,
    'ä',
    '"ä"',
  ]) {
    const reply = await withKey(client, key)
    expect(refusal(reply), key).toEqual([400, 'invalid_request'])
    expect(reply.body.details).toMatchObject([{path: 'idempotency-key'}])
  }
  expect(await payoutsOf(client)).toEqual([])
  const longest = await withKey(client, 'x'.repeat(255))
  expect(longest.status).toBe(202)
  expect((await withKey(client, `"${'x'.repeat(255)}"`)).body).toEqual(longest.body)
})

test('a body that does not match the contract is 400, and makes no payout', async () => {
  const {client} = await richMerchant()
  for (const [body, path] of [
    [undefined, ''],
    [[], ''],
    ['{', ''],
    [{}, 'chain'],
    [{chain: 'ETH'}, 'token'],
    [{token: 'USDC'}, 'chain'],
    [{chain: '', token: 'USDC'}, 'chain'],
    [{chain: ['ETH'], token: 'USDC'}, 'chain'],
    [{chain: 'ETH', token: ''}, 'token'],
    [{chain: 'ETH', token: 7}, 'token'],
    [{chain: 'ETH', token: 'x'.repeat(65)}, 'token'],
    [{chain: 'ETH', token: 'US\0DC'}, 'token'],
    [{chain: 'ETH', token: 'USDC', sweep_first: 'yes'}, 'sweep_first'],
    [{chain: 'ETH', token: 'USDC', sweep_first: null}, 'sweep_first'],
    [{chain: 'ETH', token: 'USDC', sweep_first: 1}, 'sweep_first'],
  ] as const) {
    const reply = await client.post('/v1/payouts', body)
    expect(refusal(reply), JSON.stringify(body)).toEqual([400, 'invalid_request'])
    if (path) expect(reply.body.details[0]).toMatchObject({path})
  }
  expect(await payoutsOf(client)).toEqual([])
})
