// What holds for every request: where changes come from, the headers of responses, and what passes between the two
// processes.
import {once} from 'node:events'
import {connect} from 'node:net'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {makeMerchant} from '../../test/support/people.ts'
import {
  Browser,
  invite,
  join,
  password,
  type SignInServer,
  setUpAuthenticator,
  startSignIn,
} from '../../test/support/sign-in.ts'

let db: TestDatabase
let server: SignInServer
let merchant: string
let ada: Browser

beforeAll(async () => {
  db = await testDatabase()
  server = await startSignIn(db)
  merchant = await makeMerchant(db)
  ada = await join(server, db, merchant, 'ada@acme.test')
  await setUpAuthenticator(ada)
})

afterAll(async () => {
  await server.close()
  await db.drop()
})

test('a request from another site changes nothing, on any path', async () => {
  const link = await invite(db, merchant)
  const asked = server.asked.length
  const others: Record<string, string>[] = [
    {origin: 'https://evil.example'},
    {origin: 'null'},
    {origin: ''},
    {'sec-fetch-site': 'cross-site'},
    {'sec-fetch-site': 'same-site'},
  ]
  for (const headers of others)
    for (const path of [
      '/api-keys',
      '/sign-in',
      '/sign-out',
      '/second-factor',
      '/security/sessions/end-others',
      '/auth/passkey/verify-authentication',
      link,
    ])
      expect([path, (await ada.post(path, {name: 'X', email: 'x@acme.test', password}, headers)).status]).toEqual([
        path,
        403,
      ])
  expect((await ada.send('PUT', '/api-keys', {}, {origin: 'https://evil.example'})).status).toBe(403)
  expect(server.asked).toHaveLength(asked)
  expect((await ada.get('/')).status).toBe(200) // still signed in
  expect((await ada.get(link)).status).toBe(200) // still open
})

test('the pages process sees no cookie, no address and no header but a few', async () => {
  const reply = await ada.post(
    '/payouts?chain=ETH',
    {amount: '1'},
    {'hx-request': 'true', 'sluice-session': 'another', 'x-other': 'x', authorization: 'Bearer x'},
  )
  expect(reply.status).toBe(200)
  const {method, url, headers} = server.asked.at(-1)!
  const token = (
    await db.rows<{token: string}>(
      `select token from auth.session s join auth."user" u on u.id = s."userId" where u.email = 'ada@acme.test'`,
    )
  )[0]!.token
  expect({method, url}).toEqual({method: 'POST', url: '/payouts?chain=ETH'})
  expect(headers).toEqual({
    accept: 'text/html',
    'content-type': 'application/x-www-form-urlencoded',
    'content-length': '8',
    'hx-request': 'true',
    'sluice-session': token,
    host: 'localhost',
    connection: 'close',
  })
})

test('a response of the pages process sets no cookie, and cannot weaken a header', async () => {
  server.respond = (_request, response) =>
    response
      .writeHead(201, {
        'content-type': 'text/html; charset=utf-8',
        'set-cookie': '__Host-sluice.session_token=mine; Path=/; Secure',
        'content-security-policy': 'default-src *',
        'access-control-allow-origin': '*',
        location: '/payouts',
      })
      .end('made')
  const {status, headers, text, location} = await ada.post('/payouts', {})
  expect({status, text, location}).toEqual({status: 201, text: 'made', location: '/payouts'})
  expect(headers.getSetCookie()).toEqual([])
  expect(headers.get('access-control-allow-origin')).toBeNull()
  expect(headers.get('content-security-policy')).toContain("default-src 'none'")
})

test('every response has the same strict headers, errors too', async () => {
  server.respond = (_request, response) => response.writeHead(500, {'content-type': 'text/html'}).end('x')
  for (const path of [
    '/',
    '/sign-in',
    '/security',
    '/auth/sign-up/email',
    '/static/none',
    '/static/htmx.js',
    '/invitation/x',
    '/livez',
    '/%ff',
  ]) {
    const {headers} = await ada.get(path)
    expect(headers.get('content-security-policy'), path).toContain(
      "default-src 'none'; script-src 'self'; style-src 'self'",
    )
    expect(headers.get('x-content-type-options'), path).toBe('nosniff')
    expect(headers.get('referrer-policy'), path).toBe('same-origin')
    expect(headers.get('cache-control'), path).toBe(path.endsWith('htmx.js') ? 'public, max-age=3600' : 'no-store')
  }
})

test('no path of the library is open but the four of passkeys', async () => {
  const json = {'content-type': 'application/json'}
  const asked = server.asked.length
  for (const path of [
    'sign-up/email',
    'sign-in/email',
    'change-password',
    'update-user',
    'passkey/delete-passkey',
    'passkey/list-user-passkeys',
    'give-cookie',
    'get-session',
  ])
    expect([path, (await ada.post(`/auth/${path}`, '{}', json)).status]).toEqual([path, 404])
  for (const path of ['get-session', 'list-sessions', 'ok', 'error', 'passkey/list-user-passkeys'])
    expect([path, (await ada.get(`/auth/${path}`)).status]).toEqual([path, 404])
  expect(server.asked).toHaveLength(asked)
})

test('live parts stream, and when the browser goes, the forwarded request ends', async () => {
  server.respond = (_request, response) =>
    void response.writeHead(200, {'content-type': 'text/event-stream'}).write('data: one\n\n')
  const browser = new AbortController()
  const cookie = [...ada.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
  const response = await fetch(`${server.url}/live`, {headers: {cookie}, signal: browser.signal})
  const reader = response.body!.getReader()
  expect(new TextDecoder().decode((await reader.read()).value)).toBe('data: one\n\n')
  const ended = once(server.asked.at(-1)!.socket, 'close')
  browser.abort()
  await ended
})

test('what is too long, or has no length, is not forwarded', async () => {
  const asked = server.asked.length
  expect((await ada.post('/webhooks', 'x'.repeat(70_000))).status).toBe(413)
  const cookie = [...ada.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
  socket.write(
    `POST /webhooks HTTP/1.1\r\nhost: x\r\norigin: ${server.url}\r\ncookie: ${cookie}\r\ntransfer-encoding: chunked\r\ncontent-type: x/y\r\n\r\n1\r\nx\r\n0\r\n\r\n`,
  )
  const [answer] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  expect(answer.toString()).toMatch(/^HTTP\/1.1 411 /)
  expect(server.asked).toHaveLength(asked)
})

test('while the pages process is away, a page says to wait; a dead session leads a part of a page to the sign-in', async () => {
  server.respond = request => void request.socket.destroy()
  const {status, text, headers} = await ada.get('/')
  expect([status, headers.get('retry-after')]).toEqual([503, '5'])
  expect(text).toContain('The pages are being started')
  const {status: part, headers: given} = await new Browser(server).get('/payouts', {'hx-request': 'true'})
  expect([part, given.get('hx-redirect')]).toEqual([200, '/sign-in'])
})

test('a style comes zipped, and not again while it is the same', async () => {
  const first = await ada.get('/static/tokens.css', {'accept-encoding': 'gzip'})
  expect([first.status, first.headers.get('content-encoding'), first.headers.get('content-type')]).toEqual([
    200,
    'gzip',
    'text/css; charset=utf-8',
  ])
  expect(first.text).toContain(':root')
  expect((await ada.get('/static/tokens.css', {'if-none-match': first.headers.get('etag')!})).status).toBe(304)
  expect((await ada.get('/static/tsconfig.json')).status).toBe(404)
})
