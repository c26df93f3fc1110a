// Webhook endpoints over HTTP, with the real worker delivering to a real receiver.
import {Webhook} from 'standardwebhooks'
import {afterAll, beforeAll, beforeEach, expect, test} from 'vitest'
import {logger} from '../base/log.ts'
import {readSettings} from '../chains/settings.ts'
import {startWorker} from '../jobs/worker.ts'
import {type Api, Client, makeKey, startApi} from '../test/support/api.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {endsOf} from '../test/support/ends.ts'
import {makeMerchant} from '../test/support/people.ts'
import {until} from '../test/support/until.ts'
import {type Received, type Receiver, startReceiver} from '../test/support/webhooks.ts'
import {documentOf} from './openapi.ts'
import {eventNames} from './routes/events.ts'

let db: TestDatabase
let api: Api
let receiver: Receiver
let worker: Awaited<ReturnType<typeof startWorker>>
let client: Client
/** The path of this test's endpoints: deliveries of an earlier test go to another path. */
let hook: string
let hooks = 0
const received = () => receiver.received.filter(({path}) => path === hook)

beforeAll(async () => {
  db = await testDatabase()
  api = await startApi(db)
  receiver = await startReceiver()
  const log = logger('jobs')
  log.level = 'fatal'
  const settings = readSettings({WEBHOOK_ALLOW_PRIVATE: '1'})
  worker = await startWorker({databaseUrl: db.url('sluice_jobs'), settings, log, ends: endsOf(log)})
})
afterAll(async () => {
  await worker.stop()
  await receiver.close()
  await api.close()
  await db.drop()
})
beforeEach(async () => {
  client = new Client(api, (await makeKey(db, await makeMerchant(db))).secret)
  hook = `/hook/${++hooks}`
  receiver.response = (_request, response) => response.writeHead(204).end()
})

const base = '/v1/webhook-endpoints'
const create = async (fields: object = {}) => (await client.post(base, {url: receiver.url + hook, ...fields})).body

/** The newest delivery of an endpoint, once it has this status. */
async function delivery(id: string, status: string) {
  return until(
    async () => {
      const [newest] = (await client.get(`${base}/${id}/deliveries?limit=1`)).body.deliveries
      return newest?.status === status && newest
    },
    {timeoutMs: 5000, what: `the delivery to be ${status}`},
  )
}

function verify({body, headers}: Received, secret: string): {type: string} {
  return new Webhook(secret).verify(body, headers as Record<string, string>) as {type: string}
}

test('a created endpoint shows its secret once and has the four types of the contract', async () => {
  const created = await client.post(base, {url: 'https://example.com/hook?x=1'})
  expect(created.status).toBe(201)
  const {secret, ...endpoint} = created.body
  expect(Buffer.from(secret.replace(/^whsec_/, ''), 'base64')).toHaveLength(24)
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{32}$/)
  expect(endpoint).toEqual({
    id: expect.stringMatching(/^whe_[0-9a-f]{32}$/),
    url: 'https://example.com/hook?x=1',
    event_types: ['deposit.pending', 'deposit.confirmed', 'payout.completed', 'payout.failed'],
    enabled: true,
    disabled_reason: null,
    failing_since: null,
    created_at: expect.stringMatching(/Z$/),
  })
  expect((await client.get(`${base}/${endpoint.id}`)).body).toEqual(endpoint)
  expect((await client.get(base)).body).toEqual({webhook_endpoints: [endpoint]})
  expect((await create()).secret).not.toBe(secret)
})

test('deposit.reorged goes only to endpoints that subscribe to it; duplicate types are stored once', async () => {
  const event_types = ['deposit.reorged', 'deposit.pending', 'deposit.reorged']
  expect((await create({event_types})).event_types).toEqual(['deposit.reorged', 'deposit.pending'])
  for (const refused of [[], ['deposit.*'], ['webhook.test'], 'deposit.pending', [null]]) {
    const {status, body} = await client.post(base, {url: receiver.url, event_types: refused})
    expect([status, body.error]).toEqual([400, 'invalid_request'])
  }
})

