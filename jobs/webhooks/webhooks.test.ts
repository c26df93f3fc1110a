// Webhooks from the commit of an event to the merchant's receiver, on the real parts: Postgres, graphile-worker, HTTP.
import type {ServerResponse} from 'node:http'
import {Webhook} from 'standardwebhooks'
import {afterAll, afterEach, beforeAll, beforeEach, expect, test} from 'vitest'
import {logger} from '../../base/log.ts'
import {readSettings} from '../../chains/settings.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {endsOf} from '../../test/support/ends.ts'
import {until} from '../../test/support/until.ts'
import {
  createEndpoint,
  createMerchant,
  deposit,
  type Merchant,
  newSecret,
  type Receiver,
  startReceiver,
} from '../../test/support/webhooks.ts'
import {startWorker, type Worker} from '../worker.ts'

let db: TestDatabase
let worker: Worker
let receiver: Receiver
let merchant: Merchant

const log = logger('jobs').child({}, {level: 'silent'})

const start = () =>
  startWorker({
    databaseUrl: db.url('sluice_jobs'),
    settings: {...readSettings({}), webhookAllowPrivate: true},
    log,
    ends: endsOf(log),
  })

beforeAll(async () => {
  db = await testDatabase()
  worker = await start()
})
afterAll(async () => {
  await worker?.stop()
  await db?.drop()
})
beforeEach(async () => {
  receiver = await startReceiver()
  merchant = await createMerchant(db.pool)
})
afterEach(() => receiver.close())

interface Delivery {
  id: string
  status: string
  attempts: number
  /** Milliseconds from the end of its last attempt to the next attempt. */
  wait_ms: number | null
  finished_at: Date | null
  tries: {response_status: number | null; error: string | null}[]
}

const deliveries = (endpoint: string) =>
  db.rows<Delivery>(
    `select d.id, d.status, d.attempts, d.finished_at,
       (select extract(epoch from d.next_attempt_at - max(a.attempted_at + a.duration_ms * interval '1 ms'))::float8 * 1000
        from app.delivery_attempt a where a.delivery_id = d.id) as wait_ms,
       coalesce((select json_agg(json_build_object('response_status', response_status, 'error', error) order by a.id)
        from app.delivery_attempt a where a.delivery_id = d.id), '[]') as tries
     from app.delivery d where d.endpoint_id = $1 order by d.id`,
    [endpoint],
  )

const settled = (endpoint: string, isSettled: (deliveries: Delivery[]) => boolean, what: string) =>
  until(
    async () => {
      const rows = await deliveries(endpoint)
      return isSettled(rows) && rows
    },
    {timeoutMs: 10_000, what},
  )
const delivered = (endpoint: string) =>
  settled(endpoint, rows => rows.length > 0 && rows.every(row => row.status === 'delivered'), 'all to be delivered')
const arrived = (count: number) =>
  until(async () => receiver.received.length >= count, {timeoutMs: 10_000, what: `${count} webhooks to arrive`})
const endpointRow = async (endpoint: string) =>
  (await db.rows(`select * from app.webhook_endpoint where id = $1`, [endpoint]))[0]!
const respondWith =
  (status: number, headers = {}) =>
  (_request: unknown, response: ServerResponse) =>
    void response.writeHead(status, headers).end()

test('an event arrives signed, with its public id and the body of GET /v1/events', async () => {
  const secret = newSecret()
  const endpoint = await createEndpoint(db.pool, merchant, {url: `${receiver.url}/hook?a=b`, secret})
  const [txid] = await deposit(db.pool, merchant)
  const [delivery] = await delivered(endpoint)
  expect(delivery).toMatchObject({attempts: 1, wait_ms: null, finished_at: expect.any(Date)})
  expect(delivery!.tries).toEqual([{response_status: 204, error: null}])
  expect(receiver.received).toHaveLength(1)
  const {path, headers, body, event} = receiver.received[0]!
  expect(path).toBe('/hook?a=b')
  expect(new Webhook(secret).verify(body, headers as Record<string, string>)).toMatchObject({
    type: 'deposit.pending',
    txid,
  })
  expect(headers).toMatchObject({
    'webhook-id': event.id,
    'content-type': 'application/json',
    'user-agent': expect.stringMatching(/^Sluice\/\d+\.\d+\.\d+$/),
  })
  expect(event.id).toMatch(/^evt_[0-9a-f]{32}$/)
  const [shown] = await db.rows(
    `select app.event_body(payload, sequence) as body, type from app.event where app.public_id('evt', id) = $1`,
    [event.id],
  )
  expect(shown).toEqual({body, type: 'deposit.pending'})
})

