// What the API refuses: keys that do not work, merchants beyond their limit, other merchants' ids, and input of every
// wrong kind. Each gets the contract's error, never a 500, and changes nothing.
import {once} from 'node:events'
import {type IncomingMessage, request} from 'node:http'
import {connect, createServer, type Socket} from 'node:net'
import fc from 'fast-check'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {logger} from '../base/log.ts'
import {type Scope, scopes} from '../base/scopes.ts'
import {chainCodes} from '../chains/registry.ts'
import {Outage} from '../db/client/outage.ts'
import {type Api, Client, fillPool, makeKey, type Reply, startApi} from '../test/support/api.ts'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant, makeUser} from '../test/support/people.ts'
import {until} from '../test/support/until.ts'
import {Database} from './database.ts'
import {Keys} from './keys.ts'
import {documentOf} from './openapi.ts'
import {RateLimiter} from './rate-limit.ts'

let db: TestDatabase
let api: Api
let merchantId: string
let client: Client

beforeAll(async () => {
  db = await testDatabase()
  api = await startApi(db)
  await fillPool(db, 500)
  merchantId = await makeMerchant(db)
  client = new Client(api, (await makeKey(db, merchantId)).secret)
})
afterAll(async () => {
  await api.close()
  await db.drop()
})

const refusal = ({status, body}: Reply) => [status, body.error]

/** Everything that a request could have changed, as text. */
async function everything(): Promise<string> {
  const ofApp = [
    'user',
    'address',
    'payout_address',
    'webhook_endpoint',
    'delivery',
    'event',
    'payout',
    'idempotency_key',
    'payment_request',
  ]
  const counts = [...ofApp.map(table => `app.${table}`), 'custody.address'].map(
    table => `(select md5(coalesce(string_agg(t::text, '|' order by t::text), '')) from ${table} t)`,
  )
  const [row] = await db.rows<{all: string}>(`select concat_ws(',', ${counts.join(', ')}) as all`)
  return row!.all
}

// --- keys ---

test('a missing or invalid key is 401 invalid_api_key, in either header', async () => {
  const keys = [
    '',
    'sk_',
    `sk_${'A'.repeat(43)}`,
    `sk_${'A'.repeat(42)}`,
    `sk_${'A'.repeat(5000)}`,
    '../../etc/passwd',
    "' or 1=1 --",
  ]
  const headers: Record<string, string>[] = [
    {},
    ...keys.map(key => ({authorization: `Bearer ${key}`})),
    ...keys.map(key => ({'x-api-key': key})),
  ]
  for (const sent of headers) {
    const reply = await new Client(api).call('GET', '/v1/users', undefined, sent)
    expect(refusal(reply), JSON.stringify(sent)).toEqual([401, 'invalid_api_key'])
    expect(reply.headers.get('ratelimit-policy')).toBeTruthy()
    expect(reply.body.message).toMatch(/Authorization: Bearer.*x-api-key/)
    expect(reply.headers.get('www-authenticate')).toBe('Bearer')
  }
})

test('every route needs a key except the health routes', async () => {
  const open: string[] = []
  for (const [path, methods] of Object.entries(documentOf(api.app).paths))
    for (const [method, {security}] of Object.entries(methods)) {
      if (security?.length === 0) open.push(path)
      else
        expect(refusal(await new Client(api).call(method.toUpperCase(), path)), path).toEqual([401, 'invalid_api_key'])
    }
  expect(open).toEqual(['/livez', '/readyz'])
})

test('a key works as Authorization: Bearer, as x-api-key, and as both if they are equal', async () => {
  const {secret} = await makeKey(db, merchantId)
  const status = async (headers: Record<string, string>) =>
    (await new Client(api).call('GET', '/v1/users', undefined, headers)).status
  for (const authorization of [`Bearer ${secret}`, `bearer ${secret}`, `BEARER  ${secret}`])
    expect(await status({authorization}), authorization).toBe(200)
  for (const authorization of [secret, `Basic ${secret}`, `Bearer${secret}`, `Bearer ${secret} x`, `Bearer ${secret}=`])
    expect(await status({authorization}), authorization).toBe(401)
  const withBearer = (key: string) => ({authorization: `Bearer ${secret}`, 'x-api-key': key})
  expect(await status({'x-api-key': secret})).toBe(200)
  expect(await status(withBearer(secret))).toBe(200)
  const {secret: another} = await makeKey(db, merchantId)
  for (const key of ['', 'x', another, `${secret} `.repeat(2), `Bearer ${secret}`])
    expect(await status(withBearer(key)), key).toBe(401)
  for (const key of [`Bearer ${secret}`, `${secret}, ${secret}`])
    expect(await status({'x-api-key': key}), key).toBe(401)
  expect(await status({authorization: `Basic ${secret}`, 'x-api-key': secret})).toBe(401)
})

