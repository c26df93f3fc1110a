// sluice listen and sluice trigger as a merchant's developer runs them: programs, against the service itself.
import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import http from 'node:http'
import type {AddressInfo} from 'node:net'
import path from 'node:path'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {eventTypes as eventTypesOfTheService} from '../../base/event-types.ts'
import {logger} from '../../base/log.ts'
import {readSettings} from '../../chains/settings.ts'
import {startWorker} from '../../jobs/worker.ts'
import {type Api, makeKey, startApi} from '../../test/support/api.ts'
import {endsOf} from '../../test/support/ends.ts'
import {Money} from '../../test/support/money.ts'
import type {TestUser} from '../../test/support/people.ts'
import {until} from '../../test/support/until.ts'
import {type Receiver, startReceiver} from '../../test/support/webhooks.ts'
import {eventTypes, Sluice, verify} from '../index.ts'
import {listen} from './listen.ts'

const main = path.join(import.meta.dirname, 'main.ts')
const timeoutMs = 20_000

let money: Money
let api: Api
let shop: TestUser
let apiKey: string
let receiver: Receiver
const running: ChildProcess[] = []

beforeAll(async () => {
  money = await Money.open()
  api = await startApi(money.db)
  shop = await money.merchant()
  apiKey = (await makeKey(money.db, shop.merchantId)).secret
  receiver = await startReceiver()
})
afterEach(() => {
  for (const child of running.splice(0)) child.kill('SIGKILL')
  receiver.received.length = 0
  receiver.response = (_request, response) => response.writeHead(204).end()
})
afterAll(async () => {
  await receiver.close()
  await api.close()
  await money.close()
})

/** The command as it runs, and what it said so far. */
function start(given: string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [main, ...given], {
    env: {...process.env, SLUICE_API_KEY: apiKey, SLUICE_URL: api.url, ...env},
  })
  running.push(child)
  const said = {text: ''}
  const hear = (chunk: Buffer) => {
    said.text += chunk
  }
  child.stdout.on('data', hear)
  child.stderr.on('data', hear)
  const ended = once(child, 'close').then(([code]) => code as number | null)
  return {child, said, ended}
}

/** The command to its end. */
async function run(given: string[], env?: NodeJS.ProcessEnv) {
  const {said, ended} = start(given, env)
  const code = await ended
  return {code, text: said.text}
}

/** Makes two events: a deposit is pending, then confirmed. */
async function happen(amount = 5): Promise<void> {
  await money.deposit(shop.address, amount)
  await money.db.rows('select app.sequence_events()')
}
const ids = async (): Promise<string[]> =>
  (
    await money.db.rows<{id: string}>(
      `select app.public_id('evt', id) as id from app.event where sequence is not null and not is_test order by sequence`,
    )
  ).map(({id}) => id)
const received = () => receiver.received.map(({event}) => event.id)

test('the types of the package are those of the service', () => {
  expect(eventTypes).toEqual(eventTypesOfTheService)
})

