// The client library against the service itself: every operation has its method, lists are read to their end, and a
// server that refuses, dies or loses an answer makes nothing happen twice.
import http from 'node:http'
import type {AddressInfo} from 'node:net'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {documentOf} from '../api/openapi.ts'
import {type Api, fillPool, makeKey, startApi} from '../test/support/api.ts'
import {Money} from '../test/support/money.ts'
import {makeUser, type TestUser} from '../test/support/people.ts'
import {
  Amount,
  AuthenticationError,
  beforeAllEvents,
  ConnectionError,
  type Event,
  InvalidRequestError,
  NotFoundError,
  type Options,
  PermissionError,
  RateLimitError,
  ServerError,
  Sluice,
  UnprocessableError,
} from './index.ts'

let money: Money
let api: Api
let shop: TestUser
let apiKey: string
let sluice: Sluice

beforeAll(async () => {
  money = await Money.open()
  api = await startApi(money.db)
  shop = await money.merchant()
  apiKey = (await makeKey(money.db, shop.merchantId)).secret
  sluice = new Sluice({apiKey, baseUrl: api.url})
  await fillPool(money.db, 20)
})
afterAll(async () => {
  await api.close()
  await money.close()
})

/** A server before the service, which does to each request what the test says; `pass` sends it on. */
async function between(
  act: (
    request: http.IncomingMessage,
    response: http.ServerResponse,
    pass: () => Promise<void>,
  ) => Promise<void> | void,
  options: Partial<Options> = {},
): Promise<{client: Sluice; close(): void}> {
  const server = http.createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    await act(request, response, async () => {
      const {host: _host, connection: _connection, ...headers} = request.headers as Record<string, string>
      const body = request.method === 'GET' ? null : Buffer.concat(chunks)
      const answer = await fetch(api.url + request.url, {method: request.method!, headers, body})
      const text = await answer.text()
      if (!response.destroyed) response.writeHead(answer.status, {'content-type': 'application/json'}).end(text)
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const {port} = server.address() as AddressInfo
  const client = new Sluice({apiKey, baseUrl: `http://127.0.0.1:${port}`, ...options})
  return {client, close: () => void server.close().closeAllConnections()}
}

test('every operation of the API that needs a key has a method, and no method is of another', async () => {
  const called = new Set<string>()
  const recording = new Sluice({
    apiKey,
    baseUrl: 'http://service.example',
    fetch: async (url, init) => {
      called.add(`${init!.method!.toLowerCase()} ${new URL(url as string).pathname}`)
      const lists = [
        'users',
        'deposits',
        'payouts',
        'events',
        'deliveries',
        'lines',
        'data',
        'payout_addresses',
        'webhook_endpoints',
      ]
      const reply = Object.fromEntries(lists.map(name => [name, []]))
      return new Response(JSON.stringify({...reply, next_cursor: null, count: 0}))
    },
  })
  for (const resource of Object.values(recording))
    for (const [name, method] of Object.entries(resource))
      await use(method, name === 'redeliverFailed' ? '2026-01-01' : '{other}')
  async function use(method: unknown, second: string): Promise<void> {
    const result = (method as (...args: unknown[]) => unknown)('{id}', second)
    if (result instanceof Promise) await result.catch(() => {})
    else if (typeof result === 'object' && result !== null && 'page' in result)
      await (result as {page(): unknown}).page()
  }
  const operations = Object.entries(documentOf(api.app).paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, {security}]) => (security === undefined ? [`${method} ${path}`] : [])),
  )
  const names = (paths: Iterable<string>) =>
    [...paths].map(path => decodeURI(path).replaceAll(/\{\w+\}/g, '{}')).toSorted()
  expect(names(called)).toEqual(names(operations))
})

test('a user is made, changed and found, and a list is read to its end, whatever its pages', async () => {
  const user = await sluice.users.create({external_ref: 'sdk-1', metadata: {plan: 'gold'}})
  expect(await sluice.users.create({external_ref: 'sdk-1'})).toMatchObject({id: user.id})
  expect((await sluice.users.update(user.id, {metadata: {plan: 'silver'}})).metadata).toEqual({plan: 'silver'})
  for (let n = 0; n < 12; n++) await makeUser(money.db, shop.merchantId, [])
  const seen: string[] = []
  for await (const {id} of sluice.users.list({limit: 5})) seen.push(id)
  const {items, nextCursor} = await sluice.users.list({limit: 200}).page()
  expect([seen, nextCursor]).toEqual([items.map(({id}) => id), null])
  expect(seen.length).toBeGreaterThan(13)
  expect((await sluice.users.list({external_ref: 'sdk-1'}).page()).items.map(({id}) => id)).toEqual([user.id])
})

test('a thousand deposits are read, each once', async () => {
  const transfers = Array.from({length: 1000}, (_, n) => ({
    ...{txid: money.newTxid(), token: 'USDC', amount: BigInt(n + 1), recipient: shop.address},
  }))
  await money.block(transfers, [])
  await money.finalise()
  const seen = new Set<string>()
  for await (const {id, amount} of sluice.deposits.list({status: ['final', 'pending'], limit: 77})) {
    seen.add(id)
    expect(amount).toMatch(/^0\.\d+$/)
  }
  expect(seen.size).toBe(1000)
})

