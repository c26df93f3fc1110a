// Every page of the dashboard in a real browser, with much data: nothing overflows or sticks out of its card, at five
// widths; axe finds nothing, at two of them and in two schemes; the browser has no complaint. The pages are asked of
// the servers, so that a new one is looked at, too.
import {readFileSync} from 'node:fs'
import type {Browser, Page} from 'playwright-core'
import {afterAll, afterEach, beforeAll, describe, expect, test} from 'vitest'
import {codeAt} from '../../dashboard/auth/totp.ts'
import {hasChromium, launchChromium} from '../support/chromium.ts'
import {form, pagesOf, payoutForm, things} from '../support/dashboard-routes.ts'
import {alertOf, follow, heading, type Person, Site, send} from '../support/dashboard-site.ts'
import {PaymentRequests} from '../support/payment-requests.ts'
import {idOf, type TestUser} from '../support/people.ts'
import {step} from '../support/sign-in.ts'
import {type Receiver, startReceiver} from '../support/webhooks.ts'

const axe = readFileSync(new URL('../../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8')
const rules = ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice']
const widths = [320, 390, 768, 820, 1440]
/** Narrow and wide: a layout between them shows what one of them shows. */
const axeWidths = [390, 1440]
const schemes = ['light', 'dark'] as const
/** As long as an amount can be: none of its digits may be hidden. */
const longAmount = {text: '12345678.495000000000000001', units: 12_345_678_495_000_000_000_000_001n}
/** What people cannot read whole: text that sticks out of its card or button, or is cut off there. */
const cutOff = `[...document.querySelectorAll('main .card *')].flatMap(element => {
  const card = element.closest('.card').getBoundingClientRect()
  const isShown = element.checkVisibility() && !element.closest('.unseen')
  const isOut = isShown && element.getBoundingClientRect().right > card.right + 1
  const isCut = isShown && element.matches('.amount, .digits, .button, button') && element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0
  return isOut || isCut ? [element.tagName + '.' + element.className + ': ' + element.textContent.slice(0, 60)] : []
})`

describe.skipIf(!hasChromium)('the dashboard in Chromium (skipped without one: set CHROMIUM_BIN)', () => {
  let site: Site
  let chromium: Browser
  let receiver: Receiver

  beforeAll(async () => {
    ;[site, chromium, receiver] = await Promise.all([Site.open(), launchChromium(), startReceiver()])
  })
  afterEach(async () => {
    await Promise.all(chromium.contexts().map(context => context.close()))
    site.expectNoComplaints()
  })
  afterAll(async () => {
    await chromium?.close()
    await receiver?.close()
    await site?.close()
  })

  /** What is wrong with a page, at each width and in each scheme. */
  async function look(page: Page, name: string): Promise<string[]> {
    const wrong: string[] = []
    await page.evaluate(axe)
    for (const width of widths)
      for (const colorScheme of schemes) {
        // The scheme changes colours alone, and the width does not change them.
        if (colorScheme === 'dark' && width !== widths.at(-1)) continue
        await page.emulateMedia({colorScheme})
        await page.setViewportSize({width, height: 900})
        const over = (await page.evaluate('document.documentElement.scrollWidth - innerWidth')) as number
        if (over > 0) wrong.push(`${name} is ${over} pixels wider than ${width}`)
        const cut = (await page.evaluate(cutOff)) as string[]
        wrong.push(...cut.map(text => `${name}, ${width}: cut off: ${text}`))
        if (!axeWidths.includes(width)) continue
        const run = {
          runOnly: colorScheme === 'light' ? {type: 'tag', values: rules} : {type: 'rule', values: ['color-contrast']},
          rules: {'color-contrast': {enabled: width === widths.at(-1)}},
          resultTypes: ['violations'],
        }
        const violations = (await page.evaluate(
          `axe.run(${JSON.stringify(run)}).then(({violations}) =>
             violations.flatMap(({id, nodes}) => nodes.map(({target}) => id + ' at ' + target)))`,
        )) as string[]
        wrong.push(...violations.map(violation => `${name}, ${width}, ${colorScheme}: ${violation}`))
      }
    if (name.startsWith('/statements')) wrong.push(...(await print(page, name)))
    return wrong
  }

  /** What does not fit on paper, as wide as A4 is within its margins. */
  async function print(page: Page, name: string): Promise<string[]> {
    await page.emulateMedia({media: 'print'})
    await page.setViewportSize({width: 718, height: 1040})
    const over = (await page.evaluate('document.documentElement.scrollWidth - innerWidth')) as number
    const cut = (await page.evaluate(cutOff)) as string[]
    await page.emulateMedia({media: 'screen'})
    return [...(over > 0 ? [`${over} pixels wider`] : []), ...cut].map(text => `${name}, on paper: ${text}`)
  }

  /** A merchant that has much of everything, and of everything the longest. */
  async function busy(): Promise<{shop: TestUser; ada: Person; ids: Record<string, string>; more: string[]}> {
    const {money} = site
    const shop = await money.merchant()
    const ada = await site.person(shop.merchantId)
    await money.db.rows(`insert into app.merchant_chain (merchant_id, chain) values ($1, 'POLYGON'), ($1, 'BTC')`, [
      shop.merchantId,
    ])
    const reference = 'an-order-reference-of-a-shop-that-has-very-long-ones-'.repeat(4).slice(0, 200)
    await money.db.rows('update app.user set external_ref = $2 where id = $1', [shop.userId, reference])
    await money.db.rows('update app.merchant set name = $2, time_zone = $3 where id = $1', [
      shop.merchantId,
      'A merchant with an Unbreakablylongname'.repeat(2),
      'America/Argentina/Buenos_Aires', // the longest that there is
    ])
    receiver.response = (_request, response) => response.writeHead(500).end('x'.repeat(5000))
    const ids = await things(site, ada, {url: `${receiver.url}/${'a-long-path/'.repeat(40)}`, label: 'l'.repeat(100)})
    const failed = idOf(ids.payouts!)
    await money.work('begin_sweeping', failed)
    for (let n = 0; n < 30; n++) await money.deposit(shop.address, 1_000_001 + n, {final: n === 29})
    await money.deposit(shop.address, 123_456_789_012_345)
    await money.deposit(shop.address, 5_000_000, {final: false})
    const waiting = await ada.http.post('/payouts', await payoutForm(money, ada, {sweep_first: '1'}))
    const cancelled = waiting.location!
    await ada.http.post(`${cancelled}/cancel`, form())
    await money.deposit(shop.address, 77_000_000)
    const last = (await ada.http.post('/payouts', await payoutForm(money, ada))).location!
    await money.db.rows(
      `update app.payout set waiting_reason = 'not_whitelisted', waiting_since = clock_timestamp() where id = $1`,
      [idOf(last.split('/').at(-1)!)],
    )
    await money.deposit(shop.address, 88_000_000)
    await money.db.rows(
      `insert into app.deposit (id, merchant_id, user_id, chain, token, amount, sender, address, txid, output_index, status, credited, version)
       values (uuidv7(), $1, $2, 'ETH', '0x0000000000000000000000000000000000000bad', $3, $4, $4, $5, 0, 'pending', false, 1)`,
      [shop.merchantId, shop.userId, String(longAmount.units), shop.address, money.newTxid()],
    )
    const long = await longAmounts(shop)
    const reorged = await money.deposit(shop.address, 6_000_000, {final: false})
    await money.eth.write({drop: 1, add: [[]]})
    const [gone] = await money.db.rows<{id: string}>(
      `select app.public_id('dep', id) as id from app.deposit where txid = $1`,
      [reorged],
    )
    await ada.http.post('/webhooks', form({url: 'https://example.com/second', event_types: 'payout.failed'}))
    const disabled = /href="\/webhooks\/([^"/]+)">https:\/\/example.com\/second/.exec(
      (await ada.http.get('/webhooks')).text,
    )![1]!
    await ada.http.post(`/webhooks/${disabled}/disable`, form())
    return {
      shop,
      ada,
      ids,
      more: [
        cancelled,
        last,
        ...long,
        `/deposits/${gone!.id}`,
        `/webhooks/${disabled}`,
        '/deposits?status=final&chain=ETH',
        '/search?q=nothing',
        `/search?q=${shop.address}`,
      ],
    }
  }

  /** A deposit, a payout with a payment and a debt, and a balance, with the longest amounts; their pages. */
  async function longAmounts(shop: TestUser): Promise<string[]> {
    const {money} = site
    const paid = async (recipient = shop.address) => {
      const txid = money.newTxid()
      await money.block([{txid, token: 'ETH', amount: longAmount.units, recipient}], [])
      await money.finalise()
      return txid
    }
    const txid = await paid()
    const requests = await PaymentRequests.open(money.db)
    const externalId = `${await requests.prefixOf(shop.merchantId)}-${'a-reference-without-an-end-'.repeat(9)}`
    const request = await requests.create(money.api, shop.merchantId, {currency: 'ETH', externalId, amount: '1'})
    await paid(request.address)
    const payout = await money.claim(shop, 'ETH')
    await money.db.rows(
      `insert into app.adjustment (merchant_id, chain, token, amount, reason, deposit_id, settlement_id)
       select p.merchant_id, p.chain, p.token, -d.amount, 'deposit_lost', d.id, p.id from app.payout p, app.deposit d where p.id = $1 and d.txid = $2`,
      [payout, txid],
    )
    await paid()
    const [ids] = await money.db.rows<{deposit: string; payout: string}>(
      `select app.public_id('dep', id) as deposit, app.public_id('pay', $2) as payout from app.deposit where txid = $1`,
      [txid, payout],
    )
    return [
      `/payment-requests/${encodeURIComponent(externalId)}`,
      `/deposits/${ids!.deposit}`,
      `/payouts/${ids!.payout}`,
      '/payouts/new?chain=ETH&token=ETH',
    ]
  }

  test('every page fits 320, 390, 768, 820 and 1440 pixels, light and dark; amounts are shown in full; axe finds nothing; the browser does not complain', async () => {
    const {ada, ids, more} = await busy()
    expect((await ada.http.get(more[2]!)).text).toContain(longAmount.text)
    const empty = await site.person((await site.money.merchant()).merchantId)
    const invitation = (await site.invitation(ada.merchantId)).slice(site.url.length)
    const wrong: string[] = []
    const visits: [Person | undefined, string][] = [
      ...[...pagesOf(site, ids), ...more].map((path): [Person, string] => [ada, path]),
      ...['/', '/deposits', '/payouts', '/payment-requests', '/api-keys', '/webhooks', '/audit-log'].map(
        (path): [Person, string] => [empty, path],
      ),
      [undefined, invitation],
    ]
    const tab = async () => {
      const pages = new Map<Person | undefined, Page>()
      for (let next = visits.pop(); next; next = visits.pop()) {
        const [person, path] = next
        const page = pages.get(person) ?? (await site.page(chromium, person))
        pages.set(person, page)
        const response = await page.goto(site.url + path)
        const expected = path === '/nothing/here' ? 404 : 200
        if (response!.status() !== expected) wrong.push(`${path}: ${response!.status()}`)
        wrong.push(...(await look(page, path)))
      }
    }
    await Promise.all([tab(), tab(), tab()])
    expect(wrong).toEqual([])
  }, 240_000)

  test('so do the pages that are seen once: a secret, an authenticator, recovery codes, a refused form, the menus', async () => {
    const shop = await site.money.merchant()
    const ada = await site.person(shop.merchantId)
    const page = await site.page(chromium, ada)
    const wrong: string[] = []
    await page.goto(`${site.url}/api-keys/new`)
    for (const box of await page.getByRole('checkbox').all()) await box.uncheck()
    await send(page, {Label: 'x'}, 'Create the key')
    expect(await alertOf(page)).toBe('Tick at least one scope.')
    wrong.push(...(await look(page, 'a refused form')))
    await page.getByRole('checkbox').first().check()
    await send(page, {}, 'Create the key')
    wrong.push(...(await look(page, 'a secret')))
    await follow(page, () => page.reload())
    wrong.push(...(await look(page, 'done already')))
    await page.goto(`${site.url}/webhooks/new`)
    await send(page, {URL: 'https://example.com/'}, 'Add the endpoint')
    wrong.push(...(await look(page, "an endpoint's secret")))
    await page.goto(`${site.url}/security`)
    await follow(page, () => page.getByRole('button', {name: 'Replace the authenticator'}).click())
    const secret = (await page.locator('main code').textContent())!.replaceAll(' ', '')
    wrong.push(...(await look(page, 'an authenticator')))
    await site.money.db.rows('delete from dashboard.used_code')
    await send(page, {Code: codeAt(secret, step())}, 'Confirm')
    await heading(page, 'Recovery codes')
    wrong.push(...(await look(page, 'recovery codes')))
    await page.goto(`${site.url}/`)
    await page.setViewportSize({width: 390, height: 900})
    for (const name of ['Menu', 'Test']) {
      await page.getByRole('button', {name}).click()
      await page.evaluate(axe)
      expect(await page.evaluate(`axe.run().then(({violations}) => violations.map(({id}) => id))`)).toEqual([])
      await page.keyboard.press('Escape')
    }
    expect(wrong).toEqual([])
  })
})