test('a key does what its scopes say: read is every GET, each of the others the changes of its part; else 403 insufficient_scope', async () => {
  const scopeOf = (method: string, path: string): Scope => {
    if (method === 'get') return 'read'
    if (path.startsWith('/v1/users')) return 'users'
    if (path.startsWith('/v1/payout')) return 'payouts'
    return path.startsWith('/v1/webhook-endpoints') ? 'webhooks' : 'payments'
  }
  const clients = new Map<Scope, Client>()
  for (const scope of scopes) clients.set(scope, new Client(api, (await makeKey(db, merchantId, [scope])).secret))
  for (const [path, methods] of Object.entries(documentOf(api.app).paths))
    for (const [method, {security}] of Object.entries(methods))
      for (const [scope, client] of security?.length === 0 ? [] : clients) {
        const needed = scopeOf(method, path)
        const reply = await client.call(method.toUpperCase(), path)
        const what = `${method} ${path} with the scope ${scope}`
        if (scope === needed) expect(reply.status, what).not.toBe(403)
        else {
          expect(refusal(reply), what).toEqual([403, 'insufficient_scope'])
          expect(reply.body.message).toBe(`this needs a key with the scope ${needed}; this key has ${scope}`)
          expect(reply.headers.get('www-authenticate')).toBe(`Bearer error="insufficient_scope", scope="${needed}"`)
        }
      }
})

test('a key is required however the path is spelled', async () => {
  for (const path of ['/%76%31/users', '/v1/%75sers', '/v1/./users', '/v1/x/../users', '/v1/users/'])
    expect(refusal(await new Client(api).get(path)), path).toEqual([401, 'invalid_api_key'])
  for (const path of ['/v1//users', '/V1/users', '//v1/users', '/v1%2fusers'])
    expect(refusal(await new Client(api).get(path)), path).toEqual([404, 'route_not_found'])
})

test('a revoked key stops working at once in every API process, and other keys of the merchant still work', async () => {
  const other = await startApi(db)
  try {
    const [doomed, kept] = [await makeKey(db, merchantId), await makeKey(db, merchantId)]
    const asked = [api, other].map(each => new Client(each, doomed.secret))
    for (let n = 0; n < 3; n++) for (const each of asked) expect((await each.get('/v1/users')).status).toBe(200)
    await db.rows('select app.revoke_api_key($1)', [doomed.id])
    // Well below the 5 seconds for which a key is remembered.
    await until(
      async () => (await Promise.all(asked.map(each => each.get('/v1/users')))).every(({status}) => status === 401),
      {
        timeoutMs: 1000,
        intervalMs: 5,
        what: 'both processes to refuse the key',
      },
    )
    for (const each of [api, other]) expect((await new Client(each, kept.secret).get('/v1/users')).status).toBe(200)
  } finally {
    await other.close()
  }
})

test('no key of a suspended merchant works in any process, new keys included; all work again after resuming', async () => {
  const kept = await makeKey(db, merchantId)
  const other = await startApi(db)
  const statuses = (secret = kept.secret) =>
    Promise.all([api, other].map(async each => (await new Client(each, secret).get('/v1/users')).status))
  const become = (status: number) =>
    until(async () => (await statuses()).every(each => each === status), {
      timeoutMs: 1000,
      intervalMs: 5,
      what: `both processes to answer ${status}`,
    })
  const suspend = (suspended: boolean) => db.rows('select app.set_merchant_suspended($1, $2)', [merchantId, suspended])
  try {
    await become(200)
    await suspend(true)
    await become(401)
    expect(await statuses((await makeKey(db, merchantId)).secret)).toEqual([401, 401])
    await suspend(false)
    await become(200)
  } finally {
    await suspend(false)
    await other.close()
  }
})

test('the day a key was last used is stored, once a day', async () => {
  const {id, secret} = await makeKey(db, merchantId)
  const row = async () =>
    (
      await db.rows<{used: string | null; version: string}>(
        'select last_used_on::text as used, xmin::text as version from app.api_key where id = $1',
        [id],
      )
    )[0]!
  const today = () => new Date().toISOString().slice(0, 10)
  expect((await row()).used).toBeNull()
  await db.rows(`update app.api_key set last_used_on = current_date - 2 where id = $1`, [id])
  const before = today()
  expect((await new Client(api, secret).get('/v1/users')).status).toBe(200)
  await until(async () => [before, today()].includes((await row()).used ?? ''), {
    timeoutMs: 5000,
    what: 'the day to be written',
  })
  const {version} = await row()
  await db.rows('select app.note_key_use(k.secret_hash) from app.api_key k where id = $1', [id])
  expect((await row()).version).toBe(version)
})

test('every key is looked up in the database while notifications of revoked keys cannot arrive', async () => {
  const {id, secret} = await makeKey(db, merchantId)
  const headers = {authorization: `Bearer ${secret}`}
  const url = new URL(db.url('sluice_api'))
  const link = await startLink(Number(url.port))
  const database = new Database(url.toString(), {max: 2})
  url.port = String(link.port)
  const log = logger('test')
  log.level = 'silent'
  const keys = new Keys(database, url.toString(), {log, outage: new Outage(log)})
  const remembers = async (headers: Record<string, string>) => {
    if ((await keys.holderOf(headers)) === undefined) return false
    const again = keys.holderOf(headers)
    if (!(again instanceof Promise)) return true
    await again.catch(() => {}) // the connection may be cut meanwhile
    return false
  }
  const isRemembered = () => remembers(headers)
  try {
    await until(isRemembered, {timeoutMs: 5000, what: 'the key to be remembered'})
    link.cut()
    await until(async () => !(await isRemembered()), {timeoutMs: 1000, what: 'the broken connection to be noticed'})
    await db.rows('select app.revoke_api_key($1)', [id])
    expect(await keys.holderOf(headers)).toBeUndefined()
    link.restore()
    const {secret: another} = await makeKey(db, merchantId)
    await until(() => remembers({'x-api-key': another}), {timeoutMs: 5000, what: 'keys to be remembered again'})
    expect(await keys.holderOf(headers)).toBeUndefined()
  } finally {
    await keys.close()
    await database.close()
    link.close()
  }
})

