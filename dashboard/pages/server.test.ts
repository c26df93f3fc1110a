// The server of the pages on a real socket and a real database: what becomes of requests that show no page, and the
// streams of live pages.
import {randomUUID} from 'node:crypto'
import type {IncomingMessage} from 'node:http'
import {decode, encode} from 'fast-png'
import type pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {openPool} from '../../db/client/pool.ts'
import {newSession, type SignedIn, signIn} from '../../test/support/dashboard.ts'
import type {Money} from '../../test/support/money.ts'
import {type Asked, buildPages, PagesServer} from '../../test/support/pages-server.ts'
import type {TestUser} from '../../test/support/people.ts'
import {until} from '../../test/support/until.ts'
import {type App, refusalOf} from './app.ts'
import {Data} from './data.ts'

let site: PagesServer
let money: Money
let pool: pg.Pool
let app: App
let shop: TestUser
let ada: SignedIn

beforeAll(async () => {
  site = await PagesServer.open()
  ;({money, pool, app, shop, ada} = site)
})
afterAll(() => site.close())

const ask: PagesServer['ask'] = (url, asked) => site.ask(url, asked)

async function read(response: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of response) text += chunk
  return text
}

const statusOf = async (url: string, asked?: Asked) => {
  const response = await ask(url, asked)
  await read(response)
  return [response.statusCode, response.headers.location]
}

test('a page says that its network is a test network, unless a network of the merchant is not', async () => {
  const says = async () => (await read(await ask('/'))).includes('Test network: the coins here are worth nothing')
  expect(await says()).toBe(true)
  await money.db.rows(`update chain.cursor set network = 'eip155:1' where chain = 'ETH'`)
  expect(await says()).toBe(false)
  await money.db.rows(`update chain.cursor set network = 'eip155:1337001' where chain = 'ETH'`)
})

test('a request without a live session leads to the sign-in page, whatever it asks for', async () => {
  for (const url of ['/', '/deposits', '/live', '/nonsense', '/api-keys/new'])
    for (const token of ['', 'unknown', await newSession(money.db, ada.userId, {secondFactorIn: null})])
      expect([url, ...(await statusOf(url, {token}))]).toEqual([url, 303, '/sign-in'])
})

test('a form that a link has filled in says so', async () => {
  for (const url of ['/api-keys/new', '/webhooks/new', '/payout-addresses/ETH']) {
    const text = async (query: string) => await read(await ask(url + query))
    expect([url, (await text('')).includes('filled in already')]).toEqual([url, false])
    expect([url, (await text('?url=https%3A%2F%2Fevil.test')).includes('filled in already')]).toEqual([url, true])
  }
})

test('a suspended merchant still sees pages, but no form for what moves money or gives access', async () => {
  const suspend = (at: string) =>
    money.db.rows(`update app.merchant set suspended_at = ${at} where id = $1`, [shop.merchantId])
  await suspend('now()')
  for (const url of ['/api-keys/new', '/webhooks/new', '/payout-addresses/ETH']) {
    const response = await ask(url)
    expect([response.statusCode, await read(response)]).toEqual([
      403,
      expect.stringContaining('This account is suspended'),
    ])
  }
  expect(await statusOf('/deposits')).toEqual([200, undefined])
  await suspend('null')
})

test('what does not exist, or cannot be read, is a page that says what to do next', async () => {
  for (const [url, status] of [
    ['/nonsense', 404],
    ['/deposits/dep_0', 404],
    ['/deposits?before=%00', 400],
    ['/users?before=1e9', 400],
    ['/deposits?before=x', 400],
  ] as const) {
    const response = await ask(url)
    expect([url, response.statusCode]).toEqual([url, status])
    expect(await read(response)).toMatch(/^<!doctype html>[\s\S]*<main[\s\S]*href="\/"/)
  }
})