test('listen posts each event once, in order, signed with the secret that it prints, and says how it was answered', async () => {
  await happen() // before it listens
  const {child, said, ended} = start(['listen', '--forward-to', `${receiver.url}/hook`])
  await until(async () => said.text.includes('Ctrl-C'), {timeoutMs, what: 'it listens'})
  const before = (await ids()).length
  const secret = /whsec_\S+/.exec(said.text)![0]
  receiver.response = ({event}, response) =>
    event.type === 'deposit.pending'
      ? response.writeHead(204).end()
      : response.writeHead(500).end('no\u001b[31m\nstock')
  await until(
    async () => {
      await happen()
      return receiver.received.length >= 4
    },
    {timeoutMs, what: 'events arrive', intervalMs: 500},
  )
  child.kill('SIGINT')
  expect(await ended).toBe(0)
  const all = await ids()
  expect(received()).toEqual(all.slice(all.indexOf(received()[0]!)).slice(0, received().length))
  expect(all.indexOf(received()[0]!)).toBeGreaterThanOrEqual(before)
  for (const {headers, body, event} of receiver.received) {
    expect(verify(body, headers, secret)).toEqual(((await await sdk().events.get(event.id)) as unknown) ?? {})
    expect(headers['content-type']).toBe('application/json')
  }
  expect(said.text).toMatch(/deposit\.pending +evt_\w{32} {2}204 in \d+ ms\n/)
  expect(said.text).toMatch(
    /deposit\.confirmed +(evt_\w{32}) {2}500 in \d+ ms: no \[31m stock \(again: --replay \1\)\n/,
  )
})

const sdk = () => new Sluice({apiKey, baseUrl: api.url})

test('the secret is the same each time, and another one for another key', async () => {
  await happen()
  const [event] = await ids()
  const other = (await makeKey(money.db, shop.merchantId, ['read'])).secret
  const secretOf = async (key: string) => {
    const {code, text} = await run(['listen', '--forward-to', receiver.url, '--replay', event!], {SLUICE_API_KEY: key})
    expect(code).toBe(0)
    return /whsec_\S+/.exec(text)![0]
  }
  const secret = await secretOf(apiKey)
  expect(await secretOf(apiKey)).toBe(secret)
  expect(await secretOf(other)).not.toBe(secret)
  expect(received()).toEqual([event, event, event])
})

test('--since begins in the past, --events picks types, and without --forward-to events are only shown', async () => {
  await happen()
  const {child, said, ended} = start(['listen', '--since', '1h', '--events', 'deposit.confirmed,payment_request.paid'])
  const confirmed = (await money.db.rows(`select from app.event where type = 'deposit.confirmed'`)).length
  const shown = () => said.text.match(/ {2}\S+ +evt_\w+/g) ?? []
  await until(async () => shown().length === confirmed, {timeoutMs, what: 'the events of the past'})
  child.kill('SIGINT')
  expect(await ended).toBe(0)
  expect(shown().every(line => line.includes('deposit.confirmed'))).toBe(true)
  expect(said.text).not.toContain('whsec_')
  expect(receiver.received).toEqual([])
})

test('Ctrl-C ends it at once, whatever it waits for', async () => {
  await happen()
  receiver.response = () => {} // never answers
  const silent = http.createServer(() => {})
  await new Promise<void>(resolve => silent.listen(0, '127.0.0.1', resolve))
  const nowhere = {SLUICE_URL: `http://127.0.0.1:${(silent.address() as AddressInfo).port}`}
  const isWaiting = async () => receiver.received.length > 0
  try {
    for (const [given, env, isThere] of [
      [['listen', '--since', '1h', '--forward-to', receiver.url], {}, isWaiting],
      [['listen'], nowhere, async () => true],
      [['trigger', 'payout.failed', '--forward-to', receiver.url], nowhere, async () => true],
    ] as const) {
      const {child, said, ended} = start([...given], env)
      await until(async () => (given[0] === 'trigger' || said.text.includes('Ctrl-C')) && (await isThere()), {
        timeoutMs,
        what: 'it waits',
      })
      if (given[0] === 'trigger') await once(silent, 'connection')
      const began = Date.now()
      child.kill('SIGINT')
      await ended
      expect(Date.now() - began, given.join(' ')).toBeLessThan(5_000)
    }
  } finally {
    silent.close().closeAllConnections()
  }
})

test('a page of another program, and one that breaks off, do not end it', async () => {
  let bad = 6
  const odd = http.createServer(async (request, response) => {
    if (bad-- > 0) {
      if (bad % 2) return void response.writeHead(200).end('<html>back soon</html>')
      response.writeHead(200, {'content-length': 1000}).write('{')
      return void setImmediate(() => response.socket!.destroy())
    }
    const {authorization} = request.headers
    const answer = await fetch(api.url + request.url, {headers: {authorization: authorization!}})
    response.end(await answer.text())
  })
  await new Promise<void>(resolve => odd.listen(0, '127.0.0.1', resolve))
  const over = new AbortController()
  const port = (odd.address() as AddressInfo).port
  const sluice = new Sluice({apiKey, baseUrl: `http://127.0.0.1:${port}`, retries: 0})
  await happen()
  bad = 0
  const shared = {
    sluice,
    types: [...eventTypes],
    forwardTo: receiver.url,
    secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  }
  const listening = listen({...shared, since: undefined, signal: over.signal, say: () => {}, pauseMs: 10})
  try {
    await until(
      async () => {
        if (receiver.received.length === 0) await happen()
        return receiver.received.length > 0
      },
      {timeoutMs, what: 'it listens', intervalMs: 300},
    )
    bad = 6
    const before = receiver.received.length
    await happen()
    await until(async () => receiver.received.length > before, {timeoutMs, what: 'it goes on'})
    expect(bad).toBeLessThan(0)
  } finally {
    over.abort()
    await listening
    odd.close().closeAllConnections()
  }
})

test('a program that answers without an end is not waited for', async () => {
  await happen()
  const event = (await ids()).at(-1)!
  for (const status of [200, 500]) {
    receiver.response = (_request, response) => {
      response.writeHead(status)
      const more = () => response.destroyed || response.write('x'.repeat(65_536), () => setImmediate(more))
      more()
    }
    const {code, text} = await run(['listen', '--forward-to', receiver.url, '--replay', event])
    expect([status, code]).toEqual([status, status === 200 ? 0 : 1])
    expect(text.length).toBeLessThan(500)
  }
})

test('--replay sends one event again, and its exit code says whether it was taken', async () => {
  await happen()
  const event = (await ids()).at(-1)!
  const given = ['listen', '--forward-to', receiver.url, '--replay', event]
  expect(await run(given)).toMatchObject({code: 0})
  receiver.response = (_request, response) => response.writeHead(302, {location: `${receiver.url}/other`}).end()
  expect(await run(given)).toMatchObject({code: 1, text: expect.stringContaining('302 in')})
  expect(received()).toEqual([event, event])
  const {port} = new URL(receiver.url)
  const nobody = await run(['listen', '--forward-to', `http://127.0.0.1:${port === '1' ? 2 : 1}`, '--replay', event])
  expect(nobody).toMatchObject({code: 1, text: expect.stringContaining('no answer: ')})
})

test('no event is skipped while the service goes away and comes back', async () => {
  let refused = 0
  const away = http.createServer(async (request, response) => {
    if (refused % 3 !== 2 || refused > 30) {
      refused++
      return void (refused % 2 ? response.writeHead(503, {'retry-after': '0'}).end() : response.socket!.destroy())
    }
    refused++
    const {authorization} = request.headers
    const answer = await fetch(api.url + request.url, {headers: {authorization: authorization!}})
    response.writeHead(answer.status, {'content-type': 'application/json'}).end(await answer.text())
  })
  await new Promise<void>(resolve => away.listen(0, '127.0.0.1', resolve))
  const over = new AbortController()
  const lines: string[] = []
  await happen()
  const there = (await ids()).length
  try {
    const sluice = new Sluice({apiKey, baseUrl: `http://127.0.0.1:${(away.address() as AddressInfo).port}`, retries: 3})
    const listening = listen({
      sluice,
      types: [...eventTypes],
      forwardTo: receiver.url,
      secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
      since: new Date(0),
      signal: over.signal,
      say: line => void lines.push(line),
      pauseMs: 10,
    })
    await until(async () => receiver.received.length >= there, {timeoutMs, what: 'all events that were there'})
    await happen()
    await until(async () => receiver.received.length >= there + 2, {timeoutMs, what: 'the events that came then'})
    over.abort()
    await listening.catch(() => {})
    expect(received()).toEqual(await ids())
  } finally {
    over.abort()
    away.close().closeAllConnections()
  }
})

test('trigger sends the signed example of each type, as a test', async () => {
  for (const type of ['deposit.confirmed', 'payment_request.paid', 'webhook_endpoint.disabled']) {
    const {code, text} = await run(['trigger', type, '--forward-to', receiver.url])
    expect([code, text]).toEqual([0, expect.stringMatching(/ {2}204 in \d+ ms\n$/)])
    const {event, body, headers} = receiver.received.at(-1)!
    expect(event).toMatchObject({type, test: true, id: expect.stringMatching(/^evt_test_[0-9a-f]{32}$/)})
    const listened = await run(['listen', '--forward-to', receiver.url, '--replay', (await ids())[0]!])
    expect(verify(body, headers, /whsec_\S+/.exec(listened.text)![0])).toEqual(event)
  }
})

test('trigger has the service send the example to the endpoints that get it', async () => {
  const log = logger('jobs')
  log.level = 'fatal'
  const settings = readSettings({WEBHOOK_ALLOW_PRIVATE: '1'})
  const worker = await startWorker({databaseUrl: money.db.url('sluice_jobs'), settings, log, ends: endsOf(log)})
  try {
    expect(await run(['trigger', 'payout.failed'])).toMatchObject({
      code: 1,
      text: 'sluice: no endpoint of yours gets payout.failed: give --forward-to, or register an endpoint for it\n',
    })
    const endpoint = await sdk().webhookEndpoints.create({url: `${receiver.url}/own`})
    const {code, text} = await run(['trigger', 'payout.failed'])
    expect([code, text]).toEqual([0, expect.stringMatching(/^payout\.failed {2}http\S+\/own {2}204 in \d+ ms\n$/)])
    const {headers, body} = receiver.received.at(-1)!
    expect(verify(body, headers, endpoint.secret)).toMatchObject({type: 'payout.failed', test: true})
    receiver.response = (_request, response) => response.writeHead(500).end('no')
    expect(await run(['trigger', 'payout.failed'])).toMatchObject({code: 1, text: expect.stringContaining('500')})
  } finally {
    await worker.stop()
  }
})

test('what cannot work is refused in words', async () => {
  const refused = async (given: string[], env?: NodeJS.ProcessEnv) => {
    const {code, text} = await run(given, env)
    return [code, text.trim()]
  }
  expect(await refused(['listen'], {SLUICE_API_KEY: ''})).toEqual([2, expect.stringContaining('set SLUICE_API_KEY')])
  expect(await refused(['listen'], {SLUICE_API_KEY: 'sk_nobody'})).toEqual([
    1,
    expect.stringMatching(/sluice: GET \/v1\/events: 401 invalid_api_key/),
  ])
  const cases: [string[], string][] = [
    [['listen', '--forward-to', 'localhost:3000'], 'localhost:3000 is not a URL such as'],
    [['listen', '--events', 'deposit.settled'], 'deposit.settled is no type of event; there are deposit.pending'],
    [['listen', '--since', 'yesterday'], 'yesterday is no time such as'],
    [['listen', '--replay', 'evt_1'], '--replay needs --forward-to'],
    [['trigger'], 'nothing is no type of event'],
    [['trigger', 'payout.failed', '--since', '1h'], 'trigger has no option --since'],
    [['send'], 'there is no command send'],
    [['constructor'], 'there is no command constructor'],
    [['listen', '--since', '10'], '10 is no time such as'],
    [['listen', '--forward'], "Unknown option '--forward'"],
  ]
  for (const [given, message] of cases)
    expect(await refused(given), given.join(' ')).toEqual([2, expect.stringContaining(message)])
  const unknown = await refused(['listen', '--forward-to', receiver.url, '--replay', `evt_${'0'.repeat(32)}`])
  expect(unknown).toEqual([1, expect.stringContaining('404 event_not_found')])
  expect(await refused(['--help'])).toEqual([0, expect.stringContaining('usage: sluice listen')])
  expect(await refused([])).toEqual([2, expect.stringContaining('usage: sluice listen')])
})
