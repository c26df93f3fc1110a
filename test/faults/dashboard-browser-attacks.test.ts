// Attacks on the people who use the dashboard, in a real browser: forms and frames of other sites, planted sessions,
// and markup in every field that a merchant, a payer or an endpoint's response can fill.
import {createServer, type Server} from 'node:http'
import type {AddressInfo} from 'node:net'
import type {Browser} from 'playwright-core'
import {afterAll, afterEach, beforeAll, describe, expect, test} from 'vitest'
import {hasChromium, launchChromium} from '../support/chromium.ts'
import {filled, pagesOf, stateOf, things} from '../support/dashboard-routes.ts'
import {cookieName, follow, heading, type Person, Site, send, tokenIn} from '../support/dashboard-site.ts'
import {idOf} from '../support/people.ts'
import {password} from '../support/sign-in.ts'
import {until} from '../support/until.ts'
import {type Receiver, startReceiver} from '../support/webhooks.ts'

describe.skipIf(!hasChromium)('the dashboard in Chromium (skipped without one: set CHROMIUM_BIN)', () => {
  let site: Site
  let receiver: Receiver
  let ada: Person
  /** Ids of things of Ada's merchant. */
  let own: Record<string, string>
  let chromium: Browser
  let evil: Server
  let evilUrl: string
  /** What the page of another site has in its body. */
  let evilBody = ''

  beforeAll(async () => {
    ;[site, chromium, receiver] = await Promise.all([Site.open(), launchChromium(), startReceiver()])
    ada = await site.person((await site.money.merchant()).merchantId)
    own = await things(site, ada, {url: `${receiver.url}/own`})
    evil = createServer((_request, response) => response.writeHead(200, {'content-type': 'text/html'}).end(evilBody))
    await new Promise<void>(resolve => evil.listen(0, '127.0.0.1', resolve))
    evilUrl = `http://127.0.0.1:${(evil.address() as AddressInfo).port}/`
  })
  afterEach(() => Promise.all(chromium.contexts().map(context => context.close())))
  afterAll(async () => {
    await chromium?.close()
    evil?.closeAllConnections()
    await new Promise(resolve => evil?.close(resolve))
    await receiver?.close()
    await site?.close()
  })

  test("another site's form, filled and sent in the person's own browser, does nothing", async () => {
    const page = await site.page(chromium, ada)
    const before = await stateOf(site)
    for (const path of ['/api-keys', '/sign-out', '/security/sessions/end-others', `/payouts/${own.payouts}/cancel`]) {
      const inputs = Object.entries(filled(ada.email)).map(([name, value]) => `<input name="${name}" value="${value}">`)
      evilBody = `<form method="post" action="${site.url}${path}">${inputs.join('')}<button>Win</button></form>`
      await page.goto(evilUrl)
      await follow(page, () => page.getByRole('button', {name: 'Win'}).click())
      await heading(page, 'This was refused')
    }
    expect(await stateOf(site)).toEqual(before)
    await page.goto(`${site.url}/`)
    await heading(page, 'Overview') // still signed in
  })

  test('a frame of another site shows nothing', async () => {
    const page = await site.page(chromium, ada)
    for (const path of ['/', '/sign-in', '/security', '/api-keys/new']) {
      evilBody = `<iframe src="${site.url}${path}"></iframe>`
      await page.goto(evilUrl)
      const frame = page.frames()[1]!
      expect(frame.url().startsWith(site.url), path).toBe(false)
      expect(await frame.locator('form').count()).toBe(0)
    }
    expect((await ada.http.get('/')).headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
  })

  test('a session that was planted before the sign-in is not the one after, and the cookie is out of reach of scripts and other sites', async () => {
    const eve = await site.person((await site.money.merchant()).merchantId)
    const page = await site.page(chromium, eve) // Eve planted her own session in Ada's browser
    const planted = tokenIn(eve.http.cookies.get(cookieName))
    await page.goto(`${site.url}/sign-in`)
    await send(page, {'E-mail': ada.email, Password: password}, 'Sign in')
    const half = await cookies()
    await send(page, {'Code of your authenticator': await site.code(ada.secret)}, 'Confirm')
    const whole = await cookies()
    const tokens = [planted, ...[half, whole].map(all => tokenIn(all.find(({name}) => name === cookieName)!.value))]
    expect(new Set(tokens).size).toBe(3)
    const alive = await site.money.db.rows('select token from auth.session where token = any($1)', [tokens])
    expect(alive).toEqual([{token: tokens[2]}])
    expect(whole.length).toBeGreaterThan(0)
    for (const cookie of whole)
      expect(cookie).toMatchObject({
        name: expect.stringMatching(/^__Host-/),
        domain: 'localhost',
        path: '/',
        httpOnly: true,
        secure: true,
        sameSite: 'Lax',
      })
    expect(await page.evaluate('document.cookie')).toBe('')
    async function cookies() {
      return await page.context().cookies(site.url)
    }
  })

  test('whatever a merchant, a payer or a response puts into a field is shown as text', async () => {
    const {money} = site
    const shop = await money.merchant()
    const ada = await site.person(shop.merchantId)
    site.complaints.splice(0)
    const fields: string[] = []
    const attack = (name: string) => {
      fields.push(name)
      return `"'></title></textarea></script><img/src=x/onerror=alert(1)><x-ss>${name}</x-ss>`
    }
    const set = (sql: string, ...values: string[]) => money.db.rows(sql, values)
    await set('update app.user set external_ref = $2 where id = $1', shop.userId, attack('external_ref'))
    await set('update app.merchant set name = $2 where id = $1', shop.merchantId, attack('merchant'))
    await set(
      `update app.payout_address set address = $2 where merchant_id = $1`,
      shop.merchantId,
      attack('payout address'),
    )
    receiver.response = (_request, response) => response.writeHead(400).end(attack('response').toLowerCase())
    const ids = await things(site, ada, {url: `${receiver.url}/${attack('url')}`, label: attack('label')})
    const event = idOf(ids.deliveries!)
    await until(async () => (await set('select from app.delivery_attempt where delivery_id = $1', event)).length > 0, {
      timeoutMs: 20_000,
      what: 'the attempt',
    })
    await money.eth.write({
      add: [[{txid: attack('txid'), sender: attack('sender'), amount: 3_000_000n, recipient: shop.address}]],
    })
    await money.finalise()
    const [payer] = await money.db.rows<{id: string}>(
      `select app.public_id('dep', id) as id from app.deposit where txid like '%x-ss%'`,
    )
    const [member] = await money.db.rows<{id: string}>(
      'select user_id as id from dashboard.member where merchant_id = $1',
      [shop.merchantId],
    )
    await set(
      `insert into auth.passkey ("userId", name, "publicKey", "credentialID", counter, "deviceType", "backedUp") values ($1, $2, 'x', 'x', 0, 'x', false)`,
      member!.id,
      attack('passkey'),
    )
    await set(
      `insert into dashboard.audit_entry (merchant_id, user_id, ip, action, target, detail, outcome) values ($1, $2, $3, $4, $5, $6, $7)`,
      shop.merchantId,
      member!.id,
      attack('ip'),
      attack('action'),
      'x',
      attack('detail'),
      attack('outcome'),
    )
    await set(
      `update auth.session set "userAgent" = $2, "ipAddress" = $3 where "userId" = $1`,
      member!.id,
      `<x-ss>agent`,
      attack('session ip'),
    )
    await set('update auth."user" set email = $2, name = $2 where id = $1', member!.id, attack('email'))

    const query = (path: string, ...names: string[]) =>
      `${path}?${new URLSearchParams(Object.fromEntries(names.map(name => [name, attack(`${path} ${name}`)])))}`
    const page = await site.page(chromium, ada)
    let seen = ''
    for (const path of [
      ...pagesOf(site, ids),
      `/deposits/${payer!.id}`,
      query('/search', 'q'),
      query('/users', 'beginning'),
      query('/api-keys/new', 'label'),
      query('/webhooks/new', 'url'),
      query('/payout-addresses/ETH', 'address'),
      query('/sign-in', 'next'),
      query('/second-factor', 'next', 'notice'),
      query('/security', 'done'),
      query('/deposits', 'status', 'before'),
      query(`/webhooks/${ids.webhooks}/deliveries`, 'sent'),
    ]) {
      await page.goto(site.url + path)
      expect(
        await page.evaluate(`document.querySelectorAll('x-ss, img:not(.qr), [onerror], script:not([src])').length`),
        path,
      ).toBe(0)
      seen += await page.evaluate(texts)
    }
    // These are words of our own, or never shown: whatever else they are does nothing.
    const unseen = /^\/(sign-in|second-factor|security|deposits|webhooks\/.*)( |$)/
    for (const field of fields.filter(name => !unseen.test(name)))
      expect(seen.toLowerCase().includes(`<x-ss>${field.toLowerCase()}`), `${field} was on no page`).toBe(true)
    site.expectNoComplaints()
  })
})

/** Every text that a page has, and what is typed into its fields. */
const texts = `document.documentElement.textContent + [...document.querySelectorAll('input')].map(input => input.value).join(' ')`