test('during a rotation both secrets sign, and the previous one stops when it expires', async () => {
  const [previous, present] = [newSecret(), newSecret()]
  const endpoint = await createEndpoint(db.pool, merchant, {url: receiver.url, secret: present})
  const rotate = (expires: string) =>
    db.pool.query(
      `update app.webhook_endpoint set previous_secret = $2, previous_secret_expires_at = now() + $3::interval where id = $1`,
      [endpoint, previous, expires],
    )
  await rotate('1 hour')
  await deposit(db.pool, merchant)
  await arrived(1)
  await rotate('-1 second')
  await deposit(db.pool, merchant)
  await arrived(2)
  const [during, after] = receiver.received.map(({body, headers}) => (secret: string) => {
    new Webhook(secret).verify(body, headers as Record<string, string>)
  })
  during!(previous)
  during!(present)
  after!(present)
  expect(() => after!(previous)).toThrow()
})

test('a failing delivery is tried ten times, after the waits of the schedule, and is then failed', async () => {
  receiver.response = respondWith(500)
  const endpoint = await createEndpoint(db.pool, merchant, {url: receiver.url})
  await deposit(db.pool, merchant)
  for (const [i, wait] of [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400].entries()) {
    const [delivery] = await settled(endpoint, ([row]) => row?.attempts === i + 1, `attempt ${i + 1}`)
    expect(delivery).toMatchObject({status: 'pending', finished_at: null})
    expect(delivery!.wait_ms).toBeGreaterThanOrEqual(wait * 1000 - 1)
    expect(delivery!.wait_ms).toBeLessThan(wait * 1100 + 1000)
    await db.pool.query('update app.delivery set next_attempt_at = now() where endpoint_id = $1', [endpoint])
    await db.pool.query(`notify webhooks_due`)
  }
  const [delivery] = await settled(endpoint, ([row]) => row?.status === 'failed', 'the last attempt')
  expect(delivery).toMatchObject({attempts: 10, wait_ms: null, finished_at: expect.any(Date)})
  expect(delivery!.tries).toEqual(Array(10).fill({response_status: 500, error: 'answered 500'}))
  const ids = new Set(receiver.received.map(({headers}) => headers['webhook-id']))
  expect([receiver.received.length, ids.size]).toEqual([10, 1])
})

test('a due retry is sent automatically, with a fresh timestamp', async () => {
  receiver.response = respondWith(503)
  const secret = newSecret()
  const endpoint = await createEndpoint(db.pool, merchant, {url: receiver.url, secret})
  await deposit(db.pool, merchant)
  await settled(endpoint, ([row]) => row?.attempts === 1, 'the first attempt')
  receiver.response = respondWith(200)
  await db.pool.query(`update app.delivery set next_attempt_at = now() + interval '1 second' where endpoint_id = $1`, [
    endpoint,
  ])
  await delivered(endpoint)
  const [first, second] = receiver.received
  expect(Number(second!.headers['webhook-timestamp'])).toBeGreaterThan(Number(first!.headers['webhook-timestamp']))
  new Webhook(secret).verify(second!.body, second!.headers as Record<string, string>)
})

test('Retry-After makes the next attempt later', async () => {
  receiver.response = respondWith(429, {'retry-after': '600'})
  const endpoint = await createEndpoint(db.pool, merchant, {url: receiver.url})
  await deposit(db.pool, merchant)
  const [delivery] = await settled(endpoint, ([row]) => row?.attempts === 1, 'the attempt')
  expect(delivery!.wait_ms).toBeGreaterThanOrEqual(599_999)
  expect(delivery!.wait_ms).toBeLessThan(602_000)
})

test('a receiver that cannot be reached makes a failed attempt with the reason', async () => {
  const endpoint = await createEndpoint(db.pool, merchant, {url: 'http://127.0.0.1:1/'})
  await deposit(db.pool, merchant)
  const [delivery] = await settled(endpoint, ([row]) => row?.attempts === 1, 'the attempt')
  expect(delivery!.tries).toEqual([{response_status: null, error: expect.stringContaining('ECONNREFUSED')}])
})

/** As if an endpoint had answered 410 first at another time. */
const goneFor = (endpoint: string, interval: string) =>
  db.pool.query(`update app.webhook_endpoint set gone_since = gone_since - $2::interval where id = $1`, [
    endpoint,
    interval,
  ])

