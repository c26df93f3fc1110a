// Attacks on the dashboard by HTTP: forms of other sites, others' ids, and requests that no browser of ours sends, on
// every route.
import {request as ask, type IncomingMessage} from 'node:http'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {changesOf, fill, filled, form, routesOf, stateOf, things} from '../support/dashboard-routes.ts'
import {cookieName, type Person, Site, tokenIn} from '../support/dashboard-site.ts'
import type {TestUser} from '../support/people.ts'
import {type Receiver, startReceiver} from '../support/webhooks.ts'

let site: Site
let receiver: Receiver
let shop: TestUser
let ada: Person
/** Ids of things of Ada's merchant, by the place in a route that they stand for. */
let own: Record<string, string>

beforeAll(async () => {
  ;[site, receiver] = await Promise.all([Site.open(), startReceiver()])
  shop = await site.money.merchant()
  ada = await site.person(shop.merchantId)
  own = await things(site, ada, {url: `${receiver.url}/own`})
})
afterAll(async () => {
  await receiver?.close()
  await site?.close()
})

test('the routes that change something are known to this test', () => {
  expect(changesOf(site.pages).sort()).toEqual([
    '/api-keys',
    '/api-keys/:id/revoke',
    '/api-keys/:id/rotate',
    '/payment-requests',
    '/payment-requests/:id/cancel',
    '/payment-requests/tolerance',
    '/payout-addresses/:chain',
    '/payouts',
    '/payouts/:id/cancel',
    '/settings/payment-page',
    '/settings/payment-page/sites',
    '/settings/time-zone',
    '/webhooks',
    '/webhooks/:id/delete',
    '/webhooks/:id/deliveries/:delivery/redeliver',
    '/webhooks/:id/disable',
    '/webhooks/:id/edit',
    '/webhooks/:id/enable',
    '/webhooks/:id/redeliver-failed',
    '/webhooks/:id/rotate',
    '/webhooks/:id/test',
  ])
  expect(changesOf(site.auth)).toEqual(
    expect.arrayContaining(['/sign-in', '/sign-out', '/second-factor', '/invitation/:token']),
  )
  for (const {methods} of [...routesOf(site.pages), ...routesOf(site.auth)])
    if (methods.includes('GET')) expect(methods).toEqual(expect.arrayContaining(['HEAD']))
})

test('a change that does not come from a page of ours is refused on every route, and nothing happens', async () => {
  const before = await stateOf(site)
  const others: Record<string, string>[] = [
    {origin: 'https://evil.example'},
    {origin: 'null'},
    {origin: ''},
    {origin: site.url.replace('localhost', '127.0.0.1')},
    {origin: `${site.url}.evil.example`},
    {origin: site.url, 'sec-fetch-site': 'cross-site'},
    {origin: site.url, 'sec-fetch-site': 'same-site'},
    {origin: site.url, 'sec-fetch-site': 'none'},
  ]
  const paths = [...changesOf(site.pages), ...changesOf(site.auth)].map(path => fill(path, own))
  const link = (await site.invitation(shop.merchantId)).slice(site.url.length)
  const entries = (await stateOf(site)) as [{entries: number}]
  for (const path of [...paths, link])
    for (const headers of others)
      for (const method of path === paths[0] ? ['POST', 'PUT', 'PATCH', 'DELETE'] : ['POST']) {
        const {status} = await ada.http.send(method, path, filled(ada.email), headers)
        expect([method, path, headers, status]).toEqual([method, path, headers, 403])
      }
  expect(await stateOf(site)).toEqual([{...(before as [object])[0], entries: entries[0].entries}])
})

