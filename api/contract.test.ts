// The contract, line by line: users, addresses, deposits, balances, events and payout addresses, over HTTP, on the real
// database.
import pg from 'pg'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {addressOfScript} from '../chains/bitcoin/script.ts'
import {type BitcoinChain, chain as registered} from '../chains/registry.ts'
import {type Api, Client, fillPool, makeKey, startApi} from '../test/support/api.ts'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant, makeUser, type TestUser, watchAddress} from '../test/support/people.ts'

const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

let db: TestDatabase
let api: Api
let eth: ChainWriter
let polygon: ChainWriter

beforeAll(async () => {
  db = await testDatabase()
  api = await startApi(db)
  await fillPool(db, 100)
  eth = await ChainWriter.open(db, 'ETH')
  polygon = await ChainWriter.open(db, 'POLYGON')
})
afterAll(async () => {
  await eth.close()
  await polygon.close()
  await api.close()
  await db.drop()
})

async function newMerchant(chains = ['ETH', 'POLYGON']): Promise<{id: string; client: Client}> {
  const id = await makeMerchant(db, chains)
  return {id, client: new Client(api, (await makeKey(db, id)).secret)}
}

const publicId = (prefix: string, uuid: string) => `${prefix}_${uuid.replaceAll('-', '')}`
const takenAddresses = async () =>
  (await db.rows<{n: number}>('select count(*)::int as n from custody.address where taken_at is not null'))[0]!.n

/** Opens all connections of the API's pool, so that requests that follow at once reach the database at once. */
async function openConnections(client: Client): Promise<void> {
  await Promise.all(Array.from({length: 30}, (_, n) => client.get(`/v1/users?limit=${n + 1}`)))
}

let txids = 0
/** A deposit in a new block; `user` may have been made by SQL or by the API. */
async function deposit(writer: ChainWriter, address: string, amount: bigint, token = 'USDC'): Promise<string> {
  const txid = `0xab${String(++txids).padStart(62, '0')}`
  await writer.write({add: [[{txid, amount, token, recipient: address}]]})
  return txid
}

// --- users ---

test('POST /v1/users creates a user with an address on each enabled chain, and is idempotent on external_ref', async () => {
  const {client} = await newMerchant()
  const created = await client.post('/v1/users', {external_ref: 'customer-42'})
  expect(created.status).toBe(201)
  expect(created.headers.get('content-type')).toBe('application/json; charset=utf-8')
  expect(Object.keys(created.body)).toEqual(['id', 'external_ref', 'addresses', 'metadata'])
  expect(created.body.id).toMatch(/^usr_[0-9a-f]{32}$/)
  expect(created.body.external_ref).toBe('customer-42')
  const [onEth, onPolygon] = created.body.addresses
  expect([onEth.chain, onPolygon.chain]).toEqual(['ETH', 'POLYGON'])
  expect(onEth.address).toMatch(/^0x[0-9a-fA-F]{40}$/)
  expect(onPolygon.address).toBe(onEth.address) // one EVM address per user

  const found = await client.post('/v1/users', {external_ref: 'customer-42'})
  expect(found.status).toBe(200)
  expect(found.body).toEqual(created.body)
})

test('POST /v1/users with chains gives addresses on these chains only, and a later call adds missing ones to the same user', async () => {
  const {id, client} = await newMerchant()
  const first = await client.post('/v1/users', {external_ref: 'a', chains: ['ETH']})
  expect(first.body.addresses).toMatchObject([{chain: 'ETH'}])
  // It is watched on the other EVM chain already, though nothing is credited there.
  const watched = await db.rows('select chain, is_provisioned from app.address where merchant_id = $1 order by chain', [
    id,
  ])
  expect(watched).toEqual([
    {chain: 'ETH', is_provisioned: true},
    {chain: 'POLYGON', is_provisioned: false},
  ])
  const second = await client.post('/v1/users', {external_ref: 'a', chains: ['POLYGON']})
  expect(second.status).toBe(200)
  expect(second.body.id).toBe(first.body.id)
  const {address} = first.body.addresses[0]
  expect(second.body.addresses).toEqual([
    {chain: 'ETH', address},
    {chain: 'POLYGON', address},
  ])
})

test('POST /v1/users for a chain that the account has not enabled is 422 chain_not_enabled and makes no user', async () => {
  const {client} = await newMerchant(['ETH'])
  for (const chains of [['POLYGON'], ['ETH', 'POLYGON'], ['BTC'], ['SOL', 'ETH']]) {
    const {status, body} = await client.post('/v1/users', {external_ref: 'a', chains})
    expect([status, body.error]).toEqual([422, 'chain_not_enabled'])
  }
  expect((await client.get('/v1/users')).body.users).toEqual([])
})

test('POST /v1/users many times at once with one external_ref makes one user and takes one address', async () => {
  const {client} = await newMerchant()
  const before = await takenAddresses()
  await openConnections(client)
  const chains = [undefined, ['ETH'], ['POLYGON'], ['ETH', 'POLYGON']]
  const replies = await Promise.all(
    Array.from({length: 24}, (_, n) => client.post('/v1/users', {external_ref: 'duplicate', chains: chains[n % 4]})),
  )
  expect(replies.filter(({status}) => status === 201)).toHaveLength(1)
  expect(replies.filter(({status}) => status === 200)).toHaveLength(23)
  expect(new Set(replies.map(({body}) => body.id)).size).toBe(1)
  expect(new Set(replies.flatMap(({body}) => body.addresses.map((a: {address: string}) => a.address))).size).toBe(1)
  expect(await takenAddresses()).toBe(before + 1)
})