test('what cannot be read is refused in words for people, and no link makes a page say that something was done', async () => {
  const said = async (url: string) => /<main[\s\S]*<\/main>/.exec(await read(await ask(url)))![0]
  expect(await said(`/search?q=${'x'.repeat(256)}`)).toContain('Nothing was found')
  expect(await said('/deposits?status=lost')).toContain('Status must be one of ')
  expect(await said('/payout-addresses?saved=ETH')).toContain('The payout address on ETH is saved') // a moment ago
  await money.db.rows(
    `update app.payout_address set updated_at = now() - interval '2 minutes' where merchant_id = $1`,
    [shop.merchantId],
  )
  expect(await said('/payout-addresses?saved=ETH')).not.toContain('is saved')
})

test('a payout lists what it is made of, in the part of its page that is live, with a page of its own for older deposits', async () => {
  const {merchantId, address} = await money.merchant()
  const {token} = await signIn(money.db, merchantId)
  for (let n = 1; n <= 26; n++) await money.deposit(address, n * 1_000_000)
  const id = `pay_${(await money.claim({merchantId, address, userId: ''})).replaceAll('-', '')}`
  const text = async (url: string) => read(await ask(url, {token}))
  for (const url of [`/payouts/${id}`, `/payouts/${id}/part`, `/payouts/${id}/deposits`]) {
    const page = await text(url)
    expect([url, page.includes('>26 USDC</a>'), page.includes('>1 USDC</a>')]).toEqual([url, true, false])
  }
  const [, older] = /href="([^"]*)">Older</.exec(await text(`/payouts/${id}`))!
  expect(older).toMatch(`/payouts/${id}/deposits?before=`)
  const page = await text(older!)
  expect([page.includes('>1 USDC</a>'), page.includes('>2 USDC</a>'), page.includes('>Older<')]).toEqual([
    true,
    false,
    false,
  ])
  expect((await statusOf(`/payouts/${id}/deposits`))[0]).toBe(404) // of another merchant
  expect((await statusOf(`/payouts/${id}/deposits?before=x`, {token}))[0]).toBe(400)
})

test('why an endpoint is disabled is said in words', () => {
  const said = (reason: string) =>
    refusalOf({code: 'SL422', message: `the endpoint is disabled (${reason}); enable it first`})
  expect(said('merchant')).toBe('The endpoint is disabled by you; enable it first.')
  expect(said('gone')).toBe('The endpoint is disabled since it responded with 410 (gone); enable it first.')
})

test('that too many payouts were cancelled is said on the page that asks', () => {
  expect(refusalOf({code: 'SL429', message: 'no more than 2'})).toBe('No more than 2.')
})

test('the API reference is one link away, wherever the API is reached', async () => {
  expect(await statusOf('/api-docs')).toEqual([303, 'http://127.0.0.1:8080/docs'])
  expect(await read(await ask('/'))).toContain('href="/api-docs"')
})

test('a form that needs the second factor again leads there, with what was typed, and changes nothing', async () => {
  const token = await newSession(money.db, ada.userId, {secondFactorIn: '-11 min'})
  const form = 'request=0199f2c4-a1b2-7c3d-8e4f-5a6b7c8d9e0f&label=till+7&scopes=read'
  const [status, location] = await statusOf('/api-keys', {token, form})
  expect(status).toBe(303)
  const target = new URL(String(location), 'http://localhost')
  expect([target.pathname, target.searchParams.get('notice')]).toEqual(['/second-factor', 'not-done'])
  expect(target.searchParams.get('next')).toMatch(/^\/api-keys\/new\?.*label=till(\+|%20)7/)
  expect(await money.db.rows('select from app.api_key where merchant_id = $1', [shop.merchantId])).toEqual([])
})

