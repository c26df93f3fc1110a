// The page of a payment request in a real browser, from a real server, while a test writes the chain.
import type {Browser, BrowserContextOptions, Page} from 'playwright-core'
import {afterAll, afterEach, beforeAll, describe, expect, test} from 'vitest'
import {type Api, startApi} from '../support/api.ts'
import {hasChromium, launchChromium} from '../support/chromium.ts'
import {Money} from '../support/money.ts'
import {type Made, PaymentRequests} from '../support/payment-requests.ts'
import {readQr} from '../support/qr.ts'

const usdc = '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238'
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

  async function open({page_token}: Made, options: BrowserContextOptions = {}): Promise<Page> {
    const context = await browser.newContext({permissions: ['clipboard-read', 'clipboard-write'], ...options})
    const page = await context.newPage()
    page.on('request', request => urls.push(request.url()))
    page.on('console', message => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
    })
    page.on('pageerror', error => complaints.push(error.message))
    page.on('dialog', dialog => complaints.push(dialog.message()))
    await page.goto(`${api.url}/pay/${page_token}`)
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
    expect(await text(page, 'h1')).toBe('1.234567 USDC')
    expect(await text(page, '#amount')).toBe('1.234567')
    expect(await text(page, '#address')).toBe(made.address)
    expect(await page.getByRole('link', {name: 'Open in wallet'}).isVisible()).toBe(false)
    expect(await codeOn(page)).toBe(made.address)
    await page.getByText('for wallets that read payment links').click()
    await page.evaluate(`document.querySelector('#code').remove()`)
    await page.waitForFunction(
      `document.querySelector('#link').complete && document.querySelector('#link').naturalWidth > 0`,
    )
    expect(await codeOn(page)).toBe(uriFor(made, 1_234_567))
    expect(await text(page, '#clock')).toMatch(/^(24:00:00|23:59:\d\d)$/)
    expect(await page.title()).toBe('Waiting for your payment: 1.234567 USDC')
  })

  test('has amount and address, each with its button, above the fold of a phone', async () => {
    const page = await open(await ask(1_234_567), {viewport: {width: 390, height: 664}, hasTouch: true, isMobile: true})
    for (const name of ['Copy amount', 'Copy address']) {
      const {y, height} = (await page.getByRole('button', {name}).boundingBox())!
      expect(y + height, name).toBeLessThanOrEqual(664)
    }
    for (const shown of ['#amount', '#address']) {
      const {y, height} = (await page.locator(shown).boundingBox())!
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
      await page.getByRole('button', {name: `Copy ${name}`}).click()
      await page.getByText(`The ${name} is copied.`).waitFor()
      expect(await page.evaluate('navigator.clipboard.readText()')).toBe(copied)
    }
  })

  test('goes from awaiting to seen, with confirmations, to paid, without being reloaded', async () => {
    const made = await ask(1_000_000)
    const page = await open(made)
    await page.evaluate('window.isTheSame = true')
    await heading(page, 'Waiting for your payment')
    const txid = `0x${'cd'.repeat(32)}`
    await money.block([{txid, amount: 1_000_000n, recipient: made.address}], [])
    await heading(page, 'Payment seen')
    expect(await text(page, '#text')).toContain('1 USDC seen, with 1 confirmation.')
    expect(await page.getByRole('link', {name: 'Open in wallet'}).isVisible()).toBe(false)
    await money.block([], [])
    await page.getByText('with 2 confirmations').waitFor()
    await money.finalise()
    await heading(page, 'Paid')
    expect(await text(page, '#txid')).toBe('0xcdcdcdcd…cdcdcdcd')
    expect(await page.locator('#txid').getAttribute('href')).toBe(`https://sepolia.etherscan.io/tx/${txid}`)
    await page.getByRole('button', {name: 'Copy transaction'}).click()
    await page.getByText('The transaction is copied.').waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(txid)
    expect(await page.title()).toBe('Paid: 1 USDC')
    expect(await page.evaluate('window.isTheSame')).toBe(true)
    expect(urls.filter(url => !/\/(state|qr\.svg(\?.*)?)$/.test(url))).toEqual([`${api.url}/pay/${made.page_token}`])
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
    expect(await text(page, 'h1')).toBe('1 USDC')
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
    await heading(page, 'Waiting for your payment')
    await page.context().setOffline(true)
    await page.getByText('The payment service cannot be reached').waitFor()
    await money.deposit(made.address, 1_000_000)
    await heading(page, 'Waiting for your payment')
    await page.context().setOffline(false)
    await heading(page, 'Paid')
    expect(await page.getByText('The payment service cannot be reached').isVisible()).toBe(false)
    expect(new Set(complaints.splice(0))).toEqual(new Set(['Failed to load resource: net::ERR_INTERNET_DISCONNECTED']))
  })

  test('polls only while it is visible, and at once when it becomes visible again', async () => {
    const made = await ask()
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.clock.install()
    let asked = 0
    page.on('request', request => {
      if (request.url().endsWith('/state')) asked += 1
    })
    const poll = (isHidden: boolean) =>
      page.evaluate(`Object.defineProperty(document, 'hidden', {value: ${isHidden}, configurable: true});
          document.dispatchEvent(new Event('visibilitychange'))`)
    await page.goto(`${api.url}/pay/${made.page_token}`)
    await poll(true)
    asked = 0 // a slow machine may have polled before
    await page.clock.runFor(60_000)
    expect(asked).toBe(0)
    const response = page.waitForResponse(/\/state$/)
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
        for (const target of await page.locator('button:visible, a:visible').all()) {
          const {width, height} = (await target.boundingBox())!
          expect(Math.min(width, height)).toBeGreaterThanOrEqual(44)
        }
        expect(await page.evaluate(lowContrast)).toEqual([])
      }
      const page = await open(huge, {...phone, colorScheme})
      expect(await page.locator('button:visible, a:visible').count()).toBe(2)
      expect(await codeOn(page)).toBe(huge.address)
    },
  )

  test('shows the name of a merchant as text even if it is a script', async () => {
    const name = `<script>alert(1)</script><img src=x onerror="alert(2)">`
    await money.db.rows('update app.merchant set name = $2 where id = $1', [merchantId, name])
    const page = await open(await ask())
    await heading(page, 'Waiting for your payment')
    expect(await page.locator('bdi').first().textContent()).toBe(name)
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

  test('has a policy that stops foreign scripts', async () => {
    const page = await open(await ask())
    await page.evaluate(
      `document.body.append(Object.assign(document.createElement('script'), {text: 'window.isIn = 1'}))`,
    )
    expect(await page.evaluate('window.isIn')).toBeUndefined()
    expect(complaints.splice(0).join()).toMatch(/violates the following Content Security Policy directive/)
  })
})

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
