// What merchants do in the dashboard, in a real browser: keys, payout addresses, payouts, webhooks; and pages that stay
// right while they are open.
import type {Browser, Page, Route} from 'playwright-core'
import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, test} from 'vitest'
import {eventTypes} from '../../base/event-types.ts'
import {fillPool} from '../support/api.ts'
import {hasChromium, launchChromium} from '../support/chromium.ts'
import {alertOf, fieldOf, follow, heading, main, type Person, Site, send} from '../support/dashboard-site.ts'
import {idOf, type TestUser} from '../support/people.ts'
import {readQr} from '../support/qr.ts'
import {until} from '../support/until.ts'
import {type Receiver, startReceiver} from '../support/webhooks.ts'

describe.skipIf(!hasChromium)('the dashboard in Chromium (skipped without one: set CHROMIUM_BIN)', () => {
  let site: Site
  let chromium: Browser
  let receiver: Receiver
  let shop: TestUser
  let ada: Person
  let page: Page

  beforeAll(async () => {
    ;[site, chromium, receiver] = await Promise.all([Site.open(), launchChromium(), startReceiver()])
  })
  beforeEach(async () => {
    shop = await site.money.merchant()
    ada = await site.person(shop.merchantId)
    page = await site.page(chromium, ada)
    receiver.response = (_request, response) => response.writeHead(204).end()
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

  const open = (path: string) => page.goto(site.url + path)
  const click = (role: 'link' | 'button', name: string | RegExp) =>
    follow(page, () => main(page).getByRole(role, {name}).first().click())
  const shownSecret = async () => (await page.locator('.secret code').textContent())!
  const rowOf = (text: string) => page.getByRole('row', {name: text})
  const says = (text: string | RegExp) => main(page).getByText(text).first().waitFor()

  test('a key is made once, whatever is reloaded; it is rotated without downtime, and refused at once when it is revoked', async () => {
    const works = async (key: string) =>
      (await fetch(`${site.api.url}/v1/balances`, {headers: {authorization: `Bearer ${key}`}})).status === 200
    await open('/api-keys/new')
    await send(page, {Label: 'till'}, 'Create the key')
    const first = await shownSecret()
    expect(await works(first)).toBe(true)
    await follow(page, () => page.reload()) // which sends the form again
    await heading(page, 'Done already')
    expect(await page.content()).not.toContain(first)
    await open('/api-keys')
    expect(await page.getByRole('row', {name: 'till'}).count()).toBe(1)
    expect(await page.content()).not.toContain(first)

    await click('link', 'Rotate till')
    await click('button', 'Make the new key')
    const second = await shownSecret()
    expect([await works(first), await works(second)]).toEqual([true, true])
    await click('link', 'revoke the old one')
    await says('Last used')
    expect(await main(page).locator('dl code').textContent()).toMatch(/^key_[0-9a-f]{32}$/)
    await open('/api-keys')
    expect(await rowOf('till').last().textContent()).toContain('There is a newer key with this label.')
    await page.goBack()
    await click('button', 'Revoke the key')
    expect([await works(first), await works(second)]).toEqual([false, true])
    await heading(page, 'API keys')
    expect(await page.getByRole('row', {name: 'till'}).count()).toBe(2)
    expect(await page.getByRole('row', {name: 'till'}).last().textContent()).toContain('revoked')
    await open('/audit-log')
    expect(await page.locator('td:first-child').allTextContents()).toEqual([
      'API key: revoke',
      'API key: create',
      'API key: create',
      ...['Authenticator: set up', 'Invitation: accept', 'Invitation: create'],
    ])
  })

  test('a payment request is made, shown to its customer, seen and paid while its page is open, and another one is cancelled', async () => {
    await fillPool(site.money.db, 2)
    await open('/payment-requests')
    await says('No payment requests yet.')
    await click('link', 'New payment request')
    await page.getByRole('combobox', {name: 'Currency'}).selectOption('ETH-USDC')
    await send(page, {Amount: '0,5', Reference: 'invoice 7/25'}, 'Make the payment request')
    expect(await alertOf(page)).toBe('Amount must be a plain decimal, such as 25.5.')
    expect(await fieldOf(page, 'Reference').inputValue()).toBe('invoice 7/25')
    await send(page, {Amount: '12.5', 'May be missing': '0.5'}, 'Make the payment request')
    await heading(page, 'Request for 12.5 ETH-USDC')
    const [made] = await site.money.db.rows<{external_id: string; address: string; tolerance: string}>(
      `select r.external_id, a.address, r.tolerance from app.payment_request r join app.address a on a.payment_request_id = r.id
       where r.merchant_id = $1`,
      [shop.merchantId],
    )
    expect(made).toMatchObject({external_id: expect.stringMatching(/-invoice 7\/25$/), tolerance: '62500'})
    const customer = await page.getByRole('link', {name: 'Open the page'}).getAttribute('href')
    expect(await (await fetch(customer!)).text()).toContain(made!.address)
    const picture = await page.getByRole('img', {name: 'QR code of the payment'}).screenshot()
    expect((await readQr(picture)).text).toBe(made!.address)

    await site.money.deposit(made!.address, 12_500_000, {final: false})
    await page.getByText('12.5 USDC came').waitFor() // by itself
    await site.money.finalise()
    await page.getByRole('status').getByText('paid', {exact: true}).waitFor()
    expect(await page.getByRole('img', {name: 'QR code of the payment'}).count()).toBe(0)
    await open(`/search?q=${encodeURIComponent(made!.external_id)}`)
    await heading(page, 'Request for 12.5 ETH-USDC')

    await open('/payment-requests/new?amount=7&reference=other')
    await says('This form is filled in already.')
    await click('button', 'Make the payment request')
    await click('link', 'Cancel the request')
    await click('button', 'Cancel the request')
    await page.getByRole('status').getByText('cancelled', {exact: true}).waitFor()
    await open('/payment-requests?status=paid')
    expect(await page.getByRole('row').count()).toBe(2)
  })

  test('a payout address that cannot be right is refused with the reason; another one waits for the operator, whose command is shown', async () => {
    await open('/payout-addresses')
    await click('link', 'Change the address on ETH')
    await send(page, {'New address': '0xdef1'}, 'Save the address')
    expect(await alertOf(page)).toBe('This address must be 0x and 40 hex digits')
    expect(await fieldOf(page, 'New address').inputValue()).toBe('0xdef1')
    const wrongCase = '0xd8Da6BF26964aF9D7eEd9e03E53415D37aA96045'
    await send(page, {'New address': wrongCase}, 'Save the address')
    expect(await alertOf(page)).toMatch(/^This address /)
    const address = '0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045'
    await send(page, {'New address': address}, 'Save the address')
    await heading(page, 'Payout addresses')
    const [merchant] = await site.money.db.rows<{prefix: string}>('select prefix from app.merchant where id = $1', [
      shop.merchantId,
    ])
    const command = `sluice whitelist add --merchant ${merchant!.prefix} --chain ETH --address ${address}`
    expect(await page.getByRole('region', {name: 'command for the operator'}).textContent()).toBe(command)
    expect(await rowOf('ETH').textContent()).toContain('not on the whitelist')
    await site.money.db.rows('insert into custody.whitelist (merchant_id, chain, address) values ($1, $2, $3)', [
      shop.merchantId,
      'ETH',
      address,
    ])
    await open('/payout-addresses')
    expect(await rowOf('ETH').textContent()).toContain('on the whitelist')
    expect(await page.getByRole('region', {name: 'command for the operator'}).count()).toBe(0)
  })

  test('a payout is cancelled until its payment begins; another one shows each step as it happens, to the final transaction', async () => {
    await site.money.topUp('ETH', 1_000_000)
    await site.money.topUp('USDC', 100_000_000)
    await site.money.deposit(shop.address, 20_000_000)
    await open('/')
    await click('link', 'Pay out 19.8 USDC on ETH')
    await click('button', 'Pay out 19.8 USDC')
    await click('link', 'Cancel this payout')
    await click('button', 'Cancel the payout')
    await says('It was cancelled by the merchant, and nothing was paid.')
    await page.goto(`${page.url()}/cancel`)
    await heading(page, 'This payout cannot be cancelled')

    await open('/payouts/new?chain=ETH&token=USDC')
    await click('button', 'Pay out 19.8 USDC')
    await page.evaluate('window.isTheSame = true')
    const payout = idOf(page.url().split('/').at(-1)!)
    const steps = page.locator('.time-line')
    const state = page.locator('.card').getByRole('status')
    await state.getByText('pending').waitFor()
    await site.money.work('begin_sweeping', payout)
    await state.getByText('sweeping').waitFor()
    await site.money.work('end_sweeping', payout)
    await state.getByText('swept').waitFor()
    expect(await page.getByRole('link', {name: 'Cancel this payout'}).count()).toBe(1)
    expect(await site.money.work('begin_payment', payout, 10)).toBeNull()
    const txid = (await site.money.attempt(await site.money.payment(payout)))!
    await state.getByText('paying').waitFor()
    expect(await page.getByRole('link', {name: 'Cancel this payout'}).count()).toBe(0)
    await site.money.mineFinally([txid])
    await state.getByText('completed').waitFor()
    expect(await steps.locator('.past strong').allTextContents()).toEqual(
      expect.arrayContaining(['Requested', 'Sweeping', 'Swept', 'Paying', 'Completed']),
    )
    expect(await page.getByRole('link', {name: 'See it in the explorer'}).getAttribute('href')).toBe(
      `https://sepolia.etherscan.io/tx/${txid}`,
    )
    expect(await page.evaluate('window.isTheSame')).toBe(true)
  })

  test('what a payout is made of shows on its open page as soon as it has collected that, and leads to each deposit', async () => {
    const txid = await site.money.deposit(shop.address, 20_000_000)
    await site.money.deposit(shop.address, 5_000_000)
    const payout = await site.money.withoutAllocation(shop, 'USDC', () => site.money.claim(shop))
    await open(`/payouts/pay_${payout.replaceAll('-', '')}`)
    await says('It is still collecting: 0 of 2 deposits so far.')
    await page.evaluate('window.isTheSame = true')
    while (await site.money.allocate(shop, 1));
    await says('Together this is the gross: 25 USDC.')
    expect(await page.evaluate('window.isTheSame')).toBe(true)
    await click('link', '20 USDC')
    await heading(page, '20 USDC')
    expect(await main(page).textContent()).toContain(txid)
  })

  test('an endpoint is added, tested with each type, rotated, disabled and enabled; what failed is sent again, and what it said is shown', async () => {
    await open('/webhooks')
    await says('No webhook endpoint yet.')
    await click('link', 'Add an endpoint')
    await send(page, {URL: 'https://user:secret@example.com/'}, 'Add the endpoint')
    expect(await alertOf(page)).toContain('must hold no user name or password')
    await send(page, {URL: `${receiver.url}/hook`}, 'Add the endpoint')
    const secret = await shownSecret()
    expect(secret).toMatch(/^whsec_/)
    await click('link', /to the endpoint/)
    const endpoint = page.url()

    const arrived = (count: number) =>
      until(async () => receiver.received.length >= count, {timeoutMs: 20_000, what: `${count} to arrive`})
    for (const [index, type] of eventTypes.entries()) {
      await page.goto(endpoint)
      await fieldOf(page, 'Event').selectOption(type)
      await click('button', 'Send')
      await heading(page, type)
      await arrived(index + 1)
    }
    expect(receiver.received.map(({event}) => event.type)).toEqual([...eventTypes])
    await says('Responded with 204')
    await open(`${new URL(endpoint).pathname}/deliveries`)
    expect(await page.getByRole('row', {name: 'delivered'}).count()).toBe(eventTypes.length)

    await page.goto(`${endpoint}/rotate`)
    await click('button', 'Rotate the secret')
    expect(await shownSecret()).not.toBe(secret)
    await page.goto(endpoint)
    await says(/signs, too, until/)

    receiver.response = (_request, response) => response.writeHead(503).end('we are closed <today>')
    await click('button', 'Send')
    await says('answered 503: we are closed <today>')
    expect(receiver.received.at(-1)!.headers['webhook-signature']).toMatch(/^v1,\S+ v1,\S+$/)
    const delivery = page.url()
    await page.goto(endpoint)
    await page.getByRole('status').getByText('failing').waitFor()
    await click('link', 'Disable')
    await click('button', 'Disable the endpoint')
    await says('You disabled it.')
    await page.goto(delivery)
    await page.locator('.card').getByRole('status').getByText('failed').waitFor()

    receiver.response = (_request, response) => response.writeHead(204).end()
    await page.goto(endpoint)
    await click('link', 'Enable it')
    await click('button', 'Enable the endpoint')
    await page.goto(`${endpoint}/deliveries`)
    await click('button', 'Send again')
    await says('One delivery is sent again.')
    await arrived(eventTypes.length + 2)
    const before = receiver.received.length
    await page.goto(delivery)
    await click('button', 'Send it again')
    await arrived(before + 1)
    const ids = receiver.received.slice(-3).map(({headers}) => headers['webhook-id'])
    expect(new Set(ids).size).toBe(1)
    await page.goto(`${endpoint}/delete`)
    await click('button', 'Delete the endpoint')
    await says('No webhook endpoint yet.')
  })

  test('a page of a session that was ended elsewhere leads to the sign-in by itself', async () => {
    const elsewhere = await site.page(chromium, await site.signedInAgain(ada))
    await open('/deposits')
    await elsewhere.goto(`${site.url}/security`)
    await follow(elsewhere, () => elsewhere.getByRole('button', {name: 'End all others'}).click())
    await heading(page, 'Sign in')
    await heading(elsewhere, 'Security')
  })

  test('a page in the background asks for nothing, and shows what is new once somebody looks at it', async () => {
    const hidden = await page.context().newPage()
    let asked = 0
    hidden.on('request', request => {
      if (request.url().endsWith('/part')) asked += 1
    })
    await followed(hidden, () => hidden.goto(`${site.url}/deposits`))
    await followed(page, () => open('/deposits'))
    asked = 0
    const show = (isHidden: boolean) =>
      hidden.evaluate(`Object.defineProperty(document, 'hidden', {value: ${isHidden}, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'))`)
    await show(true)
    await site.money.deposit(shop.address, 7_000_000)
    await rowOf('7 USDC').waitFor()
    expect(asked).toBe(0)
    await show(false)
    await hidden.getByRole('row', {name: '7 USDC'}).waitFor()
  })

  /** Opens a page, and waits until it follows the news. */
  const followed = (on: Page, act: () => Promise<unknown>) =>
    Promise.all([on.waitForResponse(response => response.url().endsWith('/part')), act()])

  test('what happens while a page is being opened is not missed', async () => {
    const meanwhile = async (route: Route) => {
      await site.money.deposit(shop.address, 6_000_000)
      await site.money.jobs.query('select app.sequence_events()')
      await route.continue()
    }
    await page.route('**/live', meanwhile, {times: 1})
    await open('/deposits')
    await rowOf('6 USDC').waitFor()
  })

  test('news leaves what is being typed, and the focus, as they are', async () => {
    await open('/')
    const search = page.getByRole('searchbox')
    await search.pressSequentially('0xab')
    await site.money.deposit(shop.address, 9_000_000)
    await rowOf('9 USDC').waitFor()
    expect(await search.inputValue()).toBe('0xab')
    await page.keyboard.type('cd')
    expect(await search.inputValue()).toBe('0xabcd')
    await page.getByRole('link', {name: 'Pay out 8.91 USDC on ETH'}).focus()
    await site.money.deposit(shop.address, 1_000_000, {final: false})
    await rowOf('1 USDC').waitFor()
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Pay out 8.91 USDC on ETH')
  })
})