/** A TCP connection to the database that can be cut and restored. */
async function startLink(databasePort: number) {
  const sockets = new Set<Socket>()
  let isCut = false
  const server = createServer(socket => {
    if (isCut) return void socket.destroy()
    const upstream = connect(databasePort, '127.0.0.1')
    for (const each of [socket, upstream]) {
      sockets.add(each)
      each.on('error', () => {})
    }
    socket.pipe(upstream).pipe(socket)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const destroyAll = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    port: (server.address() as {port: number}).port,
    cut: () => {
      isCut = true
      destroyAll()
    },
    restore: () => {
      isCut = false
    },
    close: () => {
      destroyAll()
      server.close()
    },
  }
}

// --- rate limit ---

test('over the limit a merchant gets 429 rate_limited with Retry-After; each response shows what is left', async () => {
  const limited = await startApi(db, {rateLimitPerMinute: 5})
  try {
    const [one, two] = [await makeMerchant(db), await makeMerchant(db)]
    const [first, second] = [await makeKey(db, one), await makeKey(db, one)].map(key => new Client(limited, key.secret))
    const paths = ['/v1/users', '/v1/nothing-here', '/v1/users/usr_x', '/v1/users?limit=0', '/v1/balances']
    for (const [n, path] of paths.entries()) {
      const {headers} = await (n % 2 ? first! : second!).get(path)
      expect(headers.get('ratelimit-policy')).toBe('"default";q=5;w=60')
      expect(headers.get('ratelimit')).toMatch(new RegExp(`^"default";r=${4 - n};t=(60|59)$`))
    }
    for (const each of [first!, second!]) {
      const refused = await each.get('/v1/users')
      expect(refusal(refused)).toEqual([429, 'rate_limited'])
      expect(refused.headers.get('ratelimit')).toMatch(/^"default";r=0;t=\d+$/)
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(50)
      expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(60)
    }
    const before = await everything()
    expect((await first!.post('/v1/users', {external_ref: 'a'})).status).toBe(429)
    expect(await everything()).toBe(before)
    const others = new Client(limited, (await makeKey(db, two)).secret)
    expect((await others.get('/v1/users')).headers.get('ratelimit')).toContain('r=4;')
    const nobody = await new Client(limited).get('/v1/users')
    expect([nobody.status, nobody.headers.get('ratelimit')]).toEqual([401, '"default";r=5;t=60'])
    expect((await new Client(limited).get('/livez')).headers.get('ratelimit')).toBeNull()
  } finally {
    await limited.close()
  }
})

test('no span of 60 seconds allows more than the limit, and the rate-limit headers are right', () => {
  const told = (header: string) => /^"default";r=(\d+);t=(\d+)$/.exec(header)!.slice(1).map(Number) as [number, number]
  const waitMs = fc.oneof(fc.double({min: 0, max: 50, noNaN: true}), fc.double({min: 0, max: 61_000, noNaN: true}))
  fc.assert(
    fc.property(fc.integer({min: 1, max: 20}), fc.array(waitMs, {minLength: 1, maxLength: 200}), (limit, waits) => {
      let now = 123.4
      const limiter = new RateLimiter(limit, () => now)
      const allowedAt: number[] = []
      for (const wait of waits) {
        now += wait
        const {allowed, header, resetSeconds} = limiter.take('m')
        const [left, seconds] = told(header)
        expect(seconds).toBe(resetSeconds)
        expect(resetSeconds).toBeGreaterThan(0)
        expect(resetSeconds).toBeLessThanOrEqual(60)
        if (allowed) allowedAt.push(now)
        else expect(left).toBe(0)
        const within = allowedAt.filter(at => at > now - 59_999) // it counts in whole milliseconds
        expect(within.length).toBeLessThanOrEqual(limit)
        if (allowed) expect(left).toBeLessThanOrEqual(limit - within.length)
        if (!allowed) {
          now += resetSeconds * 1000
          expect(limiter.take('m').allowed, 'after the seconds of Retry-After').toBe(true)
          allowedAt.push(now)
        }
      }
      for (let [left] = told(limiter.take('m').header); left > 0; left--) expect(limiter.take('m').allowed).toBe(true)
    }),
  )
})

test('a client cannot get twice the rate limit around a change of minute', () => {
  let now = 1000
  const limiter = new RateLimiter(10, () => now)
  const taken = () => Array.from({length: 20}, () => limiter.take('m')).filter(({allowed}) => allowed).length
  expect(limiter.take('m')).toEqual({allowed: true, header: '"default";r=9;t=60', resetSeconds: 60})
  now += 59_500
  expect(taken()).toBe(9)
  now += 500 // the first one comes back, and no other
  expect(taken()).toBe(1)
  expect(limiter.take('m')).toEqual({allowed: false, header: '"default";r=0;t=60', resetSeconds: 60})
  now += 60_000
  expect(taken()).toBe(10)
})

// --- other merchants ---

test('ids of another merchant are 404, as if they did not exist, and its objects are in no list', async () => {
  const user = await makeUser(db, merchantId)
  const eth = await ChainWriter.open(db, 'ETH')
  await eth.write({add: [[{txid: '0xA', amount: 5n, recipient: user.address}]]})
  await eth.finalise(1)
  await eth.close()
  const {body: endpoint} = await client.post('/v1/webhook-endpoints', {url: 'http://127.0.0.1:9/hook'})
  const {body: delivery} = await client.post(`/v1/webhook-endpoints/${endpoint.id}/test`)
  await db.rows('select app.sequence_events()')
  const [deposit] = (await client.get('/v1/deposits')).body.deposits
  const [event] = (await client.get('/v1/events?type=deposit.pending')).body.events
  const userId = deposit.user_id

  const stranger = new Client(api, (await makeKey(db, await makeMerchant(db))).secret)
  const before = await everything()
  const endpointPath = `/v1/webhook-endpoints/${endpoint.id}`
  for (const [method, path, code, body] of [
    ['GET', `/v1/users/${userId}`, 'user_not_found'],
    ['POST', `/v1/users/${userId}/addresses`, 'user_not_found', {chains: ['ETH']}],
    ['GET', `/v1/deposits?user_id=${userId}`, 'user_not_found'],
    ['GET', `/v1/deposits/${deposit.id}`, 'deposit_not_found'],
    ['GET', `/v1/events?after=${event.id}`, 'event_not_found'],
    ['GET', `/v1/events/${event.id}`, 'event_not_found'],
    ['GET', endpointPath, 'webhook_endpoint_not_found'],
    ['PATCH', endpointPath, 'webhook_endpoint_not_found', {enabled: false}],
    ['DELETE', endpointPath, 'webhook_endpoint_not_found'],
    ['POST', `${endpointPath}/rotate-secret`, 'webhook_endpoint_not_found'],
    ['POST', `${endpointPath}/test`, 'webhook_endpoint_not_found'],
    ['GET', `${endpointPath}/deliveries`, 'webhook_endpoint_not_found'],
    ['POST', `${endpointPath}/deliveries/${delivery.id}/redeliver`, 'webhook_endpoint_not_found'],
    ['POST', `${endpointPath}/redeliver-failed`, 'webhook_endpoint_not_found', {since: '2020-01-01T00:00:00Z'}],
  ] as const) {
    const own = await stranger.call(method, path, body)
    expect(refusal(own), `${method} ${path}`).toEqual([404, code])
    const none = await stranger.call(method, path.replace(/_[0-9a-f]{32}/, `_${'f'.repeat(32)}`), body)
    expect(none.body).toEqual(own.body)
  }
  expect(await everything()).toBe(before)
  const {body: theirs} = await stranger.post('/v1/webhook-endpoints', {url: 'http://127.0.0.1:9/hook'})
  const mixed = await stranger.post(`/v1/webhook-endpoints/${theirs.id}/deliveries/${delivery.id}/redeliver`)
  expect(refusal(mixed)).toEqual([404, 'webhook_delivery_not_found'])
  await stranger.delete(`/v1/webhook-endpoints/${theirs.id}`)
  for (const [path, key] of [
    ['/v1/users', 'users'],
    ['/v1/deposits', 'deposits'],
    ['/v1/events', 'events'],
    ['/v1/balances', 'balances'],
    ['/v1/webhook-endpoints', 'webhook_endpoints'],
  ] as const)
    expect((await stranger.get(path)).body[key]).toEqual([])
})

test('an id in an impossible form is 404', async () => {
  for (const bad of [
    'x',
    'usr_',
    'USR_0192f3a4b5c67d8e9fa0b1c2d3e4f506',
    'usr_0192F3A4B5C67D8E9FA0B1C2D3E4F506',
    '%00',
    'null',
    'dep_0192f3a4b5c67d8e9fa0b1c2d3e4f506',
    '0192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f506',
    'usr_0192f3a4b5c67d8e9fa0b1c2d3e4f5061',
    '%F0%9F%98%80',
    'x'.repeat(8000),
    "'%20or%201=1",
    '..%2f..%2f',
  ])
    expect(refusal(await client.get(`/v1/users/${bad}`)), bad).toEqual([404, 'user_not_found'])
  expect(refusal(await client.get('/v1/deposits/usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506'))).toEqual([
    404,
    'deposit_not_found',
  ])
  expect(refusal(await client.get('/v1/deposits?user_id=x'))).toEqual([404, 'user_not_found'])
  expect(refusal(await client.get('/v1/events?after=x'))).toEqual([404, 'event_not_found'])
  const empty = await client.get('/v1/events?after=')
  expect(refusal(empty)).toEqual([400, 'invalid_request'])
  expect(JSON.stringify(empty.body)).toContain('after: must be the id of an event, evt_…, or evt_0000')
})

// --- routes, methods, media types, sizes ---

test('an unknown route is 404 route_not_found', async () => {
  for (const [method, path, body] of [
    ['GET', '/'],
    ['GET', '/nothing'],
    ['POST', '/v1/nothing', '{not json'],
    ['GET', '/v1'],
    ['GET', '/v1/'],
    ['GET', '/crypto'],
    ['GET', '/v1/payments'],
    ['GET', '/payments/1'],
    ['GET', '/__proto__'],
  ] as const)
    expect(refusal(await client.call(method, path, body)), path).toEqual([404, 'route_not_found'])
})

test('a method that a path does not support is 405 method_not_allowed with Allow; OPTIONS lists methods; HEAD is GET without a body', async () => {
  for (const [method, path, allow] of [
    ['DELETE', '/v1/users', 'GET, HEAD, OPTIONS, POST'],
    ['PATCH', '/v1/balances', 'GET, HEAD, OPTIONS'],
    ['POST', '/v1/payout-address', 'OPTIONS, PUT'],
    ['GET', '/v1/payout-address', 'OPTIONS, PUT'],
    ['HEAD', '/v1/payout-address', 'OPTIONS, PUT'],
    ['PUT', '/v1/webhook-endpoints/whe_x', 'DELETE, GET, HEAD, OPTIONS, PATCH'],
    ['POST', '/livez', 'GET, HEAD, OPTIONS'],
    ['POST', '/payments', 'GET, HEAD, OPTIONS'],
    ['GET', '/v1/ETH/payment-request', 'OPTIONS, POST'],
  ] as const) {
    const reply = await client.call(method, path, method === 'POST' ? '{not json' : undefined)
    expect([reply.status, reply.headers.get('allow')], `${method} ${path}`).toEqual([405, allow])
    if (method !== 'HEAD') expect(reply.body.error).toBe('method_not_allowed')
    const options = await client.call('OPTIONS', path)
    expect([options.status, options.headers.get('allow')]).toEqual([204, allow])
  }
  const head = await client.call('HEAD', '/v1/balances')
  expect([head.status, head.body]).toEqual([200, undefined])
  expect(Number(head.headers.get('content-length'))).toBeGreaterThan(0)
})

test('a body that is not JSON is 415 unsupported_media_type, and stores nothing', async () => {
  const before = await everything()
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/xml',
    'nonsense',
  ])
    expect(refusal(await client.call('POST', '/v1/users', '{"external_ref":"x"}', {'content-type': type}))).toEqual([
      415,
      'unsupported_media_type',
    ])
  expect(await everything()).toBe(before)
  const withCharset = {'content-type': 'application/json; charset=utf-8'}
  expect((await client.call('POST', '/v1/users', '{"external_ref":"x"}', withCharset)).status).toBe(201)
})