test('one 410 among other answers does not disable an endpoint: only nothing but 410 for a minute does', async () => {
  receiver.response = respondWith(410)
  const endpoint = await createEndpoint(db.pool, merchant, {url: receiver.url})
  const next = async (response: typeof receiver.response, count: number) => {
    receiver.response = response
    await deposit(db.pool, merchant)
    await settled(endpoint, rows => rows.filter(row => row.attempts === 1).length === count, `${count} attempts`)
    return await endpointRow(endpoint)
  }
  expect(await next(respondWith(410), 1)).toMatchObject({disabled_at: null, gone_since: expect.any(Date)})
  await goneFor(endpoint, '59 seconds')
  expect(await next(respondWith(200), 2)).toMatchObject({disabled_at: null, gone_since: null})
  expect(await next(respondWith(410), 3)).toMatchObject({disabled_at: null, gone_since: expect.any(Date)})
  await goneFor(endpoint, '10 minutes')
  expect(await next(respondWith(500), 4)).toMatchObject({disabled_at: null, gone_since: null})
  expect(await next(respondWith(410), 5)).toMatchObject({disabled_at: null, gone_since: expect.any(Date)})
})

test('an endpoint that answers nothing but 410 for a minute is disabled: what is pending or comes later fails until it is redelivered, and the others are told', async () => {
  receiver.response = respondWith(500)
  const endpoint = await createEndpoint(db.pool, merchant, {url: receiver.url})
  const other = await createEndpoint(db.pool, merchant, {url: receiver.url, types: ['webhook_endpoint.disabled']})
  await deposit(db.pool, merchant, 2)
  await settled(endpoint, rows => rows.length === 2 && rows.every(row => row.attempts === 1), 'two failures')
  receiver.response = respondWith(410)
  await deposit(db.pool, merchant)
  await settled(endpoint, rows => rows.length === 3 && rows.every(row => row.attempts === 1), 'the first 410')
  await goneFor(endpoint, '1 minute')
  await deposit(db.pool, merchant)
  await settled(endpoint, rows => rows.length === 4 && rows.every(row => row.status === 'failed'), 'all to fail')
  expect(await endpointRow(endpoint)).toMatchObject({
    disabled_at: expect.any(Date),
    disabled_reason: 'gone',
    failing_since: null,
    gone_since: null,
  })
  const [told] = await settled(other, ([row]) => row?.attempts === 1, 'the other endpoint to be told')
  const {rows: events} = await db.pool.query(
    'select e.type, e.payload from app.event e join app.delivery d on d.event_id = e.id where d.id = $1',
    [told!.id],
  )
  expect(events).toMatchObject([
    {
      type: 'webhook_endpoint.disabled',
      payload: {
        webhook_endpoint_id: `whe_${endpoint.replaceAll('-', '')}`,
        url: receiver.url,
        reason: 'gone',
      },
    },
  ])
  await deposit(db.pool, merchant)
  expect((await deliveries(endpoint)).map(row => [row.status, row.attempts])).toEqual([
    ['failed', 1],
    ['failed', 1],
    ['failed', 1],
    ['failed', 1],
    ['failed', 0],
  ])

  receiver.response = respondWith(200)
  await db.pool.query('update app.webhook_endpoint set disabled_at = null, disabled_reason = null where id = $1', [
    endpoint,
  ])
  await db.pool.query(
    `update app.delivery set status = 'pending', attempts = 0, next_attempt_at = now(), finished_at = null where endpoint_id = $1`,
    [endpoint],
  )
  await db.pool.query(`select app.enqueue('sequence_events')`)
  await delivered(endpoint)
})

test('an endpoint that fails for five days is disabled; a success before that restarts the count', async () => {
  receiver.response = respondWith(500)
  const endpoint = await createEndpoint(db.pool, merchant, {url: receiver.url})
  const failOnce = async (attempts: number) => {
    await deposit(db.pool, merchant)
    await settled(endpoint, rows => rows.filter(row => row.attempts === 1).length === attempts, `${attempts} attempts`)
    return (await endpointRow(endpoint)).failing_since as Date | null
  }
  const age = (interval: string) =>
    db.pool.query('update app.webhook_endpoint set failing_since = now() - $2::interval where id = $1', [
      endpoint,
      interval,
    ])

  expect(Date.now() - (await failOnce(1))!.getTime()).toBeLessThan(10_000)
  await age('4 days 23 hours')
  expect(Date.now() - (await failOnce(2))!.getTime()).toBeGreaterThan(4 * 86_400_000)
  receiver.response = respondWith(200)
  expect(await failOnce(3)).toBeNull()
  receiver.response = respondWith(500)
  expect(await failOnce(4)).not.toBeNull()
  await age('5 days 1 second')
  await failOnce(5)
  expect(await endpointRow(endpoint)).toMatchObject({disabled_reason: 'failing', failing_since: null})
  await settled(endpoint, rows => rows.filter(row => row.status === 'failed').length === 4, 'what is pending to fail')
})

