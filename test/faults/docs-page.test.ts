// The documentation of the API in a real browser, at the widths of a phone, a tablet and a desk, in light and dark.
import {readFileSync} from 'node:fs'
import {createServer} from 'node:http'
import {createRequire} from 'node:module'
import type {AddressInfo} from 'node:net'
import type axe from 'axe-core'
import type {Browser, Page} from 'playwright-core'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {type Api, fillPool, makeKey, startApi} from '../support/api.ts'
import {hasChromium, launchChromium} from '../support/chromium.ts'
import {type TestDatabase, testDatabase} from '../support/database.ts'
import {makeMerchant} from '../support/people.ts'

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

describe.skipIf(!hasChromium)('the documentation in Chromium (skipped without one: set CHROMIUM_BIN)', () => {
  let db: TestDatabase
  let api: Api
  let browser: Browser

  beforeAll(async () => {
    db = await testDatabase()
    api = await startApi(db, {docsTry: true})
    await fillPool(db, 5)
    browser = await launchChromium()
  })
  afterAll(async () => {
    await browser?.close()
    await api?.close()
    await db?.drop()
  })

  /** The page; what the browser complains of ends up in the list. */
  async function open(options: Parameters<Browser['newContext']>[0], complaints: string[]): Promise<Page> {
    const page = await (await browser.newContext(options)).newPage()
    page.on('console', message => message.type() === 'error' && complaints.push(message.text()))
    page.on('pageerror', error => complaints.push(String(error)))
    page.on('request', request => request.url().startsWith(api.url) || complaints.push(request.url()))
    await page.goto(`${api.url}/docs`)
    return page
  }

  // Each width once and each scheme once: axe reads this page, which is long, for some ten seconds. The scheme changes
  // colours alone, and the width what scrolls.
  test.each([
    {width: 390, colorScheme: 'light'},
    {width: 1280, colorScheme: 'dark'},
  ] as const)('fits $width pixels, and axe finds nothing wrong in $colorScheme', async ({width, colorScheme}) => {
    const complaints: string[] = []
    const page = await open({viewport: {width, height: 900}, colorScheme, bypassCSP: true}, complaints)
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width)
    await page.evaluate(axeSource)
    const run = colorScheme === 'dark' ? {runOnly: ['color-contrast', 'scrollable-region-focusable']} : {}
    const {violations} = (await page.evaluate(`axe.run(${JSON.stringify(run)})`)) as axe.AxeResults
    expect(violations.map(({id, nodes}) => [id, nodes.map(({html}) => html)])).toEqual([])
    expect(complaints).toEqual([])
  })

  test('fits 768 pixels, and the search shows what has all of its words, under the policy of the page', async () => {
    const complaints: string[] = []
    const page = await open({viewport: {width: 768, height: 900}}, complaints)
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(768)
    const shown = () => page.locator('nav a:visible').allTextContents()
    const all = (await shown()).length
    await page.getByRole('searchbox').fill('payout CANCEL')
    expect(await shown()).toEqual(['Cancel a payout'])
    await page.getByRole('searchbox').fill('')
    expect((await shown()).length).toBe(all)
    expect(complaints).toEqual([])
  })

  test('a request is sent from the page, with a key that is gone with it; the samples are behind tabs', async () => {
    const complaints: string[] = []
    const page = await open({viewport: {width: 1280, height: 900}}, complaints)
    const {secret} = await makeKey(db, await makeMerchant(db, ['ETH']))
    const attempt = async (title: string, fill: Record<string, string>) => {
      const article = page.locator('article', {has: page.getByRole('heading', {name: title, exact: true})})
      await article.getByText('Try it').click()
      for (const [name, value] of Object.entries(fill)) await article.locator(`.try [name="${name}"]`).fill(value)
      await article.getByRole('button', {name: 'Send'}).click()
      const answer = article.getByRole('status')
      await answer.getByText(/^\d{3}/).waitFor()
      return await answer.textContent()
    }
    expect(await attempt('List deposits', {})).toMatch(/^401\n\{\n {2}"error": "invalid_api_key"/)
    await page.getByLabel('API key').fill(secret)
    const body = JSON.stringify({external_ref: 'tried', chains: ['ETH']})
    const made = await attempt('Create or find a user', {body})
    expect(made).toMatch(/^20[01]\n/)
    const {id} = JSON.parse(made!.slice(4)) as {id: string}
    expect(await attempt('Get a user', {id})).toContain('"external_ref": "tried"')
    expect(await attempt('List users', {external_ref: 'tried', limit: '1'})).toContain(id)

    const state = await page.evaluate('JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])')
    expect(state).toBe('[{},{},""]')
    await page.reload()
    expect(await page.getByLabel('API key').inputValue()).toBe('')

    const tabs = page.locator('.tabs')
    expect(await tabs.locator('pre:visible').textContent()).toContain('express')
    await tabs.locator('label', {hasText: 'Python'}).click()
    expect(await tabs.locator('pre:visible').textContent()).toContain('hmac.compare_digest')
    expect(complaints.filter(complaint => !complaint.includes('401'))).toEqual([])
  })

  test('where the service is below a path, its key goes nowhere else', async () => {
    const elsewhere: string[] = []
    const proxy = createServer(async (request, response) => {
      const below = request.url!.replace(/^\/sluice/, '')
      if (below === request.url) {
        elsewhere.push(request.url!)
        return void response.writeHead(404).end()
      }
      const {authorization = ''} = request.headers
      const answer = await fetch(api.url + below, {headers: {authorization}})
      response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text())
    })
    await new Promise<void>(resolve => proxy.listen(0, '127.0.0.1', resolve))
    try {
      const page = await (await browser.newContext()).newPage()
      await page.goto(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}/sluice/docs`)
      await page.getByLabel('API key').fill((await makeKey(db, await makeMerchant(db, ['ETH']))).secret)
      const article = page.locator('article', {has: page.getByRole('heading', {name: 'Read balances', exact: true})})
      await article.getByText('Try it').click()
      await article.getByRole('button', {name: 'Send'}).click()
      await article.getByRole('status').getByText(/^200/).waitFor()
      expect(elsewhere).toEqual([])
    } finally {
      proxy.close().closeAllConnections()
    }
  })
})