test('a body over 64 KiB is 413 payload_too_large, however large it is and however it is sent', async () => {
  const before = await everything()
  for (const size of [64 * 1024 + 1, 3_000_000]) {
    const external_ref = 'x'.repeat(size)
    expect(refusal(await client.post('/v1/users', {external_ref}))).toEqual([413, 'payload_too_large'])
    expect(refusal(await new Client(api).post('/v1/users', {external_ref}))).toEqual([401, 'invalid_api_key'])
  }
  expect(await everything()).toBe(before)
  // The connection stays open. If it were closed while the body still comes, the client would see a reset instead of
  // the reply.
  const {secret} = await makeKey(db, merchantId)
  const headers = {authorization: `Bearer ${secret}`, 'content-type': 'application/json', connection: 'keep-alive'}
  const sent = request(`${api.url}/v1/users`, {method: 'POST', headers: {...headers, 'content-length': '3000000'}})
  sent.on('error', () => {})
  sent.end('x'.repeat(3_000_000))
  const [reply] = (await once(sent, 'response')) as [IncomingMessage]
  expect(reply.statusCode).toBe(413)
  expect(reply.headers.connection).not.toBe('close')
  reply.resume()
  const chains = Array.from({length: 50}, () => 'ETH')
  const padded = `${JSON.stringify({external_ref: 'padded', chains})}${' '.repeat(60_000)}`
  expect((await client.post('/v1/users', padded)).status).toBe(201)
})