test('adding an address many times at once gives one address', async () => {
  const {id, client} = await newMerchant([])
  const {body: user} = await client.post('/v1/users', {external_ref: 'without any'})
  expect(user.addresses).toEqual([])
  for (const chain of ['ETH', 'POLYGON']) await db.rows('select app.set_merchant_chain($1, $2, true)', [id, chain])
  const before = await takenAddresses()
  await openConnections(client)
  await Promise.all(
    Array.from({length: 24}, (_, n) => {
      const chains = [n % 2 ? 'ETH' : 'POLYGON']
      return n % 3
        ? client.post('/v1/users', {external_ref: 'without any', chains})
        : client.post(`/v1/users/${user.id}/addresses`, {chains})
    }),
  )
  const {addresses} = (await client.get(`/v1/users/${user.id}`)).body
  expect(addresses).toHaveLength(2)
  expect(addresses[0].address).toBe(addresses[1].address)
  expect(await takenAddresses()).toBe(before + 1)
})

test('many users created at once each get their own address, the oldest of the pool first', async () => {
  const {client} = await newMerchant()
  const [{next}] = (await db.rows<{next: number}>(
    'select min(derivation_index)::int as next from custody.address where taken_at is null',
  )) as [{next: number}]
  await openConnections(client)
  const replies = await Promise.all(
    Array.from({length: 20}, (_, n) => client.post('/v1/users', {external_ref: `user-${n}`})),
  )
  const addresses = replies.map(({body}) => body.addresses[0].address)
  const taken = await db.rows<{address: string}>(
    'select address from custody.address where derivation_index between $1 and $1 + 19 order by address',
    [next],
  )
  expect(addresses.toSorted()).toEqual(taken.map(({address}) => address).toSorted())
})

test('POST /v1/users asks custody for addresses and waits for them when the pool is empty', async () => {
  const other = await testDatabase()
  const otherApi = await startApi(other)
  const custody = new pg.Client({connectionString: other.url('sluice_custody')})
  await custody.connect()
  try {
    const client = new Client(otherApi, (await makeKey(other, await makeMerchant(other))).secret)
    const refused = await client.post('/v1/users', {external_ref: 'a'})
    expect([refused.status, refused.body.error]).toEqual([503, 'unavailable'])
    expect(refused.headers.get('retry-after')).toBe('1')
    expect((await client.get('/v1/users')).body.users).toEqual([])

    custody.on('notification', () => fillPool(other, 1))
    await custody.query('listen address_pool_low')
    const created = await client.post('/v1/users', {external_ref: 'a'})
    expect(created.status).toBe(201)
  } finally {
    await custody.end()
    await otherApi.close()
    await other.drop()
  }
})

test('GET /v1/users lists users with created_at, newest first; GET /v1/users/:id shows one', async () => {
  const {client} = await newMerchant()
  for (const external_ref of ['a', 'b', 'c']) await client.post('/v1/users', {external_ref})
  const {status, body} = await client.get('/v1/users')
  expect(status).toBe(200)
  expect(body.users.map((user: {external_ref: string}) => user.external_ref)).toEqual(['c', 'b', 'a'])
  expect(body).toMatchObject({next_cursor: null, has_more: false})
  const [newest] = body.users
  expect(Object.keys(newest)).toEqual(['id', 'external_ref', 'created_at', 'addresses', 'metadata'])
  expect(newest.created_at).toMatch(timestamp)
  expect(newest.addresses).toHaveLength(2)
  expect((await client.get(`/v1/users/${newest.id}`)).body).toEqual(newest)
})

test('metadata of a user is set at creation, replaced by PATCH, and echoed in its deposits and their events', async () => {
  const {client} = await newMerchant()
  const {client: other} = await newMerchant()
  const gold = {plan: 'gold', '': undefined, 'größe €': '😀', empty: ''}
  const {body: created} = await client.post('/v1/users', {external_ref: 'm', metadata: gold})
  const {'': _none, ...noted} = gold
  expect(created.metadata).toEqual(noted)
  expect((await client.post('/v1/users', {external_ref: 'm', metadata: {plan: 'other'}})).body.metadata).toEqual(noted)
  expect((await client.post('/v1/users', {external_ref: 'none'})).body.metadata).toEqual({})
  const user = `/v1/users/${created.id}`
  await deposit(eth, created.addresses[0].address, 1n)
  expect((await client.get('/v1/deposits')).body.deposits).toMatchObject([{metadata: noted}])

  const changed = await client.call('PATCH', user, {metadata: {plan: 'silver'}})
  expect([changed.status, changed.body.metadata]).toEqual([200, {plan: 'silver'}])
  for (const body of [{}, {other: 1}])
    expect((await client.call('PATCH', user, body)).body.metadata).toEqual({plan: 'silver'})
  expect((await client.get(user)).body.metadata).toEqual({plan: 'silver'})
  expect((await client.get('/v1/users?external_ref=m')).body.users).toMatchObject([{metadata: {plan: 'silver'}}])
  await eth.finalise(eth.head.height)
  await db.rows('select app.sequence_events()')
  const {events} = (await client.get('/v1/events')).body
  expect(events.map((event: {user: {metadata: object}}) => event.user.metadata)).toEqual([{plan: 'silver'}, noted])
  const {body: one} = await client.get(`/v1/deposits/${events[0].deposit_id}`)
  expect(one.metadata).toEqual({plan: 'silver'})

  expect((await client.call('PATCH', user, {metadata: {}})).body.metadata).toEqual({})
  expect((await other.call('PATCH', user, {metadata: {}})).status).toBe(404)
  expect((await client.call('PATCH', '/v1/users/usr_x', {})).status).toBe(404)
  const entries = (count: number, value = 'x') =>
    Object.fromEntries(Array.from({length: count}, (_, n) => [`k${n}`, value]))
  const most = entries(20, '😀'.repeat(500))
  expect((await client.call('PATCH', user, {metadata: most})).body.metadata).toEqual(most)
  for (const metadata of [
    entries(21),
    entries(1, 'x'.repeat(501)),
    {a: 1},
    {a: null},
    {a: {}},
    [],
    'x',
    null,
    {a: 'a\0'},
    {'a\0': 'a'},
    {['x'.repeat(101)]: 'a'},
    JSON.parse('{"__proto__": "a"}'),
  ])
    for (const [method, path] of [
      ['PATCH', user],
      ['POST', '/v1/users'],
    ] as const) {
      const reply = await client.call(method, path, {external_ref: 'new', metadata})
      expect([reply.status, reply.body.error], JSON.stringify(metadata)).toEqual([400, 'invalid_request'])
    }
})