test('the payment page is changed by a form with a file; what cannot be used is refused with the reason, and nothing changes', async () => {
  const picture = Buffer.from(
    encode({width: 2, height: 1, data: Uint8Array.of(1, 2, 3, 255, 4, 5, 6, 255), channels: 4}),
  )
  const sent = async (fields: Record<string, string>, file?: Buffer) => {
    const form = new FormData()
    for (const [name, value] of Object.entries({request: randomUUID(), ...fields})) form.set(name, value)
    form.set('logo', new Blob(file ? [new Uint8Array(file)] : []), file ? 'logo.svg' : '')
    const {headers, body} = new Request('http://x', {method: 'POST', body: form})
    const payload = Buffer.from(await new Response(body).arrayBuffer())
    const {statusCode, body: text} = await app.inject({
      method: 'POST',
      url: '/settings/payment-page',
      headers: {'sluice-session': ada.token, 'content-type': headers.get('content-type')!},
      payload,
    })
    shown = text
    return [statusCode, /<p role="alert" class="alert">([^<]+)/.exec(text)?.[1]]
  }
  let shown = ''
  const data = new Data(pool, ada.token)
  expect(
    await sent({name: 'Ada’s shop', accent: '#0B5CAD', site_url: 'https://shop.example', help_url: ''}, picture),
  ).toEqual([303, undefined])
  const brand = {
    name: 'Ada’s shop',
    accent: '#0b5cad',
    site_url: 'https://shop.example',
    help_url: null,
    has_logo: true,
    sites: [],
  }
  expect(await data.brand()).toEqual(brand)
  expect([...decode((await data.logo())!).data]).toEqual([1, 2, 3, 255, 4, 5, 6, 255])
  expect(
    (await app.inject({url: '/settings/payment-page/logo.png', headers: {'sluice-session': ada.token}})).headers[
      'content-type'
    ],
  ).toBe('image/png')
  expect(await sent({name: 'Bob’s shop', accent: '#aa0000', site_url: '', preview: '1'}, picture)).toEqual([
    200,
    undefined,
  ])
  for (const text of ['Nothing is saved yet', 'Bob’s shop</tspan>', 'fill="#aa0000"', 'href="data:image/png;base64,'])
    expect(shown).toContain(text)
  expect(shown).toContain('name="accent" type="text" value="#aa0000"')
  expect(await data.brand()).toEqual(brand)
  for (const [fields, file, why] of [
    [{accent: '#ffff00'}, undefined, /^The colour of buttons must be darker/],
    [{accent: 'red'}, undefined, /must be a colour such as #0b5cad/],
    [{site_url: 'http://shop.example'}, undefined, /must begin with https/],
    [{help_url: 'javascript:alert(1)'}, undefined, /must begin with https/],
    [{name: 'a\u202eb'}, undefined, /direction of writing/],
    [{}, Buffer.from('<svg/>'), /must be a PNG or a JPEG/],
    [{no_logo: '1'}, picture, /but not both/],
  ] as const) {
    const [status, said] = await sent({name: 'x', ...fields}, file)
    expect([status, said], JSON.stringify(fields)).toEqual([422, expect.stringMatching(why)])
  }
  expect((await sent({}, Buffer.alloc(800 * 1024)))[0]).toBe(413)
  expect(await data.brand()).toEqual(brand)
  expect(await sent({name: 'Ada’s shop'})).toEqual([303, undefined]) // an empty file leaves the logo
  expect(await data.brand()).toMatchObject({accent: null, has_logo: true})
  expect(await sent({no_logo: '1'})).toEqual([303, undefined])
  expect(await data.brand()).toMatchObject({name: null, has_logo: false})
  const late = new Data(pool, await newSession(money.db, ada.userId, {secondFactorIn: '-601 s'}))
  await expect(late.setBrand(randomUUID(), {...brand, name: 'x'})).rejects.toMatchObject({code: 'SLSTP'})
  await expect(late.setPaymentPageSites(randomUUID(), [])).rejects.toMatchObject({code: 'SLSTP'})
})

test('the sites that show the payment page are origins: an address becomes its own, and what is none is refused', async () => {
  const send = async (sites: string) => {
    const {statusCode, body} = await app.inject({
      method: 'POST',
      url: '/settings/payment-page/sites',
      headers: {'sluice-session': ada.token, 'content-type': 'application/x-www-form-urlencoded'},
      payload: new URLSearchParams({request: randomUUID(), sites}).toString(),
    })
    return [statusCode, /role="alert"[^>]*>(.*?)</.exec(body)?.[1]]
  }
  const data = new Data(pool, ada.token)
  const typed =
    'https://Shop.example/path?x=1\n\n http://localhost:3000\nhttps://shop.example\nhttps://bücher.example:443'
  expect(await send(typed)).toEqual([303, undefined])
  const sites = ['http://localhost:3000', 'https://shop.example', 'https://xn--bcher-kva.example']
  expect((await data.brand()).sites).toEqual(sites)
  expect(await read(await ask('/settings/payment-page'))).toContain('<strong>https://shop.example</strong>')
  for (const wrong of [
    'http://shop.example',
    'javascript:alert(1)',
    '*',
    'https://*',
    "https://a.example' 'self",
    'shop.example',
    'https://me@shop.example',
  ])
    expect([wrong, ...(await send(wrong))]).toEqual([
      wrong,
      422,
      expect.stringContaining('Sites must be sites such as'),
    ])
  expect(await send(Array.from({length: 21}, (_, n) => `https://shop${n}.example`).join('\n'))).toEqual([
    422,
    expect.stringContaining('must be at most 20'),
  ])
  expect((await data.brand()).sites).toEqual(sites)
  expect(await send('')).toEqual([303, undefined])
  expect((await data.brand()).sites).toEqual([])
})

test('an upload that ends too early, or is none, is refused, and the process goes on', async () => {
  const head = '--b\r\nContent-Disposition: form-data; name="logo"; filename="a"\r\n\r\n'
  for (const [type, payload] of [
    ['multipart/form-data; boundary=b', `${head}abc`],
    ['multipart/form-data; boundary=b', head],
    ['multipart/form-data; boundary=b', ''],
    ['multipart/form-data', head],
    ['multipart/form-data; boundary=b', `${head}abc\r\n${head}def\r\n--b--\r\n`],
  ] as const)
    for (const url of ['/settings/payment-page', '/payouts']) {
      const headers = {'sluice-session': ada.token, 'content-type': type}
      const {statusCode} = await app.inject({method: 'POST', url, headers, payload})
      expect([statusCode >= 400 && statusCode < 500, url, payload.slice(-20)]).toEqual([true, url, payload.slice(-20)])
    }
  expect((await statusOf('/'))[0]).toBe(200)
})

test('while the totals of an older database are made, the overview is shown without them, and other pages say why', async () => {
  await money.db.rows('update app.total_backfill set last_entry = 10, done_up_to = 5')
  expect((await statusOf('/'))[0]).toBe(200)
  for (const url of ['/charts', '/statements']) {
    const response = await ask(url)
    expect([url, response.statusCode]).toEqual([url, 503])
    expect(await read(response)).toMatch(/The totals are being made .*: 50 % is done/)
  }
  await money.db.rows('update app.total_backfill set done_up_to = last_entry')
})

test('a stream says only that there is news, and ends with its session', async () => {
  const token = await newSession(money.db, ada.userId)
  const response = await ask('/live', {token})
  expect([response.statusCode, response.headers['content-type']]).toEqual([200, 'text/event-stream'])
  let heard = ''
  let isOver = false
  response.on('data', chunk => {
    heard += chunk
  })
  response.on('end', () => {
    isOver = true
  })
  const isAsked = `select from pg_stat_activity where application_name = 'sluice-dashboard' and query like '%dashboard.news%'`
  await until(async () => (await money.db.rows(isAsked)).length, {timeoutMs: 10_000, what: 'the first poll'})
  await money.deposit(shop.address, 5_000_000)
  await money.jobs.query('select app.sequence_events()')
  await until(async () => heard.includes('event: news'), {timeoutMs: 10_000, what: 'news'})
  expect(heard.replaceAll(/^(:|event: news\ndata:)?\n/gm, '')).toBe('')
  await money.db.rows('delete from auth.session where token = $1', [token])
  await until(async () => isOver, {timeoutMs: 10_000, what: 'the end of the stream'})
})

test('a database that is away is a page that says so, not an error', async () => {
  const away = await buildPages(openPool('postgres://nobody:x@127.0.0.1:1/none', {name: 'away', max: 1}))
  const response = await away.inject({url: '/', headers: {'sluice-session': 'x'}})
  expect([response.statusCode, response.headers['retry-after']]).toEqual([503, '5'])
  expect(response.body).toContain('Nothing was changed')
  await away.close()
})