// --- bodies ---

test('what is missing, given twice or of another kind is said in words', async () => {
  const message = async (reply: Promise<{body: {message: string}}>) => (await reply).body.message
  expect(await message(client.post('/v1/users', {}))).toBe('external_ref: is missing')
  expect(await message(client.call('POST', '/v1/users'))).toBe('send a JSON object as the body')
  expect(await message(client.post('/v1/users', {external_ref: 1}))).toBe('external_ref: must be a JSON string')
  expect(await message(client.post('/v1/users', {external_ref: 'x', metadata: null}))).toBe(
    'metadata: must be a JSON object',
  )
  expect(await message(client.get('/v1/deposits?limit=many'))).toBe('limit: must be a whole number')
  expect(await message(client.get('/v1/deposits?token=A&token=B'))).toBe('token: must be given once')
  expect(await message(client.get('/v1/deposits?created_from=2026-11-23'))).toBe(
    'created_from: must be a time, such as 2026-11-23T00:00:00Z',
  )
})

/** What is wrong with any field, whatever it is. */
const wrongValues = [
  null,
  true,
  0,
  -1,
  1.5,
  1e12,
  '',
  'x',
  'x'.repeat(3000),
  '\0',
  [],
  [null],
  ['', 'x'],
  {},
  {'': 1},
  {x: null},
]
/** Words of zod, JavaScript and JSON Schema. */
const wordsOfPrograms =
  /invalid input|invalid option|expected|received|too (small|big)|[<>]=|NaN|undefined|\bnull\b|regex|pattern|schema|object Object|nonoptional/i
const sentences =
  /^(is (missing|no )|must |has |send |unknown parameter; |not enabled for |there (is|are) |[a-z_]+ must |no user )/