test('GET /v1/users?external_ref= finds the user with that reference', async () => {
  const {client} = await newMerchant()
  const {client: other} = await newMerchant()
  for (const external_ref of ['a', 'a a', 'ä€😀 &=?']) await client.post('/v1/users', {external_ref})
  for (const external_ref of ['a', 'a a', 'ä€😀 &=?']) {
    const {body} = await client.get(`/v1/users?external_ref=${encodeURIComponent(external_ref)}`)
    expect(body).toMatchObject({users: [{external_ref}], next_cursor: null, has_more: false})
    expect((await other.get(`/v1/users?external_ref=${encodeURIComponent(external_ref)}`)).body.users).toEqual([])
  }
  expect((await client.get('/v1/users?external_ref=A')).body.users).toEqual([])
  expect((await client.get('/v1/users?external_ref=')).status).toBe(400)
})

test('external_ref is any text of 1 to 255 characters that people can see, and comes back as it was sent', async () => {
  const {client} = await newMerchant()
  const refs = [
    'ä€😀',
    '😀'.repeat(255),
    'O\u0308del', // the form of a Mac
    '"\\/ a  b',
    '__proto__',
    'constructor',
    "'; drop table app.user; --",
  ]
  for (const external_ref of refs) {
    const {status, body} = await client.post('/v1/users', {external_ref})
    expect([status, body.external_ref]).toEqual([201, external_ref])
    expect((await client.post('/v1/users', {external_ref})).body.id).toBe(body.id)
    expect((await client.get(`/v1/users/${body.id}`)).body.external_ref).toBe(external_ref)
  }
})

test('a new reference that looks like another one is refused, with the name of the character', async () => {
  const {client} = await newMerchant()
  for (const [bad, message] of [
    [' a', 'must not begin or end with a space (U+0020)'],
    ['a\u00a0', 'must not begin or end with a space (U+00A0)'],
    ['a\nb', 'must not hold a control character (U+000A)'],
    ['a\u202eb', 'must not hold a mark of the direction of writing (U+202E)'],
    ['a\u200bb', 'must not hold an invisible character (U+200B)'],
    ['a\u200db', 'must not hold an invisible character (U+200D)'],
    ['a\u{e0041}', 'must not hold an invisible character (U+E0041)'],
    ['a\u0378', 'must not hold a character that Unicode does not define (U+0378)'],
  ] as const) {
    const user = await client.post('/v1/users', {external_ref: bad})
    expect([user.status, user.body]).toMatchObject([
      400,
      {error: 'invalid_request', details: [{path: 'external_ref', message}]},
    ])
  }
  expect((await client.get('/v1/users')).body.users).toEqual([])
})

test('each Unicode form of a reference is the same user, who keeps the form of the first request', async () => {
  const {client} = await newMerchant()
  for (const [first, then] of [
    ['Zo\u00eb', 'Zoe\u0308'],
    ['o\u0308del', '\u00f6del'],
    ['\u1e69', 's\u0323\u0307'],
  ] as const) {
    const {body} = await client.post('/v1/users', {external_ref: first})
    const again = await client.post('/v1/users', {external_ref: then})
    expect([again.status, again.body]).toEqual([200, body])
    expect(again.body.external_ref).toBe(first)
    const found = await client.get(`/v1/users?external_ref=${encodeURIComponent(then)}`)
    expect(found.body.users).toMatchObject([{id: body.id, external_ref: first}])
  }
  const forms = ['A\u030a', '\u00c5', '\u212b'] // of one letter
  const users = await Promise.all(
    Array.from({length: 12}, (_, n) => client.post('/v1/users', {external_ref: forms[n % 3]})),
  )
  expect(new Set(users.map(({body}) => body.id)).size).toBe(1)
  expect(users.filter(({status}) => status === 201)).toHaveLength(1)
})

