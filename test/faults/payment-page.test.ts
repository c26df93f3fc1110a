// The page of a payment request in a real browser, from a real server, while a test writes the chain.
import {readFileSync} from 'node:fs'
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import type {Browser, BrowserContextOptions, Page} from 'playwright-core'
import {afterAll, afterEach, beforeAll, describe, expect, test} from 'vitest'
import {languageCodes} from '../../api/pay/voice.ts'
import {type Api, startApi} from '../support/api.ts'
import {hasChromium, launchChromium} from '../support/chromium.ts'
import {Money} from '../support/money.ts'
import {type Made, PaymentRequests} from '../support/payment-requests.ts'
import {readQr} from '../support/qr.ts'
import {until} from '../support/until.ts'

const axe = readFileSync(new URL('../../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8')
const usdc = '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238'
const refused = 'Failed to load resource: net::ERR_CONNECTION_REFUSED'
const phone = {viewport: {width: 320, height: 568}, hasTouch: true, isMobile: true}

describe.skipIf(!hasChromium)('the page in Chromium (skipped without one: set CHROMIUM_BIN)', () => {
  let money: Money
  let requests: PaymentRequests
  let api: Api
  let browser: Browser
  let merchantId: string
  /** The errors of every page of a test. */
  const urls: string[] = []
  const complaints: string[] = []

  beforeAll(async () => {
    money = await Money.open()
    requests = await PaymentRequests.open(money.db)
    api = await startApi(money.db)
    merchantId = (await money.merchant()).merchantId
    browser = await launchChromium()
  })
  afterEach(async () => {
    await Promise.all(browser.contexts().map(context => context.close()))
    const asked = urls.splice(0)
    const complained = complaints.splice(0)
    expect(asked.filter(url => !url.startsWith(`${api.url}/pay/`))).toEqual([])
    expect(complained).toEqual([])
  })
  afterAll(async () => {
    await browser?.close()
    await api?.close()
    await money?.close()
  })

  /** A request for this many millionths of a USDC. */
  const ask = (amount = 1_000_000) => requests.create(money.api, merchantId, {amount})

  async function open({page_token}: Made, options: BrowserContextOptions = {}, query = '', script = ''): Promise<Page> {
    const context = await browser.newContext({permissions: ['clipboard-read', 'clipboard-write'], ...options})
    const page = await context.newPage()
    await page.addInitScript(script)
    page.on('request', request => urls.push(request.url()))
    page.on('console', message => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
    })
    page.on('pageerror', error => complaints.push(error.message))
    page.on('dialog', dialog => complaints.push(dialog.message()))
    await page.goto(`${api.url}/pay/${page_token}${query}`)
    return page
  }

  const heading = (page: Page, text: string) => page.getByRole('heading', {name: text, exact: true}).waitFor()
  const text = (page: Page, selector: string) => page.locator(selector).textContent()
  const uriFor = ({address}: Made, baseUnits: number) =>
    `ethereum:${usdc}@11155111/transfer?address=${address}&uint256=${baseUnits}`
  const codeOn = async (page: Page) => (await readQr(await page.screenshot({fullPage: true}))).text

  test('shows the exact amount and address; its QR code is the address, with the payment URI as the choice beside it', async () => {
    const made = await ask(1_234_567)
    const page = await open(made)
    expect(await text(page, '#amount')).toBe('1.234567')
    expect(await text(page, '#address')).toBe(made.address)
    expect(await page.getByRole('link', {name: 'Open in wallet'}).isVisible()).toBe(false)
    expect(await codeOn(page)).toBe(made.address)
    await page.getByText('for wallets that read payment links').click()
    await page.evaluate(`document.querySelector('#code').remove()`)
    await page.locator('#link').scrollIntoViewIfNeeded()
    await page.waitForFunction(
      `document.querySelector('#link').complete && document.querySelector('#link').naturalWidth > 0`,
    )
    expect(await codeOn(page)).toBe(uriFor(made, 1_234_567))
    expect(await text(page, '#clock')).toMatch(/^(24:00:00|23:59:\d\d)$/)
    expect(await page.title()).toBe('Waiting for your payment: 1.234567 USDC')
  })

  test('has shop, time, amount, code, address, their buttons and what comes next above the fold of a phone', async () => {
    const page = await open(await ask(1_234_567), {viewport: {width: 390, height: 664}, hasTouch: true, isMobile: true})
    for (const name of ['Copy the amount', 'Copy the address']) {
      const {y, height} = (await page.getByRole('button', {name}).boundingBox())!
      expect(y + height, name).toBeLessThanOrEqual(664)
    }
    for (const shown of ['.shop', '#clock', '#amount', '#only', '#code', '#address', '#next li']) {
      const {y, height} = (await page.locator(shown).first().boundingBox())!
      expect(y + height, shown).toBeLessThanOrEqual(664)
    }
  })

  test('of a coin opens a wallet with the same URI as in its QR code', async () => {
    const made = await requests.create(money.api, merchantId, {amount: 1_000_000, currency: 'ETH'})
    const page = await open(made)
    const uri = `ethereum:${made.address}@11155111?value=1000000000000000000`
    expect(await page.getByRole('link', {name: 'Open in wallet'}).getAttribute('href')).toBe(uri)
    expect(await codeOn(page)).toBe(uri)
  })

  test('has buttons that copy the address and the amount, and say so', async () => {
    const made = await ask(1_500_000)
    const page = await open(made)
    for (const [name, copied] of [
      ['address', made.address],
      ['amount', '1.5'],
    ]) {
      await page.getByRole('button', {name: `Copy the ${name}`}).click()
      await page.getByText(`The ${name} is copied.`).waitFor()
      expect(await page.evaluate('navigator.clipboard.readText()')).toBe(copied)
    }
  })

  test('that is paid shows a second payment while it is on its way, and then what is too much', async () => {
    const made = await ask(1_000_000)
    await money.deposit(made.address, 1_000_000)
    const page = await open(made)
    await heading(page, 'Paid')
    await money.deposit(made.address, 400_000, {final: false})
    await page.getByText('0.4 USDC seen.').waitFor()
    await money.finalise()
    await page.getByText('That is 0.4 USDC more than was asked for').waitFor()
    expect(await page.locator('#lines').textContent()).toContain('Received1.4 USDC')
    expect(await page.locator('#lines a').count()).toBe(2)
  })

  test('asks for its state where a stream says only that there is news, as before an upgrade', async () => {
    const made = await ask(1_000_000)
    const page = await open(made)
    await page.route('**/events*', route =>
      route.fulfill({contentType: 'text/event-stream', body: 'event: news\ndata:\n\n'}),
    )
    await page.reload()
    await page.waitForRequest(/\/state\?lang=en$/)
    await money.deposit(made.address, 1_000_000, {final: false})
    await heading(page, 'Payment seen')
  })

  test('goes from awaiting to seen, with confirmations, to paid, without being reloaded', async () => {
    const made = await ask(1_000_000)
    const page = await open(made)
    await page.evaluate('window.isTheSame = true')
    await heading(page, 'Waiting for your payment')
    const txid = `0x${'cd'.repeat(32)}`
    await money.block([{txid, amount: 1_000_000n, recipient: made.address}], [])
    await heading(page, 'Payment seen')
    expect(await text(page, '#text')).toBe('1 USDC seen. You may close this page.')
    expect(await text(page, '#more')).toContain('Confirmations: 1')
    expect(await page.getByRole('link', {name: 'Open in wallet'}).isVisible()).toBe(false)
    await money.block([], [])
    await page.getByText('Confirmations: 2').waitFor()
    expect(await page.locator('#progress').isVisible()).toBe(true)
    await money.finalise()
    await heading(page, 'Paid')
    expect(await page.getByRole('link', {name: txid}).getAttribute('href')).toBe(
      `https://sepolia.etherscan.io/tx/${txid}`,
    )
    expect(await text(page, '#lines')).toContain(`Reference${made.external_id}Asked for1 USDCReceived1 USDC`)
    expect(await page.locator('#transaction').isVisible()).toBe(false)
    expect(await page.title()).toBe('Paid: 1 USDC')
    expect(await page.evaluate('window.isTheSame')).toBe(true)
    expect(urls.filter(url => !/\/(events|state|qr\.svg)(\?.*)?$/.test(url))).toEqual([
      `${api.url}/pay/${made.page_token}`,
    ])
  })

  test('shows what is missing after a partial payment, and its QR code asks for that', async () => {
    const made = await ask(1_000_000)
    const page = await open(made)
    await money.deposit(made.address, 400_000)
    await heading(page, 'Not all is paid yet')
    expect(await text(page, '#text')).toBe('0.4 USDC received. Still missing: 0.6 USDC.')
    expect(await text(page, '#amount')).toBe('0.6')
    await page.waitForFunction(`document.querySelector('#code').complete`)
    expect(await page.locator('#link').getAttribute('src')).toContain('content=payment_uri&amount=0.6')
    expect(await codeOn(page)).toBe(made.address)
    await page.getByRole('button', {name: 'Copy the transaction'}).click()
    await page.getByText('The transaction is copied.').waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(
      await page.locator('#txid').getAttribute('title'),
    )
  })

  test('that was opened when the payment was seen asks with the address alone once the payment has left the chain', async () => {
    const made = await ask(1_000_000)
    await money.deposit(made.address, 1_000_000, {final: false})
    const page = await open(made)
    await heading(page, 'Payment seen')
    await money.eth.write({drop: 1, add: [[], []]})
    await heading(page, 'Waiting for your payment')
    expect(await page.locator('#wallet').isVisible()).toBe(false)
    expect(await page.getByText('The code holds the address alone').isVisible()).toBe(true)
    expect(await page.getByText('for wallets that read payment links').isVisible()).toBe(true)
    await page.waitForFunction(`document.querySelector('#code').complete`)
    expect(await codeOn(page)).toBe(made.address)
  })

  test('asks for nothing after it expired', async () => {
    const made = await ask()
    const page = await open(made)
    await heading(page, 'Waiting for your payment')
    await requests.expire([made.id])
    await heading(page, 'This request has expired')
    for (const shown of ['#code', '#wallet', '#address']) expect(await page.locator(shown).isVisible()).toBe(false)
  })

  test('says that the service cannot be reached, and is right again as soon as it can', async () => {
    const made = await ask(1_000_000)
    const page = await open(made)
    const own = await startApi(money.db)
    await page.goto(`${own.url}/pay/${made.page_token}`)
    await heading(page, 'Waiting for your payment')
    await own.close()
    await page.getByText('The payment service cannot be reached').waitFor()
    await money.deposit(made.address, 1_000_000)
    await heading(page, 'Waiting for your payment')
    const again = await startApi(money.db, {port: Number(new URL(own.url).port)})
    await heading(page, 'Paid')
    await again.close()
    expect(await page.getByText('The payment service cannot be reached').isVisible()).toBe(false)
    expect(new Set(complaints.splice(0))).toEqual(new Set([refused]))
    urls.length = 0
  })

  test('polls only while it is visible, and at once when it becomes visible again', async () => {
    const made = await ask()
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.clock.install()
    let asked = 0
    page.on('request', request => {
      if (request.url().includes('/state')) asked += 1
    })
    const poll = (isHidden: boolean) =>
      page.evaluate(`Object.defineProperty(document, 'hidden', {value: ${isHidden}, configurable: true});
          document.dispatchEvent(new Event('visibilitychange'))`)
    await page.goto(`${api.url}/pay/${made.page_token}`)
    await poll(true)
    asked = 0 // a slow machine may have polled before
    await page.clock.runFor(60_000)
    expect(asked).toBe(0)
    const response = page.waitForResponse(/\/state\?/)
    await poll(false)
    await response
    expect(asked).toBe(1)
  })

  test.each(['light', 'dark'] as const)(
    'fits a small phone, with readable text and large buttons (%s)',
    async colorScheme => {
      const name = 'A merchant with a very long name and AVeryLongWordInItThatNobodyCouldBreakWithoutTearingIt'
      await money.db.rows('update app.merchant set name = $2 where id = $1', [merchantId, name])
      const [huge, paid, expired] = [await ask(123_456_789_012_345), await ask(1_000_000), await ask()]
      await money.deposit(paid.address, 2_000_000)
      await requests.expire([expired.id])
      for (const made of [huge, paid, expired]) {
        const page = await open(made, {...phone, colorScheme})
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(320)
        for (const target of await page.locator('button:visible, .button:visible, summary:visible').all()) {
          const {width, height} = (await target.boundingBox())!
          expect(Math.min(width, height)).toBeGreaterThanOrEqual(44)
        }
        expect(await page.evaluate(lowContrast)).toEqual([])
      }
      const page = await open(huge, {...phone, colorScheme})
      expect(await page.locator('button:visible, a:visible').count()).toBe(2) // copying alone
      expect(await codeOn(page)).toBe(huge.address)
    },
  )

  test('shows the name of a merchant as text even if it is a script', async () => {
    const name = `<script>alert(1)</script><img src=x onerror="alert(2)">`
    await money.db.rows('update app.merchant set name = $2 where id = $1', [merchantId, name])
    const page = await open(await ask())
    await heading(page, 'Waiting for your payment')
    expect(await page.locator('.shop').textContent()).toBe(name)
  })

  test('shows the same without JavaScript, and new states after a reload', async () => {
    const made = await ask(1_000_000)
    const page = await open(made, {javaScriptEnabled: false})
    await heading(page, 'Waiting for your payment')
    expect(await text(page, '#address')).toBe(made.address)
    expect(await codeOn(page)).toBe(made.address)
    expect(await page.locator('button:visible').count()).toBe(0)
    await money.deposit(made.address, 1_000_000)
    await page.reload()
    await heading(page, 'Paid')
  })

  test('fits phone, tablet and desktop in each state, light and dark, in both directions; axe finds nothing', async () => {
    const accent = '#777777' // neither black nor white reads much better on it
    await money.db.rows(`select app.set_brand($1, 'Shop', $2, null, 'https://shop.example/help', null, false)`, [
      merchantId,
      accent,
    ])
    const states = await everyState()
    const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
    for (const [state, made] of Object.entries(states))
      for (const language of ['en', 'ar']) {
        const page = await open(made, {viewport: {width: 390, height: 664}}, `?lang=${language}`)
        await page.evaluate(axe)
        for (const width of [390, 820, 1440])
          for (const colorScheme of ['light', 'dark'] as const) {
            await page.setViewportSize({width, height: 800})
            await page.emulateMedia({colorScheme, reducedMotion: 'reduce'})
            const where = `${state} in ${language} at ${width}, ${colorScheme}`
            expect(await page.evaluate('document.documentElement.scrollWidth'), where).toBe(width)
            expect(await page.locator('#status').getAttribute('data-state'), where).toBe(state.replace(/ .*/, ''))
            expect(await page.evaluate('getComputedStyle(document.body).direction'), where).toBe(
              language === 'ar' ? 'rtl' : 'ltr',
            )
            if (width === 820) continue
            const run = {runOnly: colorScheme === 'light' ? rules : ['color-contrast']} // it changes colours alone
            const found = await page.evaluate(
              `axe.run(${JSON.stringify(run)}).then(({violations}) => violations.map(({id, nodes}) => id + ': ' + nodes.map(node => node.html).join()))`,
            )
            expect(found, where).toEqual([])
          }
        await page.close()
      }
    for (const language of languageCodes) {
      const page = await open(states.awaiting!, phone, `?lang=${language}`)
      expect(await page.evaluate('document.documentElement.scrollWidth'), language).toBe(phone.viewport.width)
      await page.close()
    }
    await money.db.rows('delete from app.merchant_brand')
  })

  /** A request in each state that a page can show. */
  async function everyState(): Promise<Record<string, Made>> {
    const made: Record<string, Made> = {}
    for (const state of [
      'awaiting',
      'partial',
      'seen',
      'paid',
      'overpaid',
      'late',
      'expired',
      'cancelled',
      'underpaid',
    ])
      made[state] = await ask(25_000_000)
    const of = (state: string) => made[state]!
    made['awaiting a coin'] = await requests.create(money.api, merchantId, {amount: 1_000_000, currency: 'ETH'})
    await money.deposit(of('partial').address, 5_000_000)
    await money.deposit(of('paid').address, 25_000_000)
    await money.deposit(of('overpaid').address, 26_000_000)
    await money.deposit(of('underpaid').address, 25_000)
    await requests.expire([of('expired').id, of('underpaid').id, of('late').id])
    await money.deposit(of('late').address, 25_000_000)
    await money.deposit(of('seen').address, 25_000_000, {final: false})
    await money.api.query('select app.cancel_payment_request($1, $2)', [merchantId, of('cancelled').external_id])
    return made
  }

  test('prints a receipt: all of the payment, nothing to press', async () => {
    const made = await ask(1_000_000)
    await money.deposit(made.address, 1_000_000)
    const page = await open(made)
    await page.emulateMedia({media: 'print'})
    const printed = await page.evaluate(`document.querySelector('main').innerText`) // without what is hidden
    expect(printed).toMatch(
      new RegExp(
        `Paid\\n.*Reference\\n+${made.external_id}\\n.*Network\\n+Ethereum chain 11155111 \\(ERC-20\\)\\n.*${made.address}`,
        's',
      ),
    )
    expect(await page.locator('button:visible, summary:visible').count()).toBe(0)
  })

  test('asks a wallet of the browser for exactly what is due, on its network, and says how that ended', async () => {
    const made = await ask(1_250_000)
    const page = await open(made, {}, '', wallet)
    const answer = (error?: object, of = 'wallet_switchEthereumChain') =>
      page.evaluate(`window.walletError = ${JSON.stringify(error ?? null)}; window.walletErrorOf = '${of}'`)
    const button = page.getByRole('button', {name: 'Pay with <b>Wallet</b>'})
    await answer({code: 4902})
    await button.click()
    await page.getByText('does not know the network Ethereum chain 11155111 (ERC-20)').waitFor()
    await answer({code: 4001})
    await button.click()
    await page.getByText('Your wallet has sent nothing.').waitFor()
    await answer({code: 4001}, 'eth_sendTransaction')
    await button.click()
    await page.getByText('Your wallet has sent nothing.').waitFor()
    await answer()
    await button.click()
    await page.getByText('Your wallet has sent it.').waitFor()
    expect(await button.getAttribute('aria-disabled')).toBe('true') // the same is asked for once
    const calls = await page.evaluate('window.walletCalls.length')
    await button.click({force: true})
    expect(await page.evaluate('window.walletCalls.length')).toBe(calls)
    const {wallet: asked} = JSON.parse(await (await fetch(`${api.url}/pay/${made.page_token}/state`)).text())
    const {to, value, data} = asked
    expect(await page.evaluate('window.walletCalls.at(-1)')).toEqual({
      method: 'eth_sendTransaction',
      params: [{from: '0xabc', chainId: '0xaa36a7', to, value, data}],
    })
    expect(await page.locator('#wallets button').count()).toBe(1) // announced twice
    expect(await page.locator('#wallets img').count()).toBe(0) // its picture is elsewhere
    await page.reload()
    await page.getByText('Your wallet may have sent it.').waitFor()
    expect(await button.getAttribute('aria-disabled')).toBe('true')
    await money.deposit(made.address, 250_000)
    await page.getByText('Still missing: 1 USDC.').waitFor()
    await answer({code: -32000}, 'eth_sendTransaction') // nobody knows whether it was sent
    await button.click()
    await page.getByText('Your wallet may have sent it.').waitFor()
    expect(await button.getAttribute('aria-disabled')).toBe('true')
    expect(await page.evaluate('window.walletCalls.at(-1).params[0].data')).toBe(data.replace(/1312d0$/, '0f4240'))
  })

  test('asks a wallet for nothing if what is due has changed while the person was in it', async () => {
    const made = await ask(1_250_000)
    const page = await open(made, {}, '', wallet)
    await page.exposeFunction('whileInWallet', () => money.deposit(made.address, 250_000))
    await page.getByRole('button', {name: 'Pay with <b>Wallet</b>'}).click()
    await page.getByText('Your wallet has sent nothing.').waitFor()
    expect(await page.evaluate(`window.walletCalls.filter(call => call.method === 'eth_sendTransaction')`)).toEqual([])
  })

  test('asks no faster when a request expires while the service is away', async () => {
    const made = await ask()
    const page = await open(made)
    await heading(page, 'Waiting for your payment')
    await money.db.rows(`update app.payment_request set expires_at = now() + interval '4 seconds' where id = $1`, [
      made.id,
    ])
    const own = await startApi(money.db)
    await page.goto(`${own.url}/pay/${made.page_token}`)
    await heading(page, 'Waiting for your payment')
    await own.close()
    urls.length = 0
    await page.locator('#left').waitFor({state: 'hidden'})
    await page.getByText('The payment service cannot be reached').waitFor()
    const from = performance.now()
    await until(async () => performance.now() - from > 4000, {timeoutMs: 10_000, what: 'four seconds to pass'})
    expect(urls.splice(0).filter(url => url.includes('/state')).length).toBeLessThan(4)
    expect(new Set(complaints.splice(0))).toEqual(new Set([refused]))
  })

  test('stays live when a busy browser reports in one call that it is off the screen, and then on it', async () => {
    const made = await ask(1_000_000)
    const busy = `window.IntersectionObserver = class extends IntersectionObserver {
      constructor(notice) { super(entries => { notice([{isIntersecting: false}, ...entries]); window.reports = 1 }) }
    }`
    const page = await open(made, {}, '', busy)
    await heading(page, 'Waiting for your payment')
    await page.waitForFunction('window.reports')
    await money.deposit(made.address, 1_000_000)
    await heading(page, 'Paid')
  })

  test('shows itself in a frame, or over the page, of a site that the merchant names, tells it the state, and in no other', async () => {
    const made = await ask(1_000_000)
    const shop = createServer((_request, response) =>
      response.setHeader('content-type', 'text/html').end(`<!doctype html><h1>Shop</h1>
<div data-sluice-payment="${api.url}/pay/${made.page_token}"></div>
<button data-sluice-payment="${api.url}/pay/${made.page_token}">Pay with crypto</button>
<script>window.told = []; addEventListener('sluice-payment', event => told.push(event.detail))</script>
<script src="${api.url}/pay.js" defer></script>`),
    )
    await new Promise<void>(resolve => shop.listen(0, '127.0.0.1', resolve))
    const {port} = shop.address() as AddressInfo
    await money.db.rows(`select app.set_payment_page_sites($1, $2)`, [merchantId, [`http://localhost:${port}`]])
    const page = await (await browser.newContext()).newPage()
    const refused: string[] = []
    page.on('console', message => refused.push(message.text()))
    await page.goto(`http://127.0.0.1:${port}`)
    await until(async () => refused.some(text => text.includes('frame-ancestors')), {
      timeoutMs: 10_000,
      what: 'the browser to refuse the frame',
    })
    expect(await page.frameLocator('div iframe').locator('#heading').count()).toBe(0)

    await page.goto(`http://localhost:${port}`)
    const frame = page.frameLocator('div iframe')
    await frame.getByRole('heading', {name: 'Waiting for your payment'}).waitFor()
    await frame.getByRole('button', {name: 'Copy the amount'}).click()
    const placeOf = async (selector: string) => (await frame.locator(selector).boundingBox())!.y
    await frame.locator('#copied:not(:empty)').waitFor()
    expect(Math.abs((await placeOf('#copied')) - (await placeOf('#amount')))).toBeLessThan(100) // not at the end of a long frame
    await page.getByRole('button', {name: 'Pay with crypto'}).press('Enter') // a click may miss it while the frame above still grows
    await page.frameLocator('dialog iframe').getByRole('heading', {name: 'Waiting for your payment'}).waitFor()
    await page.getByRole('button', {name: 'Close'}).click()
    await page.locator('dialog').waitFor({state: 'detached'})
    await money.deposit(made.address, 1_000_000)
    await frame.getByRole('heading', {name: 'Paid'}).waitFor()
    const {external_id} = made
    await page.waitForFunction(`told.at(-1)?.state === 'paid'`)
    expect(await page.evaluate('[told[0], told.at(-1)]')).toEqual([
      {state: 'awaiting', external_id},
      {state: 'paid', external_id},
    ])
    const height = await frame.locator('html').evaluate(element => Math.ceil(element.getBoundingClientRect().height))
    await page.waitForFunction(`document.querySelector('div iframe').clientHeight === ${height}`)
    shop.close()
    shop.closeAllConnections()
    await money.db.rows(`select app.set_payment_page_sites($1, '{}')`, [merchantId])
  })

  test('has a policy that stops foreign scripts', async () => {
    const page = await open(await ask())
    await page.evaluate(
      `document.body.append(Object.assign(document.createElement('script'), {text: 'window.isIn = 1'}))`,
    )
    expect(await page.evaluate('window.isIn')).toBeUndefined()
    expect(complaints.splice(0).join()).toMatch(/violates the following Content Security Policy directive/)
  })
})