test('whatever is sent in any field of any route, what is wrong is said in words for people', async () => {
  const said = new Map<string, string>()
  const told = ({status, body}: Reply, about: string) => {
    expect(status, about).toBeLessThan(500)
    const details: {message: string}[] =
      body.error === 'invalid_request' ? (body.details ?? [{message: body.message}]) : []
    for (const {message} of details) said.set(message, about)
  }
  for (const [path, operations] of Object.entries(documentOf(api.app).paths))
    for (const [method, {security, requestBody, parameters = []}] of Object.entries(operations)) {
      if (security?.length === 0) continue
      const url = path.replace(/\{\w+\}/g, 'x')
      const content = requestBody?.content['application/json']
      const fields = Object.keys(content?.schema.properties ?? {})
      const example = (content?.example ?? content?.schema.examples?.[0] ?? {}) as Record<string, unknown>
      for (const value of wrongValues) {
        for (const field of fields) {
          const about = `${method} ${path} ${field}: ${JSON.stringify(value).slice(0, 40)}`
          told(await client.call(method.toUpperCase(), url, {...example, [field]: value}), about)
        }
        for (const {in: place, name} of parameters) {
          if (place !== 'query' || typeof value === 'object') continue
          const query = `${url}?${name}=${encodeURIComponent(String(value))}`
          told(await client.call(method.toUpperCase(), query, content && example), `${method} ${query.slice(0, 80)}`)
        }
      }
    }
  const wrong = [...said].filter(([message]) => wordsOfPrograms.test(message) || !sentences.test(message))
  expect(wrong).toEqual([])
  expect(said.size).toBeGreaterThan(25)
})

test('a malformed body is 400 invalid_request with details that name the errors, and changes nothing', async () => {
  const before = await everything()
  const bodies: [unknown, string?][] = [
    [''],
    ['{'],
    ['{"external_ref":"a"}x'],
    [Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d)],
    [Buffer.concat([Buffer.from('{"external_ref":"'), Buffer.of(0xc3), Buffer.from('"}')])],
    ['\ufeff\ufeff{}'],
    ['['.repeat(30_000)],
    ['null'],
    ['[]'],
    ['"text"'],
    ['7'],
    [{}, 'external_ref'],
    [{external_ref: null}, 'external_ref'],
    [{external_ref: ''}, 'external_ref'],
    [{external_ref: 7}, 'external_ref'],
    [{external_ref: ['a']}, 'external_ref'],
    [{external_ref: {toString: 'a'}}, 'external_ref'],
    [{external_ref: 'x'.repeat(256)}, 'external_ref'],
    [{external_ref: '😀'.repeat(256)}, 'external_ref'],
    [{external_ref: 'a\0b'}, 'external_ref'],
    ['{"external_ref":"\\ud800"}', 'external_ref'],
    ['{"external_ref":"\\udc00\\ud800"}', 'external_ref'],
    ['{"__proto__":{"external_ref":"a"}}', 'external_ref'],
    [{external_ref: 'a', chains: null}, 'chains'],
    [{external_ref: 'a', chains: 'ETH'}, 'chains'],
    [{external_ref: 'a', chains: []}, 'chains'],
    [{external_ref: 'a', chains: ['ETH', null]}, 'chains.1'],
    [{external_ref: 'a', chains: ['']}, 'chains.0'],
    [{external_ref: 'a', chains: ['a\0b']}, 'chains.0'],
    [{external_ref: 'a', chains: Array.from({length: 51}, () => 'ETH')}, 'chains'],
  ]
  for (const [body, path] of bodies) {
    const reply = await client.post('/v1/users', body)
    expect(refusal(reply), String(body).slice(0, 100)).toEqual([400, 'invalid_request'])
    if (path) expect(reply.body.details).toMatchObject([{path, code: expect.any(String), message: expect.any(String)}])
  }
  expect(await everything()).toBe(before)
})

test('a chain that does not exist is not enabled, and nothing is made for it', async () => {
  const before = await everything()
  for (const chain of ['eth', 'DOGE', '__proto__', "'; drop table app.user"]) {
    const user = await client.post('/v1/users', {external_ref: 'of no chain', chains: ['ETH', chain]})
    expect([...refusal(user), user.body.message]).toEqual([
      422,
      'chain_not_enabled',
      `not enabled for this account: ${chain}`,
    ])
    expect(refusal(await client.put('/v1/payout-address', {chain, address: 'x'}))).toEqual([422, 'chain_not_enabled'])
    const payout = await client.post('/v1/payouts', {chain, token: 'USDC'})
    expect([...refusal(payout), payout.body.message]).toEqual([
      422,
      'unsupported_token',
      `there is no chain ${chain}; there are ${chainCodes.join(', ')}`,
    ])
  }
  expect(await everything()).toBe(before)
})

test('an amount in a request for a payout is refused, and nothing is paid: it always pays the whole balance', async () => {
  const before = await everything()
  for (const amount of ['25', 25, null, '']) {
    const reply = await client.post('/v1/payouts', {chain: 'ETH', token: 'USDC', amount})
    expect([...refusal(reply), reply.body.message]).toEqual([
      400,
      'invalid_request',
      'amount: a payout always pays the whole balance; leave amount out',
    ])
  }
  expect(await everything()).toBe(before)
})

test('unknown fields of a body are ignored', async () => {
  const body = '{"external_ref":"extra","nothing":1,"__proto__":{"chains":["BTC"]},"constructor":{"prototype":{"x":1}}}'
  expect((await client.post('/v1/users', body)).status).toBe(201)
})