test('the URL is http or https, without a user name; only https where private receivers are not allowed', async () => {
  const strict = await startApi(db, {webhookAllowPrivate: false})
  try {
    const strictClient = new Client(strict, (await makeKey(db, await makeMerchant(db))).secret)
    for (const url of [
      'ftp://example.com/',
      'example.com',
      '//example.com',
      'javascript:alert(1)',
      'file:///etc/passwd',
      'http://',
      'https://user@example.com/',
      'https://user:pass@example.com/',
      'https://:@example.com',
      'https://exa mple.com/',
      'https://example.com/\n',
      'https://example.com\\@evil.com',
      'https://[::1',
      'https://example.com:99999/',
      `https://example.com/${'x'.repeat(2048)}`,
      '',
      7,
      null,
    ])
      for (const each of [client, strictClient]) {
        const {status, body} = await each.post(base, {url})
        expect([status, body.error, body.details[0].path], String(url)).toEqual([400, 'invalid_request', 'url'])
      }
    for (const url of ['https://example.com', 'HTTPS://example.com:8443/a@b?c=d@e#f', 'https://münchen.example/'])
      expect((await strictClient.post(base, {url})).body.url).toBe(url)
    for (const host of [
      '127.0.0.1',
      '10.0.0.1',
      '169.254.169.254',
      '0x7f.1',
      '2130706433',
      '[::1]',
      '[::ffff:10.0.0.1]',
      '[fd00::1]',
    ]) {
      const url = `https://${host}:8443/hook`
      const created = await strictClient.post(base, {url})
      expect([created.status, created.body.details[0]], url).toEqual([
        400,
        {path: 'url', code: 'custom', message: 'must lead to an address of the public internet'},
      ])
      expect((await strictClient.patch(`${base}/whe_${'0'.repeat(32)}`, {url})).status).toBe(400)
    }
    expect((await create({url: 'https://10.0.0.1/'})).url).toBe('https://10.0.0.1/')
    const literal = await strictClient.post(base, {url: 'https://1.1.1.1/'})
    expect(literal.status).toBe(201)
    const plain = await strictClient.post(base, {url: 'http://example.com/'})
    expect([plain.status, plain.body.details[0].message]).toEqual([400, 'must be https'])
    expect((await client.post(base, {url: 'http://127.0.0.1:1/'})).status).toBe(201)
  } finally {
    await strict.close()
  }
})

test('an account has at most five endpoints, however many are created at once; deleting one makes room', async () => {
  await Promise.all(Array.from({length: 30}, (_, n) => client.get(`/v1/users?limit=${n + 1}`))) // opens all connections of the pool
  const replies = await Promise.all(Array.from({length: 12}, () => client.post(base, {url: receiver.url})))
  expect(replies.filter(({status}) => status === 201)).toHaveLength(5)
  const refused = replies.filter(({status}) => status !== 201)
  expect(new Set(refused.map(({status, body}) => `${status} ${body.error}`))).toEqual(new Set(['422 unprocessable']))
  const {webhook_endpoints: endpoints} = (await client.get(base)).body
  expect(endpoints).toHaveLength(5)
  expect((await client.delete(`${base}/${endpoints[0].id}`)).status).toBe(204)
  expect((await client.post(base, {url: receiver.url})).status).toBe(201)
})

test('PATCH changes what it names, and nothing else', async () => {
  const {secret: _, ...endpoint} = await create()
  const path = `${base}/${endpoint.id}`
  expect((await client.patch(path, {})).body).toEqual(endpoint)
  const url = 'https://example.com/elsewhere'
  expect((await client.patch(path, {url})).body).toEqual({...endpoint, url})
  const event_types = ['deposit.confirmed']
  expect((await client.patch(path, {event_types})).body).toEqual({...endpoint, url, event_types})
  const disabled = {...endpoint, url, event_types, enabled: false, disabled_reason: 'merchant'}
  expect((await client.patch(path, {enabled: false})).body).toEqual(disabled)
  expect((await client.patch(path, {enabled: false})).body).toEqual(disabled)
  expect((await client.patch(path, {enabled: true})).body).toEqual({...endpoint, url, event_types})
  for (const fields of [{url: 'nonsense'}, {event_types: []}, {enabled: 'yes'}, {enabled: null}, {url: null}, [], null])
    expect((await client.patch(path, fields)).status).toBe(400)
  expect((await client.get(path)).body).toEqual({...endpoint, url, event_types})
})

test('a deleted endpoint is gone, and receives nothing more', async () => {
  receiver.response = (_request, response) => response.writeHead(500).end()
  const endpoint = await create()
  const path = `${base}/${endpoint.id}`
  const {body: sent} = await client.post(`${path}/test`)
  await until(async () => received().length === 1, {timeoutMs: 5000, what: 'the first attempt'})
  expect((await client.delete(path)).status).toBe(204)
  for (const [method, suffix, body] of [
    ['GET', ''],
    ['PATCH', '', {}],
    ['DELETE', ''],
    ['POST', '/rotate-secret'],
    ['POST', '/test'],
    ['GET', '/deliveries'],
    ['POST', `/deliveries/${sent.id}/redeliver`],
    ['POST', '/redeliver-failed', {since: '2020-01-01T00:00:00Z'}],
  ] as const) {
    const reply = await client.call(method, path + suffix, body)
    expect([reply.status, reply.body.error], suffix).toEqual([404, 'webhook_endpoint_not_found'])
  }
  expect((await client.get(base)).body.webhook_endpoints).toEqual([])
  await until(async () => (await db.rows(`select from app.delivery where status = 'pending'`)).length === 0, {
    timeoutMs: 5000,
    what: 'its deliveries to be given up',
  })
})