/** A wallet of the browser (EIP-6963), with a name and a picture that would do harm as markup. It notes its calls. */
const wallet = `(() => {
  window.walletCalls = []
  window.walletError = null
  const request = async call => {
    window.walletCalls.push(call)
    if (call.method === 'eth_requestAccounts') return ['0xabc']
    if (window.walletError && call.method === window.walletErrorOf) throw window.walletError
    if (call.method === 'eth_chainId') await window.whileInWallet?.()
    return call.method === 'eth_chainId' ? '0xaa36a7' : null
  }
  const info = {uuid: '1', name: '<b>Wallet</b>', icon: 'https://elsewhere.example/icon.png', rdns: 'example.wallet'}
  addEventListener('eip6963:requestProvider', () => {
    for (let time = 0; time < 2; time++)
      dispatchEvent(new CustomEvent('eip6963:announceProvider', {detail: Object.freeze({info, provider: {request}})}))
  })
})()`

/** The texts whose contrast with their background is below 4.5 (WCAG AA). */
const lowContrast = `(() => {
  const parts = color => color.match(/[\\d.]+/g).map(Number)
  const light = color => {
    const [r, g, b] = parts(color).map(part => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const behind = element => {
    const color = getComputedStyle(element).backgroundColor
    return (parts(color)[3] ?? 1) > 0 ? color : element.parentElement ? behind(element.parentElement) : 'rgb(255, 255, 255)'
  }
  return [...document.querySelectorAll('main *')]
    .filter(element => element.checkVisibility() && [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
    .map(element => {
      const [low, high] = [light(getComputedStyle(element).color), light(behind(element))].sort((a, b) => a - b)
      return {text: element.textContent, contrast: (high + 0.05) / (low + 0.05)}
    })
    .filter(({contrast}) => contrast < 4.5)
})()`