test('an unknown parameter of a query is 400 invalid_request, with the nearest one that the route knows', async () => {
  const refusals: [string, string, string][] = [
    ['/payments?external-id=x', 'external-id', 'did you mean external_id?'],
    ['/payments?externalId=x', 'externalId', 'did you mean external_id?'],
    ['/payments?orders=x', 'orders', 'there are external_id, currency, status, limit, cursor'],
    ['/v1/deposits?limits=1', 'limits', 'did you mean limit?'],
    ['/v1/deposits?userid=usr_1', 'userid', 'did you mean user_id?'],
    ['/v1/users?__proto__=x', '__proto__', 'there are'],
    ['/v1/balances?chain=ETH', 'chain', 'there are at'],
    ['/v1/payout-addresses?chain=ETH', 'chain', 'there are none here'],
    ['/v1/users/usr_1?limit=1', 'limit', 'there are none here'],
  ]
  for (const [path, name, hint] of refusals) {
    const reply = await client.get(path)
    expect(refusal(reply), path).toEqual([400, 'invalid_request'])
    expect(reply.body.details).toEqual([
      {path: name, code: 'unknown_parameter', message: expect.stringContaining(hint)},
    ])
    expect(reply.body.message).toBe(`${name}: ${reply.body.details[0].message}`)
  }
  const both = await client.get('/v1/deposits?limit=0&sort=x')
  expect(both.body.details.map(({path}: {path: string}) => path).sort()).toEqual(['limit', 'sort'])
  expect(refusal(await client.post('/v1/users?dry_run=1', {external_ref: 'dry'}))).toEqual([400, 'invalid_request'])
  expect(
    (await client.get('/v1/users?limit=100')).body.users.some(
      (user: {external_ref: string}) => user.external_ref === 'dry',
    ),
  ).toBe(false)
  expect((await new Client(api).get('/livez?probe=1')).status).toBe(200)
})

test('each route of the API refuses unknown parameters', async () => {
  for (const [path, operations] of Object.entries(documentOf(api.app).paths))
    for (const [method, {security, requestBody}] of Object.entries(operations)) {
      if (security?.length === 0) continue
      const url = `${path.replace(/\{\w+\}/g, 'x')}?no_such_parameter=1`
      const content = requestBody?.content['application/json']
      const reply = await client.call(method.toUpperCase(), url, content?.example ?? content?.schema.examples?.[0])
      const names = reply.body.details?.map(({path: name}: {path: string}) => name)
      const missing = path.startsWith('/v1/statements') ? ['from', 'to'] : []
      expect([reply.status, names], `${method} ${path}`).toEqual([400, [...missing, 'no_such_parameter']])
    }
})

test('a malformed query is 400 invalid_request', async () => {
  for (const query of [
    'status=unknown',
    'status=',
    'token=ETH&token=USDC',
    'chain=eth',
    'chain=DOGE',
    'chain=%00',
    'limit=1&limit=2',
    'cursor=1&cursor=2',
  ])
    expect(refusal(await client.get(`/v1/deposits?${query}`)), query).toEqual([400, 'invalid_request'])
  for (const path of ['%zz', '%', '%ed%a0%80', '%c3']) {
    const reply = await client.get(`/v1/users/${path}`)
    expect(refusal(reply), path).toEqual([400, 'invalid_request'])
    expect(reply.headers.get('ratelimit')).toBeTruthy()
  }
})

// --- anything ---

test('no request of a client causes a 500, and a refused request changes nothing', async () => {
  const {body: endpoint} = await client.post('/v1/webhook-endpoints', {url: 'http://127.0.0.1:9/'})
  const {body: user} = await client.post('/v1/users', {external_ref: 'anything'})
  const [{prefix}] = (await db.rows<{prefix: string}>('select prefix from app.merchant where id = $1', [
    merchantId,
  ])) as [{prefix: string}]
  const someId = fc.constantFrom(
    user.id,
    endpoint.id,
    `dep_${'0'.repeat(32)}`,
    'null',
    '-1',
    '%00',
    '%ff',
    '%F0%9F%98%80',
    'a%2fb',
  )
  const route = fc.tuple(
    fc.constantFrom(
      ['POST', '/v1/users'],
      ['GET', '/v1/users'],
      ['GET', '/v1/users/:id'],
      ['POST', '/v1/users/:id/addresses'],
      ['GET', '/v1/deposits'],
      ['GET', '/v1/deposits/:id'],
      ['GET', '/v1/balances'],
      ['GET', '/v1/events'],
      ['GET', '/v1/events/:id'],
      ['PUT', '/v1/payout-address'],
      ['POST', '/v1/payouts'],
      ['GET', '/v1/payouts'],
      ['GET', '/v1/payouts/:id'],
      ['POST', '/v1/payouts/:id/cancel'],
      ['GET', '/v1/crypto'],
      ['POST', '/v1/:id/payment-request'],
      ['POST', '/v1/ETH/payment-request'],
      ['GET', '/v1/payment-requests/:id'],
      ['GET', '/payments'],
      ['POST', '/v1/webhook-endpoints'],
      ['GET', '/v1/webhook-endpoints/:id'],
      ['PATCH', '/v1/webhook-endpoints/:id'],
      ['POST', '/v1/webhook-endpoints/:id/test'],
      ['GET', '/v1/webhook-endpoints/:id/deliveries'],
      ['POST', '/v1/webhook-endpoints/:id/deliveries/:id/redeliver'],
      ['POST', '/v1/webhook-endpoints/:id/redeliver-failed'],
    ),
    someId,
  )
  const text = fc.oneof(
    fc.string({unit: 'binary', maxLength: 300}),
    fc.constantFrom(
      '\ud800',
      '\0',
      '',
      'ETH',
      'BTC',
      `${prefix}-anything`,
      '1.5',
      '1e400',
      '9'.repeat(400),
      '0x',
      '9999-12-31T23:59:59Z',
      '0000-01-01T00:00:00Z',
    ),
    fc.constantFrom('http://a@b/', 'https://[::1]/', 'http://127.0.0.1:99999/', 'javascript:alert(1)', 'http://x\n/'),
  )
  const value = fc.oneof(
    text,
    fc.double(),
    fc.boolean(),
    fc.constant(null),
    fc.array(text, {maxLength: 3}),
    fc.jsonValue({maxDepth: 3}),
  )
  const names = [
    'external_ref',
    'external_id',
    'amount',
    'chains',
    'chain',
    'token',
    'sweep_first',
    'address',
    'url',
    'event_types',
    'enabled',
    'since',
    '__proto__',
    'toString',
  ]
  const fields = fc.dictionary(fc.oneof(fc.constantFrom(...names), fc.string()), value, {maxKeys: 5})
  const body = fc.oneof(fields, fc.jsonValue(), fc.string({unit: 'binary'}), fc.uint8Array())
  const query = fc.array(
    fc.tuple(
      fc.constantFrom(
        'limit',
        'cursor',
        'status',
        'chain',
        'user_id',
        'type',
        'after',
        'external_id',
        'currency',
        '__proto__',
      ),
      text,
    ),
    {maxLength: 3},
  )
  await fc.assert(
    fc.asyncProperty(route, query, body, async ([[method, pattern], id], parameters, sent) => {
      const search = parameters.map(([name, value]) => `${name}=${encodeURIComponent(value.toWellFormed())}`).join('&')
      const path = `${pattern!.replaceAll(':id', id)}?${search}`
      const before = await everything()
      const reply = await client.call(method!, path, method === 'GET' ? undefined : sent)
      expect(reply.status, `${method} ${path}`).toBeLessThan(500)
      if (reply.status >= 400 || method === 'GET') expect(await everything()).toBe(before)
    }),
    {numRuns: 600},
  )
})