test('pending deliveries of a deleted endpoint are not sent, and fail', async () => {
  receiver.response = respondWith(500)
  const endpoint = await createEndpoint(db.pool, merchant, {url: receiver.url})
  await deposit(db.pool, merchant, 2)
  await settled(endpoint, rows => rows.length === 2 && rows.every(row => row.attempts === 1), 'two failures')
  await db.pool.query('update app.webhook_endpoint set deleted_at = now() where id = $1', [endpoint])
  await settled(endpoint, rows => rows.every(row => row.status === 'failed'), 'both to fail')
  expect(receiver.received).toHaveLength(2)
})

test('a result that comes late changes nothing of a delivery that has ended', async () => {
  const endpoint = await createEndpoint(db.pool, merchant, receiver)
  await deposit(db.pool, merchant)
  const [{id}] = (await delivered(endpoint)) as [Delivery]
  const late = [endpoint, [id], [1], [0], [1], [500], ['late'], [60_000]]
  await db.rows('select app.record_attempts($1, $2, $3, $4, $5, $6, $7, $8)', late)
  expect(await deliveries(endpoint)).toMatchObject([{status: 'delivered', attempts: 1}])
})

test('what was sent is not sent again because its result cannot be stored at the moment', async () => {
  const endpoint = await createEndpoint(db.pool, merchant, receiver)
  await db.rows('revoke execute on function app.record_attempts from sluice_jobs')
  await deposit(db.pool, merchant)
  await arrived(1)
  await deposit(db.pool, merchant) // wakes the worker
  await arrived(2)
  await db.rows('grant execute on function app.record_attempts to sluice_jobs')
  expect(await delivered(endpoint)).toMatchObject([{attempts: 1}, {attempts: 1}])
  expect(receiver.received).toHaveLength(2)
})

test('an attempt that the end of the worker cuts off does not count', async () => {
  const endpoint = await createEndpoint(db.pool, merchant, receiver)
  receiver.response = () => {}
  await deposit(db.pool, merchant)
  await arrived(1)
  await worker.stop()
  expect(await deliveries(endpoint)).toMatchObject([{status: 'pending', attempts: 0, tries: []}])
  receiver.response = respondWith(204)
  worker = await start()
  expect(await delivered(endpoint)).toMatchObject([{attempts: 1}])
})

test('an endpoint that hangs has 50 requests in flight, and delays no other endpoint, even on the same server', async () => {
  const hanging: ServerResponse[] = []
  receiver.response = ({path}, response) => {
    if (path === '/hangs') hanging.push(response)
    else response.writeHead(204).end()
  }
  const hangs = await createEndpoint(db.pool, merchant, {url: `${receiver.url}/hangs`})
  await deposit(db.pool, merchant, 120)
  await until(async () => hanging.length === 50, {timeoutMs: 10_000, what: '50 requests in flight'})
  const works = await createEndpoint(db.pool, merchant, {url: `${receiver.url}/works`})
  await deposit(db.pool, merchant, 60)
  await delivered(works)
  expect(hanging).toHaveLength(50)
  expect((await deliveries(hangs)).map(({status, attempts}) => `${status} ${attempts}`)).toEqual(
    Array(180).fill('pending 0'),
  )

  for (const response of hanging) response.end()
  receiver.response = respondWith(204)
  await delivered(hangs)
  expect(new Set(receiver.received.map(({path, event}) => path + event.id)).size).toBe(receiver.received.length)
})

test('a transaction that stays open delays no other event; its own get higher numbers when it commits', async () => {
  const endpoint = await createEndpoint(db.pool, merchant, {url: receiver.url})
  const older = await db.pool.connect()
  try {
    await older.query('begin')
    const [late] = await deposit(older, merchant)
    const [early] = await deposit(db.pool, merchant)
    expect(await delivered(endpoint)).toHaveLength(1)
    await older.query('commit')
    await until(async () => receiver.received.length === 2, {timeoutMs: 5000, what: 'the second webhook'})
    expect(receiver.received.map(({event}) => event.txid)).toEqual([early, late])
    const [first, second] = receiver.received.map(({event}) => event.sequence)
    expect(second).toBeGreaterThan(first!)
  } finally {
    older.release(true)
  }
})