test('a statement, its lines and a past balance are read', async () => {
  const from = '2026-01-01T00:00:00Z'
  const to = new Date(Math.ceil(Date.now() / 900_000 + 1) * 900_000).toISOString()
  await money.deposit(shop.address, 5_000_000)
  const {statements} = await sluice.statements.get({from, to, chain: 'ETH', token: 'USDC'})
  const lines: string[] = []
  for await (const {amount} of sluice.statements.lines({from, to, token: 'USDC', limit: 3})) lines.push(amount)
  const sum = lines.reduce((sum, amount) => Amount.add(sum, amount), '0')
  expect([sum]).toEqual(statements.map(({closing_balance}) => closing_balance))
  expect((await sluice.balances.get({at: from})).balances).toEqual([])
})

test('what the service refuses is an error of its class, with code, details and the id of the request', async () => {
  const wrong = (client: Promise<unknown>) =>
    client.then(
      () => undefined,
      (error: unknown) => error,
    )
  const stranger = new Sluice({apiKey: 'sk_nobody', baseUrl: `${api.url}/`})
  expect(await wrong(stranger.balances.get())).toBeInstanceOf(AuthenticationError)
  const reader = new Sluice({apiKey: (await makeKey(money.db, shop.merchantId, ['read'])).secret, baseUrl: api.url})
  expect(await wrong(reader.payouts.create({chain: 'ETH', token: 'USDC'}))).toBeInstanceOf(PermissionError)
  const missing = await wrong(sluice.deposits.get('dep_nothing'))
  expect(missing).toBeInstanceOf(NotFoundError)
  expect(missing).toMatchObject({code: 'deposit_not_found', status: 404, requestId: expect.any(String)})
  const invalid = await wrong(sluice.users.create({external_ref: ''}))
  expect(invalid).toBeInstanceOf(InvalidRequestError)
  expect(invalid).toMatchObject({code: 'invalid_request', details: [{path: 'external_ref'}]})
  expect((invalid as Error).message).toContain('POST /v1/users: 400 invalid_request')
  const refused = await wrong(sluice.payouts.create({chain: 'ETH', token: 'ETH'}))
  expect(refused).toBeInstanceOf(UnprocessableError)
  expect(refused).toMatchObject({code: 'payout_failed', details: [expect.anything()]})
})

test('an answer that is lost is asked for again, and there is one payout', async () => {
  let lost = 0
  const dying = await between(async (request, response, pass) => {
    if (request.method === 'POST' && lost++ < 2) response.socket!.destroy() // the answer never arrives
    await pass()
  })
  try {
    const payout = await dying.client.payouts.create({chain: 'ETH', token: 'USDC'})
    const all = []
    for await (const {id} of sluice.payouts.list()) all.push(id)
    expect([lost, all]).toEqual([3, [payout.id]])
  } finally {
    dying.close()
  }
})

test('a change that would happen twice is not sent again', async () => {
  let sent = 0
  const {client, close} = await between((_request, response) => {
    sent++
    response.socket!.destroy()
  })
  try {
    await expect(client.webhookEndpoints.create({url: 'https://shop.example/hook'})).rejects.toThrow(ConnectionError)
    expect(sent).toBe(1)
  } finally {
    close()
  }
})

test('a storm of 429 is waited out as the service asks, and named when it does not end', async () => {
  let left = 3
  const {client, close} = await between(
    async (_request, response, pass) => {
      if (left-- <= 0) return await pass()
      response.writeHead(429, {'retry-after': '0'}).end('{"error":"rate_limited"}')
    },
    {retries: 4},
  )
  try {
    expect(await client.balances.get()).toMatchObject({fee_bps: 100})
    left = 100
    await expect(client.balances.get()).rejects.toThrow(RateLimitError)
    expect(left).toBe(95)
  } finally {
    close()
  }
})

test('a server that answers 5xx or nothing is tried again, and named in the end', async () => {
  const broken = await between((_request, response) => void response.writeHead(503, {'retry-after': '0'}).end('busy'), {
    retries: 1,
  })
  const silent = await between(() => {}, {retries: 0, timeoutMs: 50})
  try {
    const error = await broken.client.balances.get().catch(error => error)
    expect(error).toBeInstanceOf(ServerError)
    expect(error).toMatchObject({code: 'unexpected_answer', status: 503, requestId: null})
    await expect(silent.client.balances.get()).rejects.toThrow('GET /v1/balances: no whole answer: it took too long')
  } finally {
    broken.close()
    silent.close()
  }
})