test('a user whose reference is from before that was checked is found by it, and by no other', async () => {
  const {id, client} = await newMerchant()
  const old = ['twin', 'twin ', 'tw\u200bin', 'twi\u0308n', 'tw\u00efn']
  await db.rows('insert into app.user (merchant_id, external_ref) select $1, r from unnest($2::text[]) r', [id, old])
  for (const external_ref of old) {
    const {status, body} = await client.post('/v1/users', {external_ref})
    expect([status, body.external_ref]).toEqual([200, external_ref])
    const found = await client.get(`/v1/users?external_ref=${encodeURIComponent(external_ref)}`)
    expect(found.body.users).toMatchObject([{id: body.id}])
  }
  expect((await client.get('/v1/users')).body.users).toHaveLength(old.length)
  const seen = await db.rows<{reference: string; twins: number}>(
    `select reference, cardinality(ids) as twins from app.look_alike l join app.merchant m on m.prefix = l.merchant where m.id = $1 order by 1`,
    [id],
  )
  expect(seen).toEqual([
    {reference: 'twin', twins: 3},
    {reference: 'tw\u00efn', twins: 2},
  ])
})

test('POST /v1/users/:id/addresses adds the chains that are missing and shows all addresses of the user', async () => {
  const {client} = await newMerchant()
  const {body: user} = await client.post('/v1/users', {external_ref: 'a', chains: ['ETH']})
  const path = `/v1/users/${user.id}/addresses`
  const added = await client.post(path, {chains: ['POLYGON']})
  expect(added.status).toBe(201)
  const {address} = user.addresses[0]
  const both = [
    {chain: 'ETH', address},
    {chain: 'POLYGON', address},
  ]
  expect(added.body).toEqual({id: user.id, addresses: both})
  const again = await client.post(path, {chains: ['POLYGON', 'ETH', 'ETH']})
  expect([again.status, again.body]).toEqual([200, {id: user.id, addresses: both}])
  const refused = await client.post(path, {chains: ['ETH', 'SOL']})
  expect([refused.status, refused.body.error]).toEqual([422, 'chain_not_enabled'])
})

test('enabling or disabling a chain for a merchant takes effect at the next request', async () => {
  const {id, client} = await newMerchant(['ETH'])
  const {body: before} = await client.post('/v1/users', {external_ref: 'a'})
  expect(before.addresses).toMatchObject([{chain: 'ETH'}])
  await db.rows(`select app.set_merchant_chain($1, 'POLYGON', true)`, [id])
  await db.rows(`select app.set_merchant_chain($1, 'ETH', false)`, [id])
  // No address is made or taken away by itself.
  expect((await client.get(`/v1/users/${before.id}`)).body.addresses).toEqual(before.addresses)
  expect((await client.post('/v1/users', {external_ref: 'b', chains: ['ETH']})).body.error).toBe('chain_not_enabled')
  const {body: after} = await client.post('/v1/users', {external_ref: 'b'})
  expect(after.addresses).toMatchObject([{chain: 'POLYGON'}])
})

// --- deposits ---

test('GET /v1/deposits shows a pending deposit, then final, or reorged', async () => {
  const {id, client} = await newMerchant()
  const user = await makeUser(db, id)
  const txid = await deposit(eth, user.address, 1_250_000n)
  const {height} = eth.head
  const {body} = await client.get('/v1/deposits')
  const [pending] = body.deposits
  expect(Object.keys(pending).slice(0, 10)).toEqual([
    'id',
    'chain',
    'token',
    'amount',
    'sender',
    'txid',
    'status',
    'confirmations',
    'settlement_id',
    'created_at',
  ])
  expect(pending).toMatchObject({
    chain: 'ETH',
    token: 'USDC',
    amount: '1.25',
    sender: '0xSender',
    txid,
    status: 'pending',
    confirmations: 1,
    settlement_id: null,
    address: user.address,
    output_index: 0,
    user_id: publicId('usr', user.userId),
    external_ref: (await client.get(`/v1/users/${publicId('usr', user.userId)}`)).body.external_ref,
  })
  expect(pending.id).toMatch(/^dep_[0-9a-f]{32}$/)
  expect(pending.created_at).toMatch(timestamp)

  await eth.write({add: [[], []]})
  const path = `/v1/deposits/${pending.id}`
  expect((await client.get(path)).body).toEqual({
    ...pending,
    confirmations: 3,
    finalised_at: null,
    settlement: null,
    held_back: null,
  })

  await eth.finalise(height)
  const {body: final} = await client.get(path)
  expect(final).toEqual({
    ...pending,
    confirmations: 3,
    status: 'final',
    finalised_at: final.finalised_at,
    held_back: null,
    settlement: null,
  })
  expect(final.finalised_at).toMatch(timestamp)

  const lostTxid = await deposit(eth, user.address, 1n, 'ETH')
  await eth.write({drop: 1, add: [[]]})
  const [reorged] = (await client.get('/v1/deposits?status=reorged')).body.deposits
  expect(reorged).toMatchObject({txid: lostTxid, amount: '0.000000000000000001', status: 'reorged', confirmations: 0})
})