test('nothing of another merchant can be seen or changed by its id, on any route', async () => {
  const other = await site.money.merchant()
  const eve = await site.person(other.merchantId)
  const theirs = await things(site, eve, {url: `${receiver.url}/theirs`})
  const tried: string[] = []
  const before = await stateOf(site)
  for (const {path, methods} of routesOf(site.pages)) {
    if (!/:(id|delivery)/.test(path)) continue
    for (const method of methods.filter(each => each !== 'HEAD')) {
      const {status, text} = await ada.http.send(
        method,
        fill(path, theirs),
        method === 'GET' ? undefined : filled(ada.email),
      )
      const isPartOfUser = path === '/users/:id/part'
      expect([method, path, status]).toEqual([method, path, isPartOfUser ? expect.toBeOneOf([200, 404]) : 404])
      for (const id of Object.values(theirs).filter(id => !fill(path, theirs).includes(id)))
        expect(text).not.toContain(id)
      expect(text).not.toContain(other.address)
      tried.push(path)
    }
  }
  expect(new Set(tried).size).toBeGreaterThan(20)
  const mixed = `/webhooks/${own.webhooks}/deliveries/${theirs.deliveries}`
  expect((await ada.http.get(mixed)).status).toBe(404)
  expect((await ada.http.post(`${mixed}/redeliver`, form())).status).toBe(404)
  expect((await ada.http.get(`/deposits?user=${theirs.users}`)).text).not.toContain(theirs.deposits)
  for (const id of Object.values(theirs)) expect((await ada.http.get(`/search?q=${id}`)).status).toBe(200)
  expect(await stateOf(site)).toEqual(before)
  // The same requests do find what is Ada's own, so that the test proves something.
  for (const [folder, id] of Object.entries(own))
    if (!['api-keys', 'deliveries'].includes(folder)) expect((await ada.http.get(`/${folder}/${id}`)).status).toBe(200)
})

test('a session of another person, or none, cannot be had by a header', async () => {
  const eve = await site.person((await site.money.merchant()).merchantId)
  const token = tokenIn(eve.http.cookies.get(cookieName))
  const {text} = await ada.http.get('/', {'sluice-session': token})
  expect(text).toContain(ada.email)
  expect(text).not.toContain(eve.email)
  const bare = await fetch(site.url.replace('localhost', '127.0.0.1'), {
    redirect: 'manual',
    headers: {'sluice-session': token, 'x-sluice-address': '192.0.2.1', accept: 'text/html'},
  })
  expect([bare.status, bare.headers.get('location')]).toEqual([303, '/sign-in'])
})

test.each([
  '//evil.example',
  '/\\evil.example',
  '\\\\evil.example',
  'https://evil.example',
  'javascript:alert(1)',
  '/\t/evil.example',
  '/%0d%0aset-cookie:x',
  '///evil.example',
  './/evil.example',
  '',
])('after signing in, nobody is led to %j', async next => {
  const isHarmless = next.startsWith('/%') // a path of ours that does not exist
  const shown = await ada.http.get(`/sign-in?${new URLSearchParams({next})}`)
  expect(shown.text).toContain(`name="next" value="${isHarmless ? next : '/'}"`)
  const {status, location, headers} = await ada.http.post('/second-factor', {next, code: await site.code(ada.secret)})
  expect([status, location]).toEqual([303, isHarmless ? next : '/'])
  expect(headers.getSetCookie().filter(cookie => !cookie.startsWith('__Host-sluice.'))).toEqual([])
})