test('a test of each type is signed and delivered like an event, recorded with its attempts, marked as a test, and in no list', async () => {
  const endpoint = await create()
  const types = [
    undefined,
    'deposit.pending',
    'deposit.confirmed',
    'deposit.reorged',
    'payout.completed',
    'payout.failed',
  ]
  for (const type of types) {
    const sent = await client.post(`${base}/${endpoint.id}/test`, type && {type})
    expect(sent.status).toBe(201)
    expect(sent.body).toMatchObject({event_type: type ?? 'deposit.confirmed'})
    expect(sent.body.event_id).toMatch(/^evt_test_[0-9a-f]{32}$/)
    expect(await delivery(endpoint.id, 'delivered')).toMatchObject({
      id: sent.body.id,
      event_id: sent.body.event_id,
      next_attempt_at: null,
      finished_at: expect.stringMatching(/Z$/),
      attempts: [{response_status: 204, error: null, duration_ms: expect.any(Number)}],
    })
    const last = received().at(-1)!
    expect(last.headers['webhook-id']).toBe(sent.body.event_id)
    const event = verify(last, endpoint.secret)
    expect(event).toMatchObject({type: type ?? 'deposit.confirmed', id: sent.body.event_id, test: true})
    const schema = documentOf(api.app).components.schemas[eventNames[event.type as keyof typeof eventNames]]!
    expect(Object.keys(event).sort()).toEqual(Object.keys(schema.properties!).sort())
    expect((await client.get('/v1/events')).body.events).toEqual([])
    for (const id of [sent.body.event_id, sent.body.event_id.replace('evt_test_', 'evt_')])
      expect((await client.get(`/v1/events/${id}`)).status).toBe(404)
    expect((await client.get(`/v1/events?after=${sent.body.event_id}`)).body.events).toEqual([]) // whoever stored it reads on from there
  }
  const refused = await client.post(`${base}/${endpoint.id}/test`, {type: 'webhook.test'})
  expect([refused.status, refused.body.error]).toEqual([400, 'invalid_request'])
})

test('after a rotation both secrets sign, and the new one is shown once', async () => {
  const endpoint = await create()
  const rotated = await client.post(`${base}/${endpoint.id}/rotate-secret`)
  expect(rotated.status).toBe(200)
  const {secret, ...rest} = rotated.body
  expect(secret).not.toBe(endpoint.secret)
  expect((await client.get(`${base}/${endpoint.id}`)).body).toEqual(rest)
  await client.post(`${base}/${endpoint.id}/test`)
  await delivery(endpoint.id, 'delivered')
  for (const each of [secret, endpoint.secret]) verify(received()[0]!, each)
  await db.rows(`update app.webhook_endpoint set previous_secret_expires_at = now() where secret = $1`, [secret])
  const before = received().length
  await client.post(`${base}/${endpoint.id}/test`)
  await until(async () => received().length > before, {timeoutMs: 5000, what: 'the second test event'})
  const last = received().at(-1)!
  verify(last, secret)
  expect(() => verify(last, endpoint.secret)).toThrow()
})

test('redeliver sends an event again, with the same id', async () => {
  const endpoint = await create()
  await client.post(`${base}/${endpoint.id}/test`)
  const {id} = await delivery(endpoint.id, 'delivered')
  const again = await client.post(`${base}/${endpoint.id}/deliveries/${id}/redeliver`)
  expect([again.status, again.body.id]).toEqual([200, id])
  await until(async () => received().length === 2, {timeoutMs: 5000, what: 'the event to come again'})
  expect(received()[1]!.headers['webhook-id']).toBe(received()[0]!.headers['webhook-id'])
  const delivered = await until(
    async () => {
      const found = await delivery(endpoint.id, 'delivered')
      return found.attempts.length === 2 && found
    },
    {timeoutMs: 5000, what: 'both attempts to be recorded'},
  )
  expect(delivered.attempts).toMatchObject([{response_status: 204}, {response_status: 204}])
  for (const bad of ['x', id.replace('dlv', 'evt'), `dlv_${'0'.repeat(32)}`]) {
    const {status, body} = await client.post(`${base}/${endpoint.id}/deliveries/${bad}/redeliver`)
    expect([status, body.error]).toEqual([404, 'webhook_delivery_not_found'])
  }
})