test('GET /v1/deposits filters by status, chain, token, user, address, transaction and time, each alone and together', async () => {
  const {id, client} = await newMerchant()
  const users: [TestUser, TestUser] = [await makeUser(db, id), await makeUser(db, id)]
  for (const user of users) {
    for (const [writer, token] of [
      [eth, 'USDC'],
      [polygon, 'POL'],
    ] as const) {
      await deposit(writer, user.address, 10n ** 6n, token)
      await deposit(writer, user.address, 10n ** 6n, token)
      await writer.finalise(writer.head.height)
      await deposit(writer, user.address, 10n ** 6n, token)
      await writer.write({drop: 1, add: [[]]})
      await deposit(writer, user.address, 10n ** 6n, token)
    }
  }
  const everything = await client.all('/v1/deposits', 'deposits', 200)
  expect(everything).toHaveLength(16)
  const options = {
    status: [undefined, 'pending', 'final', 'reorged'],
    chain: [undefined, 'ETH', 'POLYGON', 'BTC'],
    token: [undefined, 'USDC', 'ETH'],
    user_id: [undefined, publicId('usr', users[0].userId)],
    address: [undefined, users[0].address, users[1].address],
    txid: [undefined, everything[3].txid],
    created_from: [undefined, everything[10].created_at],
    created_to: [undefined, everything[4].created_at],
  }
  const names = Object.keys(options) as (keyof typeof options)[]
  const combinations = names.reduce<Record<string, string>[]>(
    (sofar, name) =>
      sofar.flatMap(some => options[name].map(value => (value === undefined ? some : {...some, [name]: value}))),
    [{}],
  )
  const isShown = (
    item: Record<string, string>,
    {created_from = '', created_to = '9', ...equal}: Record<string, string>,
  ) =>
    item.created_at! >= created_from &&
    item.created_at! < created_to &&
    Object.entries(equal).every(([name, value]) => item[name] === value)
  // Every seventh has each pair of values: no number of options is a multiple of seven.
  for (const filters of combinations.filter((_, n) => n % 7 === 0)) {
    const query = String(new URLSearchParams({...filters, limit: '3'}))
    const shown = everything.filter(item => isShown(item, filters))
    const {deposits, next_cursor} = (await client.get(`/v1/deposits?${query}`)).body
    expect(deposits, query).toEqual(shown.slice(0, 3))
    if (next_cursor)
      expect((await client.get(`/v1/deposits?${query}&cursor=${next_cursor}`)).body.deposits, query).toEqual(
        shown.slice(3, 6),
      )
    expect(next_cursor !== null, query).toBe(shown.length > 3)
  }
})

test('deposits are found by an address and a transaction id in either case, and by times of any zone', async () => {
  const {id, client} = await newMerchant()
  const user = await makeUser(db, id)
  await deposit(eth, user.address, 1n)
  const {deposits} = (await client.get('/v1/deposits')).body
  const [{address, txid, created_at}] = deposits
  const found = async (query: Record<string, string>) =>
    (await client.get(`/v1/deposits?${new URLSearchParams(query)}`)).body.deposits
  for (const form of [address, address.toLowerCase()]) expect(await found({address: form})).toEqual(deposits)
  for (const form of [txid, `0x${txid.slice(2).toUpperCase()}`]) expect(await found({txid: form})).toEqual(deposits)
  const at = Date.parse(created_at)
  const zoned = (ms: number) => new Date(ms + 3_600_000).toISOString().replace('Z', '+01:00')
  expect(await found({created_from: zoned(at), created_to: zoned(at + 1)})).toEqual(deposits)
  const outside: Record<string, string>[] = [
    {created_from: zoned(at + 1)},
    {created_to: zoned(at)},
    {created_to: '1969-01-01T00:00:00Z'},
  ]
  for (const query of outside) expect(await found(query), JSON.stringify(query)).toEqual([])
})

test('an address or a transaction of another merchant, or of nobody, has no deposits', async () => {
  const [one, other] = [await newMerchant(), await newMerchant()]
  const user = await makeUser(db, other.id)
  const txid = await deposit(eth, user.address, 1n)
  const stranger = '0x000000000000000000000000000000000000dEaD'
  const userId = publicId('usr', (await makeUser(db, one.id)).userId)
  for (const query of [
    `address=${user.address}`,
    `txid=${txid}`,
    `address=${stranger}`,
    'txid=0',
    `address=${user.address}&txid=${txid}`,
    `user_id=${userId}&txid=${txid}`,
  ])
    expect((await one.client.get(`/v1/deposits?${query}`)).body, query).toEqual({
      deposits: [],
      next_cursor: null,
      has_more: false,
    })
  expect((await other.client.get(`/v1/deposits?txid=${txid}`)).body.deposits).toHaveLength(1)
})

test('a transfer of another token, or on a chain that is not enabled, is no deposit', async () => {
  const {id, client} = await newMerchant()
  const user = await makeUser(db, id, ['ETH'])
  await deposit(eth, user.address, 5n, '0x0000000000000000000000000000000000000bad')
  await deposit(polygon, user.address, 5n, 'POL')
  const rows = await db.rows<{id: string}>('select id from app.deposit where merchant_id = $1', [id])
  expect(rows).toHaveLength(2)
  expect((await client.get('/v1/deposits')).body.deposits).toEqual([])
  for (const row of rows) expect((await client.get(`/v1/deposits/${publicId('dep', row.id)}`)).status).toBe(404)
})

// --- pages ---

test('pages list every item once, newest first, even if others are added in between', async () => {
  const {id, client} = await newMerchant()
  const user = await makeUser(db, id)
  for (let n = 0; n < 7; n++) await deposit(eth, user.address, BigInt(n + 1))
  const before = await client.all('/v1/deposits', 'deposits', 200)
  const during = await client.all('/v1/deposits', 'deposits', 2, () => deposit(eth, user.address, 9n))
  expect(during.map(item => item.id)).toEqual(before.map(item => item.id))

  for (let n = 0; n < 5; n++) await client.post('/v1/users', {external_ref: `u${n}`})
  const users = await client.all('/v1/users', 'users', 200)
  const paged = await client.all('/v1/users', 'users', 1, () => makeUser(db, id))
  expect(paged).toEqual(users)
})