test('events are followed from any of them, in order and none skipped, until the signal', {
  timeout: 30_000,
}, async () => {
  const happen = async () => {
    await money.deposit(shop.address, 5)
    await money.db.rows('select app.sequence_events()')
  }
  await happen()
  const over = new AbortController()
  const seen: Event[] = []
  const there = (await money.db.rows('select from app.event where sequence is not null')).length
  for await (const event of sluice.events.follow({after: beforeAllEvents, signal: over.signal, pauseMs: 20})) {
    seen.push(event)
    if (seen.length === there) await happen() // while it is waited for
    if (seen.length === there + 2) over.abort()
  }
  const sequences = seen.map(({sequence}) => sequence)
  expect(sequences).toEqual(sequences.toSorted((a, b) => a - b))
  expect(new Set(seen.map(({id}) => id)).size).toBe(seen.length)
  const {items} = await sluice.events.list({after: seen.at(-2)!.id}).page()
  expect(items.map(({id}) => id)).toEqual([seen.at(-1)!.id])
})

test('an answer that is not of the service is an error of this library, whatever it is', async () => {
  let text = '<html>not here</html>'
  const {client, close} = await between((_request, response) => void response.writeHead(200).end(text))
  try {
    for (text of ['<html>not here</html>', '', '{"half":'])
      await expect(client.balances.get()).rejects.toMatchObject({
        name: 'ServerError',
        code: 'unexpected_answer',
        status: 200,
      })
  } finally {
    close()
  }
})

test('an answer that breaks off is asked for again, and is an error of this library in the end', async () => {
  let cut = 2
  const {client, close} = await between(async (_request, response, pass) => {
    if (cut-- <= 0) return await pass()
    response.writeHead(200, {'content-length': 1000}).write('{"fee')
    setImmediate(() => response.socket!.destroy())
  })
  try {
    expect(await client.balances.get()).toMatchObject({fee_bps: 100})
    cut = 1
    const once = client.webhookEndpoints.create({url: 'https://shop.example/hook'})
    await expect(once).rejects.toThrow(ConnectionError) // it may have happened: it is not sent again
  } finally {
    close()
  }
})

test('whatever a refusal says, it is an error with a code', async () => {
  let said = ''
  const {client, close} = await between((_request, response) => void response.writeHead(422).end(said))
  try {
    for (said of ['null', '[]', '"no"', '{"error":{"a":1},"details":"x"}', ''])
      await expect(client.balances.get(), said).rejects.toMatchObject({code: 'unexpected_answer', details: []})
  } finally {
    close()
  }
})

test('a list that does not go on, or is none, is an error and no loop', async () => {
  let reply: object = {}
  const {client, close} = await between((_request, response) => void response.end(JSON.stringify(reply)))
  const all = async () => {
    for await (const _ of client.users.list());
  }
  try {
    reply = {users: [], next_cursor: 'x'}
    await expect(all()).rejects.toThrow('the list does not go on behind x')
    reply = {warnings: ['x'], data: [{}]}
    await expect(all()).rejects.toThrow('the answer has no list users')
    for (reply of [
      {warnings: ['x'], users: []},
      {users: [], next_cursor: ''},
    ])
      await all()
    reply = {events: [{id: 'evt_1'}], next_cursor: null}
    const follow = async (after: string) => {
      for await (const _ of client.events.follow({after, pauseMs: 1}));
    }
    await expect(follow('evt_0')).rejects.toThrow('does not go on behind an event')
    for (const after of [undefined, null, '', '5'] as string[])
      await expect(follow(after), after).rejects.toThrow('after must be the id of an event')
  } finally {
    close()
  }
})

test('a service that asks for a long pause is not waited for', async () => {
  let asked = 0
  const {client, close} = await between((_request, response) => {
    asked++
    response.writeHead(429, {'retry-after': '31536000'}).end('{"error":"rate_limited"}')
  })
  try {
    await expect(client.balances.get()).rejects.toThrow(RateLimitError)
    expect(asked).toBe(1)
  } finally {
    close()
  }
})

test('an id that leads to another path, and a key that no header can carry, are refused before anything is sent', async () => {
  let asked = 0
  const {client, close} = await between((_request, response) => {
    asked++
    response.writeHead(500).end()
  })
  try {
    for (const id of ['', '.', '..', undefined, null] as string[])
      expect(() => client.payouts.get(id), id).toThrow('is no id')
    const once = {idempotencyKey: 'a\r\nx-evil: 1'}
    for (const key of [once, {idempotencyKey: null as never}, {idempotencyKey: ''}])
      await expect(client.payouts.create({chain: 'ETH', token: 'USDC'}, key)).rejects.toThrow(
        'idempotencyKey must have',
      )
    expect(asked).toBe(0)
    for (const baseUrl of [
      'ftp://pay.example',
      'https://pay.example/?x=1',
      'https://a:b@pay.example',
      'https://pay.example/#x',
    ])
      expect(() => new Sluice({apiKey, baseUrl}), baseUrl).toThrow('baseUrl must be a URL')
    expect(() => new Sluice({apiKey: 'sk_a b', baseUrl: api.url})).toThrow('apiKey has a space')
    expect(() => new Sluice({apiKey: `${apiKey}\n`, baseUrl: api.url})).toThrow('apiKey has a space')
  } finally {
    close()
  }
})

test('settings that cannot work are refused in words', () => {
  expect(() => new Sluice({apiKey: '', baseUrl: api.url})).toThrow('apiKey is missing')
  expect(() => new Sluice({apiKey, baseUrl: 'pay.example'})).toThrow('baseUrl must be a URL')
})