// --- HTTP ---

/** The server's response to these bytes, until it ends the connection. */
async function exchange(sent: string) {
  const socket = connect(Number(new URL(api.url).port), '127.0.0.1')
  socket.write(sent)
  let response = ''
  for await (const chunk of socket) response += chunk
  const [head = '', body = ''] = response.replace('HTTP/1.1 100 Continue\r\n\r\n', '').split('\r\n\r\n')
  const [line, ...fields] = head.split('\r\n')
  const headers = new Headers(fields.map(field => field.split(': ', 2) as [string, string]))
  return {status: Number(line!.split(' ')[1]), headers, body: body && JSON.parse(body)}
}

test('a request that is not HTTP gets 400, and its connection is closed', async () => {
  const {status, headers, body} = await exchange('NONSENSE\r\n\r\n')
  expect([status, body.error, headers.get('cache-control')]).toEqual([400, 'invalid_request', 'no-store'])
  expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
})

test('a request without Host is 400, and one with an unknown Expect is 417, with the body of every refusal', async () => {
  for (const path of ['/v1/users', '/livez', '/nothing', '/docs']) {
    for (const [header, expected, why] of [
      ['X-Nothing: 1', 400, 'the header Host is missing'],
      ['Host: x\r\nExpect: 200-ok', 417, 'the only value that the header Expect may have is 100-continue'],
    ] as const) {
      const {status, headers, body} = await exchange(`GET ${path} HTTP/1.1\r\n${header}\r\nConnection: close\r\n\r\n`)
      expect([status, body], path).toEqual([expected, {error: 'invalid_request', message: why}])
      expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
      expect(headers.get('x-request-id')).toBeTruthy()
      expect(headers.has('ratelimit')).toBe(path.startsWith('/v1') || path === '/nothing')
    }
  }
  expect((await exchange('GET /livez HTTP/1.0\r\n\r\n')).status).toBe(200)
  const waiting =
    'POST /v1/users HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}'
  expect((await exchange(waiting)).status).toBe(401)
})

test("every response has the request id: the client's if it is valid in a header, else a new one", async () => {
  const idFor = async (sent: string, path = '/livez') =>
    (
      await exchange(`GET ${path} HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${sent}\r\nConnection: close\r\n\r\n`)
    ).headers.get('x-request-id')
  for (const sent of ['a', 'order 7 / "try" 2', '~'.repeat(128)])
    for (const path of ['/livez', '/v1/users', '/nothing', '/v1/users/%zz', '/pay/none/state'])
      expect(await idFor(sent, path), path).toBe(sent)
  const made = new Set<string | null>()
  for (const sent of ['', '~'.repeat(129), 'caf\u00e9', 'a\tb', '\u007f']) {
    const id = await idFor(sent)
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/)
    made.add(id)
  }
  expect(made.size).toBe(5)
  expect((await client.get('/v1/users')).headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
})

test('responses of the API forbid caching', async () => {
  const paths = [
    '/v1/users',
    '/v1/users?limit=0',
    '/v1/users/usr_x',
    '/v1/nothing',
    '/v1/users/%zz',
    '/livez',
    '/readyz',
  ]
  for (const path of [...paths, '/openapi.json', '/payments'])
    for (const each of [client, new Client(api)]) {
      const {headers} = await each.get(path)
      expect(headers.get('content-type'), path).toBe('application/json; charset=utf-8')
      expect(headers.get('cache-control'), path).toBe('no-store')
    }
})