test('NUL, broken UTF-8, long and strange requests are refused on every route, as pages, with all headers', async () => {
  const routes = [...routesOf(site.pages), ...routesOf(site.auth)].filter(
    ({path}) => !path.includes('*') && !/^\/(live$|static|livez)/.test(path),
  )
  const inQuery = ['%00', '-1', '9'.repeat(40), 'x'.repeat(300)]
  const inPath = [...inQuery, '%ff', '%c0%80', '%ed%a0%80', '%', "'", '%2e%2e%2f', '%F0%9F%92%A9', '1e400']
  const names = ['before', 'status', 'chain', 'user', 'external_ref', 'q', 'sent', 'next']
  const urls = new Set<string>()
  for (const {path, methods} of routes) {
    if (!methods.includes('GET')) continue
    if (path.includes(':')) for (const each of inPath) urls.add(path.replace(/:\w+/g, each))
    for (const each of inQuery)
      for (const name of names) urls.add(`${fill(path, own).replace(':token', 'x')}?${name}=${each}`)
  }
  const failed: unknown[] = []
  await inTurns([...urls], async url => {
    const {status, headers, text} = await ada.http.get(url)
    const isWhole =
      headers.get('content-security-policy')?.includes("frame-ancestors 'none'") &&
      headers.get('x-content-type-options') === 'nosniff'
    if (status >= 500 || !isWhole || (status >= 400 && !url.startsWith('/auth/') && !text.includes('</html>')))
      failed.push([url, status])
  })
  expect(failed).toEqual([])
})

test('NUL, long fields and fields sent twice are refused in every field of every form', async () => {
  const failed: unknown[] = []
  const forms = changesOf(site.pages).map(path => fill(path, own))
  const bodies = Object.keys(filled(ada.email)).flatMap(field =>
    ['a%00b', 'x'.repeat(5000), `a&${field}=b`].map(value => {
      const fields = new URLSearchParams(filled(ada.email))
      fields.delete(field)
      return `${fields}&${field}=${value}`
    }),
  )
  const cases = forms
    .flatMap(path => bodies.map(body => [path, body] as const))
    .filter(([path]) => !/delete|disable|revoke|cancel/.test(path))
  await inTurns(cases, async ([path, body]) => {
    const {status, text} = await ada.http.post(path, body)
    if (status >= 500 || (status >= 400 && !text.includes('</html>'))) failed.push([path, body.slice(-40), status])
  })
  expect(failed).toEqual([])
  expect((await ada.http.post('/api-keys', 'x'.repeat(70_000))).status).toBe(413)
  expect((await ada.http.post('/api-keys', '{}', {'content-type': 'application/json'})).status).toBe(415)
  expect((await ada.http.post('/api-keys', '--x--', {'content-type': 'multipart/form-data; boundary=x'})).status).toBe(
    415,
  )
})

test('other methods, very long URLs and doubled headers find nothing', async () => {
  for (const method of ['PUT', 'PATCH', 'DELETE'])
    expect((await ada.http.send(method, '/api-keys', filled(ada.email))).status).toBe(404)
  expect((await raw('TRACE', '/')).statusCode).toBeGreaterThanOrEqual(400)
  expect((await raw('OPTIONS', '/')).statusCode).toBeGreaterThanOrEqual(400)
  expect((await raw('GET', `/search?q=${'x'.repeat(20_000)}`)).statusCode).toBe(431)
  expect((await ada.http.get(`/search?q=${'x'.repeat(10_000)}`)).text).toContain('Nothing was found')
  const twice = await raw('GET', '/', ['sluice-session', 'a', 'sluice-session', 'b', 'cookie', 'a=b', 'cookie', 'c=d'])
  expect([twice.statusCode, twice.headers.location]).toEqual([303, '/sign-in'])
})

function raw(method: string, path: string, headers: string[] = []): Promise<IncomingMessage> {
  const {hostname, port} = new URL(site.url.replace('localhost', '127.0.0.1'))
  return new Promise((resolve, reject) => {
    const sent = ask({hostname, port, method, path, headers: ['host', 'localhost', ...headers]}, response => {
      response.resume()
      resolve(response)
    })
    sent.on('error', reject)
    sent.end()
  })
}

/** A few at a time. */
async function inTurns<T>(all: readonly T[], work: (each: T) => Promise<void>): Promise<void> {
  const queue = [...all]
  await Promise.all(
    Array.from({length: 6}, async () => {
      for (let each = queue.pop(); each !== undefined; each = queue.pop()) await work(each)
    }),
  )
}