test('limit is 1 to 200, by default 50', async () => {
  const {id, client} = await newMerchant()
  await db.rows(`insert into app.user (merchant_id, external_ref) select $1, g::text from generate_series(1, 201) g`, [
    id,
  ])
  for (const [query, length] of [
    ['', 50],
    ['?limit=1', 1],
    ['?limit=200', 200],
  ] as const) {
    const {body} = await client.get(`/v1/users${query}`)
    expect([body.users.length, body.has_more]).toEqual([length, true])
  }
  for (const limit of ['0', '201', '-1', '1.5', 'ten', '', '1e9', 'NaN', '99999999999999999999']) {
    for (const path of ['/v1/users', '/v1/deposits', '/v1/events']) {
      const {status, body} = await client.get(`${path}?limit=${limit}`)
      expect([status, body.error], `${path}?limit=${limit}`).toEqual([400, 'invalid_request'])
      expect(body.details[0].path).toBe('limit')
    }
  }
})

test('a cursor is refused with other filters, in another list, for another merchant, and when any bit is changed', async () => {
  const {id, client} = await newMerchant()
  const user = await makeUser(db, id)
  for (let n = 0; n < 3; n++) await deposit(eth, user.address, 1n)
  const {next_cursor} = (await client.get('/v1/deposits?limit=1')).body
  expect((await client.get(`/v1/deposits?limit=2&cursor=${next_cursor}`)).status).toBe(200)
  const {client: other} = await newMerchant()
  const bytes = Buffer.from(next_cursor, 'base64url')
  const flipped = Array.from(bytes.keys(), n => Buffer.from(bytes.map((byte, at) => (at === n ? byte ^ 128 : byte))))
  const refusals = [
    client.get(`/v1/deposits?status=final&cursor=${next_cursor}`),
    client.get(`/v1/deposits?chain=ETH&cursor=${next_cursor}`),
    client.get(`/v1/deposits?user_id=${publicId('usr', user.userId)}&cursor=${next_cursor}`),
    client.get(`/v1/users?cursor=${next_cursor}`),
    client.get(`/v1/events?cursor=${next_cursor}`),
    other.get(`/v1/deposits?cursor=${next_cursor}`),
    ...['', 'x', `${next_cursor}A`, `${next_cursor}=`, next_cursor.slice(1), '%00', '../../etc', 'null', '-1'].map(
      cursor => client.get(`/v1/deposits?cursor=${cursor}`),
    ),
    client.get(`/v1/deposits?cursor=${next_cursor}&cursor=${next_cursor}`),
    ...flipped.map(each => client.get(`/v1/deposits?cursor=${each.toString('base64url')}`)),
  ]
  for (const {status, body} of await Promise.all(refusals)) {
    expect([status, body.error]).toEqual([400, 'invalid_request'])
    expect(body.details).toMatchObject([{path: 'cursor'}])
  }
})

// --- balances ---

test('GET /v1/balances sums final deposits per chain and token; the fee is floor(gross × fee_bps / 10000) on the sum', async () => {
  const {id, client} = await newMerchant()
  expect((await client.get('/v1/balances')).body).toEqual({fee_bps: 100, balances: []})
  const user = await makeUser(db, id)
  await deposit(eth, user.address, 199n) // each alone would bear a fee of 1, together 3
  await deposit(eth, user.address, 199n)
  await deposit(eth, user.address, 10n ** 18n, 'ETH')
  await eth.finalise(eth.head.height)
  await deposit(eth, user.address, 777n) // pending: does not count
  await deposit(polygon, user.address, 99n, 'POL')
  await polygon.finalise(polygon.head.height)
  const expected = {
    fee_bps: 100,
    balances: [
      {chain: 'ETH', token: 'ETH', gross: '1', fee: '0.01', net: '0.99', held_back: '0', depositCount: 1},
      {
        chain: 'ETH',
        token: 'USDC',
        gross: '0.000398',
        fee: '0.000003',
        net: '0.000395',
        held_back: '0',
        depositCount: 2,
      },
      {
        chain: 'POLYGON',
        token: 'POL',
        gross: '0.000000000000000099',
        fee: '0',
        net: '0.000000000000000099',
        held_back: '0',
        depositCount: 1,
      },
    ],
  }
  expect((await client.get('/v1/balances')).body).toEqual(expected)
  await db.rows('select app.fold_balances()')
  expect((await client.get('/v1/balances')).body).toEqual(expected)
  await db.rows('update app.merchant set fee_bps = 0 where id = $1', [id])
  expect((await client.get('/v1/balances')).body).toMatchObject({fee_bps: 0, balances: [{fee: '0', net: '1'}, {}, {}]})
})

test('what is not worth a sweep is held back from the net, and the deposit says what is missing', async () => {
  const {id, client} = await newMerchant()
  const [user, other] = [await makeUser(db, id), await makeUser(db, id)]
  await db.rows(`select app.set_sweep_min('POLYGON', 'POL', 1000)`)
  const small = await deposit(polygon, user.address, 600n, 'POL')
  await deposit(polygon, other.address, 5000n, 'POL')
  await polygon.finalise(polygon.head.height)
  const balance = async () => (await client.get('/v1/balances')).body.balances
  const units = (amount: string) => `0.${amount.padStart(18, '0').replace(/0+$/, '')}`
  expect(await balance()).toEqual([
    {
      chain: 'POLYGON',
      token: 'POL',
      gross: units('5600'),
      fee: units('50'),
      net: units('4950'),
      held_back: units('600'),
      depositCount: 2,
    },
  ])
  const [listed] = (await client.get(`/v1/deposits?txid=${small}`)).body.deposits
  const shown = async () => (await client.get(`/v1/deposits/${listed.id}`)).body.held_back
  expect(await shown()).toEqual({reason: 'below_minimum', minimum: units('1000'), missing: units('400')})
  await deposit(polygon, user.address, 400n, 'POL')
  await polygon.finalise(polygon.head.height)
  expect(await shown()).toBeNull()
  expect(await balance()).toMatchObject([{gross: units('6000'), net: units('5940'), held_back: '0'}])
  await db.rows(`select app.set_sweep_min('POLYGON', 'POL', 0)`)
})