test('no event number below a visible one appears later, however transactions overlap', async () => {
  const merchants = await Promise.all(Array.from({length: 4}, () => createMerchant(db.pool)))
  let isOver = false
  const seen: number[] = []
  const observe = async () => {
    let max = 0
    const known = new Set<number>()
    const [{start}] = (await db.rows<{start: string}>('select coalesce(max(sequence), 0) as start from app.event')) as [
      {start: string},
    ]
    for (let isLast = false; !isLast; ) {
      isLast = isOver
      const rows = await db.rows<{sequence: string}>(
        'select sequence from app.event where sequence > $1 order by sequence',
        [start],
      )
      const fresh = rows.map(row => Number(row.sequence)).filter(n => !known.has(n))
      for (const n of fresh) expect(n).toBeGreaterThan(max)
      for (const n of fresh) known.add(n)
      max = Math.max(max, ...fresh)
      seen.push(...fresh)
    }
  }
  const write = async (writer: Merchant) => {
    const client = await db.pool.connect()
    try {
      for (let i = 0; i < 15; i++) {
        await client.query('begin')
        await client.query('select pg_current_xact_id()')
        await client.query('select pg_sleep(random() * 0.03)') // the transactions overlap in every order
        await deposit(client, writer, 2)
        await client.query('commit')
      }
    } finally {
      client.release()
    }
  }
  const observing = observe()
  await Promise.all(merchants.map(write))
  await until(async () => (await db.rows('select from app.event where sequence is null')).length === 0, {
    timeoutMs: 5000,
    what: 'all events to be numbered',
  })
  isOver = true
  await observing
  expect(seen).toHaveLength(4 * 15 * 2)
})

test('events restored without a number get one, in the order in which they were inserted', async () => {
  await db.pool.query(
    `insert into app.event (id, merchant_id, type, subject_id, version, payload, created_at)
     select uuidv7(), $1, 'deposit.pending', $1, n, '{"type" : "deposit.pending"}', now() from generate_series(101, 103) n`,
    [merchant.id],
  )
  const numbered = () =>
    db.rows<{sequence: string | null}>('select sequence from app.event where subject_id = $1 order by version', [
      merchant.id,
    ])
  await until(async () => (await numbered()).every(({sequence}) => sequence !== null), {
    timeoutMs: 5000,
    what: 'them to be numbered',
  })
  const numbers = (await numbered()).map(({sequence}) => Number(sequence))
  expect(numbers).toEqual([...numbers].sort((x, y) => x - y))
})

test('two workers deliver each event once to each endpoint', async () => {
  const second = await start()
  try {
    const endpoints = await Promise.all(
      Array.from({length: 4}, (_, i) => createEndpoint(db.pool, merchant, {url: `${receiver.url}/${i}`})),
    )
    const txids: string[] = []
    for (let i = 0; i < 40; i++) txids.push(...(await deposit(db.pool, merchant, 5)))
    for (const endpoint of endpoints) expect(await delivered(endpoint)).toHaveLength(200)
    const arrivals = receiver.received.map(({path, event}) => path + event.txid).sort()
    expect(arrivals).toEqual(endpoints.flatMap((_, i) => txids.map(txid => `/${i}${txid}`)).sort())
  } finally {
    await second.stop()
  }
})

test('the tick folds balances and deletes jobs that failed for good', async () => {
  await db.pool.query(
    `insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) select $1, 'ETH', 'ETH', 5, 1 from generate_series(1, 3)`,
    [merchant.id],
  )
  const folded = () => db.rows('select amount, deposit_count from app.balance where merchant_id = $1', [merchant.id])
  await until(async () => (await folded()).length > 0, {timeoutMs: 5000, what: 'the fold'})
  expect(await folded()).toEqual([{amount: '15', deposit_count: '3'}])
  expect(await db.rows('select from app.balance_delta where merchant_id = $1', [merchant.id])).toHaveLength(0)

  await db.pool.query(`set role sluice_jobs; select graphile_worker.add_job('nobody', max_attempts := 1); reset role`)
  await db.pool.query('update graphile_worker._private_jobs set attempts = max_attempts')
  const next = await start() // cleaning is a part that runs at once, and then each minute
  await until(async () => (await db.rows('select from graphile_worker._private_jobs')).length === 0, {
    timeoutMs: 5000,
    what: 'the job to be deleted',
  })
  await next.stop()
})