test('redeliver-failed sends everything again that failed since a time, once the endpoint is enabled again', async () => {
  receiver.response = (_request, response) => response.writeHead(410).end()
  const endpoint = await create()
  const path = `${base}/${endpoint.id}`
  await client.post(`${path}/test`)
  const failed = await until(
    async () => {
      const {body} = await client.get(`${path}/deliveries`)
      return body.deliveries[0]?.attempts.length && body.deliveries[0]
    },
    {timeoutMs: 5000, what: 'the first 410'},
  )
  expect(failed.attempts).toMatchObject([{response_status: 410, error: expect.any(String)}])
  await db.rows(
    `update app.webhook_endpoint set gone_since = gone_since - interval '1 minute' where gone_since is not null`,
  )
  await client.post(`${path}/test`)
  const isFailed = async () => (await client.get(`${path}/deliveries?status=failed`)).body.deliveries.length === 2
  await until(isFailed, {timeoutMs: 5000, what: 'both to fail'})
  expect((await client.get(path)).body).toMatchObject({enabled: false, disabled_reason: 'gone'})

  receiver.response = (_request, response) => response.writeHead(204).end()
  const since = failed.created_at
  for (const [suffix, body] of [
    ['/redeliver-failed', {since}],
    [`/deliveries/${failed.id}/redeliver`, undefined],
    ['/test', undefined],
  ] as const) {
    const refused = await client.post(path + suffix, body)
    expect([refused.status, refused.body.error]).toEqual([422, 'unprocessable'])
  }
  await client.patch(path, {enabled: true})
  const later = new Date(Date.parse(since) + 1000).toISOString()
  expect((await client.post(`${path}/redeliver-failed`, {since: later})).body).toEqual({count: 0})
  expect((await client.post(`${path}/redeliver-failed`, {since})).body).toEqual({count: 2})
  await delivery(endpoint.id, 'delivered')
  expect((await client.post(`${path}/redeliver-failed`, {since})).body).toEqual({count: 0})
  for (const bad of ['yesterday', '2026-13-01T00:00:00Z', 7, null, undefined])
    expect((await client.post(`${path}/redeliver-failed`, {since: bad})).status).toBe(400)
  for (const odd of ['0000-01-01T00:00:00Z', '9999-12-31T23:59:59.999Z', '2026-01-01T00:00:00+14:00'])
    expect((await client.post(`${path}/redeliver-failed`, {since: odd})).status).toBe(200)
})

test('disabling an endpoint gives up its pending deliveries', async () => {
  receiver.response = (_request, response) => response.writeHead(500).end()
  const endpoint = await create()
  await client.post(`${base}/${endpoint.id}/test`)
  await until(async () => (await delivery(endpoint.id, 'pending')).attempts.length === 1, {
    timeoutMs: 5000,
    what: 'the first attempt to fail',
  })
  expect((await client.get(`${base}/${endpoint.id}`)).body.failing_since).toMatch(/Z$/)
  await client.patch(`${base}/${endpoint.id}`, {enabled: false})
  expect(await delivery(endpoint.id, 'failed')).toMatchObject({next_attempt_at: null})
})

test('deliveries are listed in pages, newest first, filtered by status', async () => {
  const endpoint = await create()
  const path = `${base}/${endpoint.id}/deliveries`
  for (let n = 0; n < 5; n++) await client.post(`${base}/${endpoint.id}/test`)
  const all = await until(
    async () => {
      const {deliveries} = (await client.get(`${path}?status=delivered`)).body
      return deliveries.length === 5 && deliveries
    },
    {timeoutMs: 5000, what: 'five deliveries'},
  )
  const times = all.map((each: {created_at: string}) => each.created_at)
  expect(times).toEqual(times.toSorted().reverse())
  expect(await client.all(path, 'deliveries', 2)).toEqual(all)
  expect(await client.all(`${path}?status=delivered`, 'deliveries', 1)).toEqual(all)
  expect(await client.all(`${path}?status=failed`, 'deliveries', 1)).toEqual([])
  expect(await client.all(`${path}?status=pending`, 'deliveries', 1)).toEqual([])
  const {next_cursor} = (await client.get(`${path}?limit=1`)).body
  for (const query of ['status=unknown', 'limit=0', 'cursor=x', `status=failed&cursor=${next_cursor}`])
    expect((await client.get(`${path}?${query}`)).status).toBe(400)
})