test('a negative balance is shown without a fee; a balance of zero is left out', async () => {
  const {id, client} = await newMerchant()
  await db.rows(
    `insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count)
     values ($1, 'ETH', 'USDC', -1500000, 0), ($1, 'ETH', 'ETH', 5, 1), ($1, 'ETH', 'ETH', -5, -1)`,
    [id],
  )
  expect((await client.get('/v1/balances')).body.balances).toEqual([
    {chain: 'ETH', token: 'USDC', gross: '-1.5', fee: '0', net: '-1.5', held_back: '0', depositCount: 0},
  ])
  await db.rows('delete from app.balance_delta where merchant_id = $1', [id])
})

// --- events ---

test('GET /v1/events shows each event as webhooks deliver it, newest first, filtered by type, and forward from a given event', async () => {
  const {id, client} = await newMerchant()
  const user = await makeUser(db, id)
  const txids = [await deposit(eth, user.address, 1_500_000n), await deposit(eth, user.address, 2_000_000n)]
  await eth.finalise(eth.head.height)
  expect((await client.get('/v1/events')).body.events).toEqual([]) // until the sequencer has allocated them
  await db.rows('select app.sequence_events()')

  const newestFirst = await client.all('/v1/events', 'events', 3)
  expect(newestFirst.map(({type, txid}) => [type, txid])).toEqual([
    ['deposit.confirmed', txids[1]],
    ['deposit.confirmed', txids[0]],
    ['deposit.pending', txids[1]],
    ['deposit.pending', txids[0]],
  ])
  const [event] = newestFirst
  expect(event).toMatchObject({chain: 'ETH', token: 'USDC', amount: '2', txid: txids[1]})
  expect(event.id).toMatch(/^evt_[0-9a-f]{32}$/)
  expect(event.deposit_id).toMatch(/^dep_/)
  expect(event.user.id).toBe(publicId('usr', user.userId))
  expect(event.created_at).toMatch(timestamp)
  const delivered = await db.rows<{body: string}>(
    'select app.event_body(payload, sequence) as body from app.event where merchant_id = $1 order by sequence desc',
    [id],
  )
  expect(newestFirst).toEqual(delivered.map(({body}) => JSON.parse(body)))

  const oldestFirst = newestFirst.toReversed()
  const after = `/v1/events?after=${oldestFirst[0].id}`
  expect(await client.all(after, 'events', 2)).toEqual(oldestFirst.slice(1))
  expect(await client.all(`/v1/events?after=evt_${'0'.repeat(32)}`, 'events', 2)).toEqual(oldestFirst)
  expect(await client.all(`${after}&type=deposit.confirmed`, 'events', 1)).toEqual(oldestFirst.slice(2))
  expect(await client.all('/v1/events?type=deposit.pending', 'events', 1)).toEqual(newestFirst.slice(2))
  const both = 'type=deposit.pending,deposit.confirmed,payout.failed'
  expect(await client.all(`/v1/events?${both}`, 'events', 3)).toEqual(newestFirst)
  expect(await client.all(`${after}&${both}`, 'events', 1)).toEqual(oldestFirst.slice(1))
  for (const each of newestFirst) expect((await client.get(`/v1/events/${each.id}`)).body).toEqual(each)
  expect((await client.get(`/v1/events?after=${event.id}`)).body).toEqual({
    events: [],
    next_cursor: null,
    has_more: false,
  })
  expect((await client.get('/v1/events?type=deposit.nonsense')).status).toBe(400)
})

test('an unconfirmed Bitcoin deposit is pending with 0 confirmations, and counts blocks once it is mined', async () => {
  const {id, client} = await newMerchant(['BTC'])
  const address = 'bcrt1qcontract'
  await watchAddress(db, id, {address, family: 'bitcoin', watched: ['BTC'], chains: ['BTC']})
  const btc = await ChainWriter.open(db, 'BTC')
  const seen = {output_index: 1, token: 'BTC', amount: '12345', sender: 'bcrt1qpayer', recipient: address}
  await btc.query(`select chain.note_unconfirmed('BTC', $1)`, [
    JSON.stringify([{txid: 'unconfirmed', inputs: ['coin:0'], ...seen}]),
  ])
  const only = async () => (await client.get('/v1/deposits')).body.deposits[0]
  expect(await only()).toMatchObject({
    chain: 'BTC',
    amount: '0.00012345',
    sender: 'bcrt1qpayer',
    status: 'pending',
    confirmations: 0,
    output_index: 1,
  })
  await btc.write({
    add: [[{txid: 'unconfirmed', outputIndex: 1, token: 'BTC', amount: 12345n, recipient: address}], []],
  })
  expect(await only()).toMatchObject({status: 'pending', confirmations: 2})
  await btc.close()
})

// --- payout address ---

test('PUT /v1/payout-address registers or replaces the destination, in EIP-55 form', async () => {
  const {client} = await newMerchant()
  const checksummed = '0x52908400098527886E0F7030069857D2E4169EE7'
  const mixed = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'
  for (const [given, shown] of [
    [checksummed, checksummed],
    [checksummed.toLowerCase(), checksummed],
    [mixed, mixed],
    [mixed.toLowerCase(), mixed],
    [`0x${mixed.slice(2).toUpperCase()}`, mixed],
  ]) {
    const {status, body} = await client.put('/v1/payout-address', {chain: 'ETH', address: given})
    expect([status, body]).toEqual([200, {chain: 'ETH', address: shown}])
  }
})

test('PUT /v1/payout-address refuses a text that is no address of the chain with 400', async () => {
  const {client} = await newMerchant()
  for (const address of [
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1Beaed', // one letter's case
    '0X5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
    '5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe',
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed0',
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeg',
    '0x0000000000000000000000000000000000000000',
    '0x000000000000000000000000000000000000dEaD',
    '0x0000000000000000000000000000000000000001',
    '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238', // the contract of USDC
    'vitalik.eth',
    'bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq',
    ' 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
    '',
  ]) {
    const {status, body} = await client.put('/v1/payout-address', {chain: 'ETH', address})
    expect([status, body.error], address).toEqual([400, 'invalid_request'])
    expect(body.details).toMatchObject([{path: 'address'}])
  }
  const unknown = await client.put('/v1/payout-address', {chain: 'DOGE', address: 'x'})
  expect([unknown.status, unknown.body.error]).toEqual([422, 'chain_not_enabled'])
  const address = 'HAgk14JpMQLgt6rVgv7cBQFJWFto5Dqxi472uT3DKpqk'
  const notEnabled = await client.put('/v1/payout-address', {chain: 'SOL', address})
  expect([notEnabled.status, notEnabled.body.error]).toEqual([422, 'chain_not_enabled'])
})

test('PUT /v1/payout-address of Solana refuses an address off the curve with 422, unless it is meant', async () => {
  const {client} = await newMerchant(['SOL'])
  const body = {chain: 'SOL', address: '5SHQQrjzHCMkZZJzYNhx9szLeYsVCYw4NNr8p7xT9BAY'}
  const refused = await client.put('/v1/payout-address', body)
  expect([refused.status, refused.body.error]).toEqual([422, 'unprocessable'])
  expect(refused.body.message).toMatch(/as a rule it is mistyped.*"allow_off_curve": true$/)
  expect((await client.put('/v1/payout-address', {...body, allow_off_curve: false})).status).toBe(422)
  expect((await client.put('/v1/payout-address', {...body, allow_off_curve: true})).body).toEqual(body)
})

describe('PUT /v1/payout-address of Bitcoin', () => {
  const put = async (address: string) => {
    const {client} = await newMerchant(['BTC'])
    const {status, body} = await client.put('/v1/payout-address', {chain: 'BTC', address})
    return [status, body.error ?? body.address]
  }

  test('asks the client to retry before custody has made an address, which tells the network', async () => {
    expect(await put('bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080')).toEqual([503, 'unavailable'])
    await db.rows(
      `insert into custody.address (address, family, derivation_index, purpose)
       values ('bcrt1q0xlxvlhemja6c4dqv22uapctqupfhlxml3m4zq', 'bitcoin', 0, 'treasury')`,
    )
  })

  const script = (hex: string) =>
    addressOfScript(Buffer.from(hex, 'hex'), (registered('BTC') as BitcoinChain).networks.regtest)!
  test.each([
    ['P2PKH', 'mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn'],
    ['P2SH', '2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc'],
    ['P2WPKH', 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080'],
    ['P2WSH', script(`0020${'ab'.repeat(32)}`)],
    ['P2TR', script(`5120${'79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798'}`)],
  ])('takes a %s address', async (_, address) => {
    expect(await put(address)).toEqual([200, address])
  })

  test('shows an upper-case bech32 address in lower case', async () => {
    expect(await put('BCRT1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KYGT080')).toEqual([
      200,
      'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080',
    ])
  })

  test.each([
    ['of mainnet', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4'],
    ['of a public test network', 'tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx'],
    ['of mainnet in base58', '1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa'],
    ['in mixed case', 'bcrt1qW508d6qejxtdg4y5r3zarvary0c5xw7kygt080'],
    ['mistyped', 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt081'],
    ['of an unknown witness version', 'bcrt1zw508d6qejxtdg4y5r3zarvaryvhm3vz7'],
    ['of Ethereum', '0x52908400098527886E0F7030069857D2E4169EE7'],
  ])('refuses an address %s with 400', async (_, address) => {
    expect(await put(address)).toEqual([400, 'invalid_request'])
  })
})

test('PUT /v1/payout-address refuses every address of the service itself with 422 unprocessable', async () => {
  const {id, client} = await newMerchant()
  const [free] = await db.rows<{address: string}>(
    `select address from custody.address where taken_at is null and family = 'evm' limit 1`,
  )
  const user = await makeUser(db, id)
  for (const address of [free!.address, free!.address.toLowerCase(), user.address]) {
    for (const chain of ['ETH', 'POLYGON']) {
      const {status, body} = await client.put('/v1/payout-address', {chain, address})
      expect([status, body.error]).toEqual([422, 'unprocessable'])
    }
  }
  expect(await db.rows('select from app.payout_address where merchant_id = $1', [id])).toEqual([])
})
