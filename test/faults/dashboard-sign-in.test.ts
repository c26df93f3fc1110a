// People in a real browser: from an invitation to the first money, second factors, passkeys, without a mouse and
// without JavaScript.
import type {Browser, Page} from 'playwright-core'
import {afterAll, afterEach, beforeAll, describe, expect, test} from 'vitest'
import {codeAt} from '../../dashboard/auth/totp.ts'
import {fillPool} from '../support/api.ts'
import {hasChromium, launchChromium} from '../support/chromium.ts'
import {
  alertOf,
  cookieName,
  fieldOf,
  follow,
  heading,
  main,
  type Person,
  Site,
  send,
  tokenIn,
} from '../support/dashboard-site.ts'
import {makeMerchant} from '../support/people.ts'
import {password, step} from '../support/sign-in.ts'

describe.skipIf(!hasChromium)('the dashboard in Chromium (skipped without one: set CHROMIUM_BIN)', () => {
  let site: Site
  let chromium: Browser

  beforeAll(async () => {
    ;[site, chromium] = await Promise.all([Site.open(), launchChromium()])
  })
  afterEach(async () => {
    await Promise.all(chromium.contexts().map(context => context.close()))
    site.expectNoComplaints()
  })
  afterAll(async () => {
    await chromium?.close()
    await site?.close()
  })

  const signIn = (page: Page, {email}: Person) => send(page, {'E-mail': email, Password: password}, 'Sign in')
  const codeLabel = 'Code of your authenticator, or a recovery code'
  const showCode = (page: Page, code: string) => send(page, {[codeLabel]: code}, 'Confirm')
  const tokenOf = async (page: Page) =>
    tokenIn((await page.context().cookies(site.url)).find(({name}) => name === cookieName)?.value)
  const pathOf = (page: Page) => page.url().slice(site.url.length)

  test('a new merchant comes from an invitation to the first key, and sees the first deposit arrive and become final without a reload', async () => {
    const merchantId = await makeMerchant(site.money.db, ['ETH'])
    await fillPool(site.money.db, 1)
    const page = await site.page(chromium)
    await page.goto(await site.invitation(merchantId))
    for (const [label, value] of Object.entries({
      'Your name': 'Ada',
      'E-mail': 'first@acme.test',
      Password: 'too short',
    }))
      await fieldOf(page, label).fill(value)
    await page.getByRole('button', {name: 'Accept the invitation'}).click() // which the browser itself refuses
    await send(page, {Password: password}, 'Accept the invitation')
    await page.getByText('One more step: set up a second factor.').waitFor()

    await follow(page, () => page.getByRole('button', {name: 'Set up an authenticator'}).click())
    const secret = (await page.locator('main code').textContent())!.replaceAll(' ', '')
    await send(page, {Code: '000000'}, 'Confirm')
    expect(await alertOf(page)).toContain('This code is not right.')
    expect((await page.locator('main code').textContent())!.replaceAll(' ', '')).toBe(secret)
    await send(page, {Code: codeAt(secret, step())}, 'Confirm')
    expect((await page.getByLabel('Recovery codes').textContent())!.split('\n')).toHaveLength(10)
    await page.getByRole('button', {name: 'Copy all of them'}).waitFor()
    await follow(page, () => page.getByRole('link', {name: 'I have kept them'}).click())

    await heading(page, 'Overview')
    expect(await page.locator('#next').textContent()).toContain(`curl ${site.api.url}/v1/users`)
    await page.goto(`${site.url}/users`)
    const makeUser = (await main(page).locator('pre').textContent())!
    await page.goto(`${site.url}/deposits`)
    await page.getByText('No deposits yet.').waitFor()

    await page.goto(`${site.url}/api-keys`)
    await page.getByText('No keys yet.').waitFor()
    await follow(page, () => main(page).getByRole('link', {name: 'Create a key'}).first().click())
    await send(page, {Label: 'shop'}, 'Create the key')
    await heading(page, 'Your new key')
    const key = (await page.locator('.secret code').textContent())!
    const balances = (await page.getByRole('region', {name: 'command'}).textContent())!
    expect(balances).toBe(`curl ${site.api.url}/v1/balances -H "Authorization: Bearer ${key}"`)
    expect(await curl(balances, key)).toMatchObject({status: 200})
    const user = await curl(makeUser, key)
    expect(user).toMatchObject({status: 201, body: {external_ref: 'customer-42'}})
    const [{address}] = user.body.addresses

    await page.goto(`${site.url}/`)
    await page.getByText('Nothing to pay out yet.').waitFor()
    await page.evaluate('window.isTheSame = true')
    await site.money.deposit(address, 12_500_000, {final: false})
    const row = page.getByRole('row', {name: '12.5 USDC'})
    await row.getByText('pending', {exact: true}).waitFor()
    expect(await row.textContent()).toContain('customer-42')
    await site.money.finalise()
    await row.getByText('final', {exact: true}).waitFor()
    await page.locator('#balance-ETH-USDC').getByText('12.375', {exact: true}).waitFor()
    expect(await page.evaluate('window.isTheSame')).toBe(true)
  })

  /** Does what a line for a terminal says. */
  async function curl(line: string, key: string) {
    const [, url] = /curl (\S+)/.exec(line)!
    const headers = [...line.matchAll(/-H ["']([^:]+): ([^"']+)["']/g)].map(
      ([, name, value]) => [name!, value!] as const,
    )
    const body = /-d '([^']+)'/.exec(line)?.[1]
    const response = await fetch(url!, {
      headers: Object.fromEntries(headers.map(([name, value]) => [name, value.replace('$SLUICE_API_KEY', key)])),
      ...(body && {method: 'POST', body}),
    })
    return {status: response.status, body: (await response.json()) as {addresses: [{address: string}]}}
  }

  test('whoever has no second factor sees no page, and whoever has one sees none before it is shown', async () => {
    const merchantId = await makeMerchant(site.money.db)
    const ada = await site.person(merchantId)
    const newcomer = await site.page(chromium)
    await newcomer.goto(await site.invitation(merchantId))
    await send(newcomer, {'Your name': 'B', 'E-mail': 'bob@acme.test', Password: password}, 'Accept the invitation')
    const page = await site.page(chromium)
    await page.goto(`${site.url}/sign-in`)
    await signIn(page, ada)
    for (const path of ['/', '/deposits', '/api-keys/new', '/security', '/audit-log', '/live', '/deposits/part']) {
      await page.goto(site.url + path)
      expect(pathOf(page)).toMatch(/^\/second-factor/)
      await newcomer.goto(site.url + path)
      expect(pathOf(newcomer)).toBe('/security')
      expect(await newcomer.getByRole('navigation').count()).toBe(0)
    }
  })

  test('a code of the authenticator signs in once, a recovery code once; each time the session gets another token', async () => {
    const ada = await site.person(await makeMerchant(site.money.db))
    await site.money.db.rows('delete from dashboard.used_code')
    const page = await site.page(chromium)
    await page.goto(`${site.url}/payouts?status=failed`)
    await signIn(page, ada)
    const before = await tokenOf(page)
    await showCode(page, '000000')
    expect(await alertOf(page)).toBe('This code is not right.')
    const code = codeAt(ada.secret, step())
    await showCode(page, code)
    await heading(page, 'Payouts')
    expect(pathOf(page)).toBe('/payouts?status=failed') // where the person wanted to go
    expect(await tokenOf(page)).not.toBe(before)

    const again = async (shown: string) => {
      await page.goto(`${site.url}/`)
      await page.getByRole('button', {name: 'Test'}).click()
      await follow(page, () => page.getByRole('button', {name: 'Sign out'}).click())
      await signIn(page, ada)
      await showCode(page, shown)
    }
    await again(code)
    expect(await alertOf(page)).toBe('This code was used already. Please wait for the next one.')
    const recovery = ada.recoveryCodes[0]!
    await showCode(page, recovery)
    await heading(page, 'Overview')
    await again(recovery)
    expect(await alertOf(page)).toBe('This code is not right.')
    await showCode(page, ada.recoveryCodes[1]!)
    await page.goto(`${site.url}/security`)
    await page.getByText('8 of 10 recovery codes are left.').waitFor()
  })

  test('a passkey signs in alone, and cannot be removed while it is the last second factor', async () => {
    const merchantId = await makeMerchant(site.money.db)
    const page = await site.page(chromium)
    const devtools = await page.context().newCDPSession(page)
    await devtools.send('WebAuthn.enable')
    const {authenticatorId} = await devtools.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    })
    await page.goto(await site.invitation(merchantId))
    await send(page, {'Your name': 'Carla', 'E-mail': 'carla@acme.test', Password: password}, 'Accept the invitation')
    await page.getByLabel('Name of the new passkey').fill('laptop')
    await page.getByRole('button', {name: 'Add a passkey'}).click()
    await follow(page, () => page.getByRole('link', {name: 'Remove the passkey laptop'}).click())
    await follow(page, () => page.getByRole('link', {name: 'Keep it'}).click())
    await follow(page, () => page.getByRole('link', {name: 'Remove the passkey laptop'}).click())
    await follow(page, () => page.getByRole('button', {name: 'Remove the passkey'}).click())
    await heading(page, 'This was not changed')

    await page.goto(`${site.url}/sign-in?next=%2Fusers`)
    const before = await tokenOf(page)
    await page.getByRole('button', {name: 'Use a passkey'}).click()
    await heading(page, 'Users')
    expect(await tokenOf(page)).not.toBe(before)

    // A device that did not verify the person is no second factor.
    await devtools.send('WebAuthn.setUserVerified', {authenticatorId, isUserVerified: false})
    await page.context().clearCookies()
    await page.goto(`${site.url}/sign-in`)
    await page.getByRole('button', {name: 'Use a passkey'}).click()
    await page.getByRole('alert').waitFor()
    await page.goto(`${site.url}/users`)
    expect(pathOf(page)).toBe('/sign-in?next=%2Fusers')
  })

  test('with the second factor shown too long ago, a payout asks for it, says that nothing was done, keeps what was typed, and is then done', async () => {
    const shop = await site.money.merchant()
    const ada = await site.person(shop.merchantId)
    await site.money.deposit(shop.address, 20_000_000)
    const page = await site.page(chromium, ada)
    await page.goto(`${site.url}/payouts/new?chain=ETH&token=USDC`)
    await page.getByLabel('Sweep first').check()
    await site.age(ada, '11 minutes')
    const before = await tokenOf(page)
    await follow(page, () => page.getByRole('button', {name: 'Pay out 19.8 USDC'}).click())
    await page.getByText('Nothing was done yet.').waitFor()
    expect(await site.money.db.rows('select from app.payout where merchant_id = $1', [shop.merchantId])).toEqual([])
    await showCode(page, await site.code(ada.secret))
    await heading(page, 'Pay out 19.8 USDC')
    expect(await page.getByLabel('Sweep first').isChecked()).toBe(true)
    expect(await tokenOf(page)).not.toBe(before)
    await follow(page, () => page.getByRole('button', {name: 'Pay out 19.8 USDC'}).click())
    await heading(page, '19.8 USDC')
    expect(await main(page).textContent()).toContain('Sweep firstyes')

    // So do a key and a payout address; what only looks, or ends something, does not.
    await site.age(ada, '11 minutes')
    for (const path of ['/api-keys/new', '/payout-addresses/ETH', '/payouts/new?chain=ETH&token=USDC']) {
      await page.goto(site.url + path)
      expect(pathOf(page)).toBe(`/second-factor?next=${encodeURIComponent(path)}`)
    }
    await page.goto(`${site.url}/payouts`)
    await heading(page, 'Payouts')
  })

  test('the keyboard alone signs in, opens a deposit and creates a key, and shows where it is', async () => {
    const shop = await site.money.merchant()
    const ada = await site.person(shop.merchantId)
    await site.money.deposit(shop.address, 3_000_000)
    const page = await site.page(chromium)
    const press = (key: string) => page.keyboard.press(key)
    /** Presses Tab until this is in focus, and sees that the focus shows. */
    const tabTo = async (name: RegExp) => {
      for (let n = 0; n < 60; n++) {
        await press('Tab')
        const focus = (await page.evaluate(inFocus)) as {name: string; isSeen: boolean}
        expect(focus.isSeen, `the focus on "${focus.name}" cannot be seen`).toBe(true)
        if (name.test(focus.name)) return
      }
      throw new Error(`Tab does not lead to ${name}`)
    }
    /** Where the page puts the focus by itself, once it is there. */
    const type = async (text: string) => {
      await page.locator('input:focus').waitFor()
      await page.keyboard.type(text)
    }
    await page.goto(`${site.url}/sign-in`)
    await type(ada.email) // the first field has the focus
    await tabTo(/^Password/)
    await type(password)
    await follow(page, () => press('Enter'))
    await type(await site.code(ada.secret))
    await follow(page, () => press('Enter'))
    await heading(page, 'Overview')

    await press('Tab')
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content')
    expect((await page.getByText('Skip to content').boundingBox())!.y).toBeGreaterThanOrEqual(0)
    await press('Enter')
    await tabTo(/^3 USDC$/)
    await follow(page, () => press('Enter'))
    await heading(page, '3 USDC')
    await tabTo(/^API keys$/)
    await follow(page, () => press('Enter'))
    await tabTo(/^Create a key$/)
    await follow(page, () => press('Enter'))
    await type('by keyboard')
    await tabTo(/^payouts/)
    await press('Space')
    await tabTo(/^Create the key$/)
    await follow(page, () => press('Space'))
    await heading(page, 'Your new key')
    const [key] = await site.money.db.rows('select label, scopes from app.api_key where merchant_id = $1', [
      shop.merchantId,
    ])
    expect(key).toEqual({label: 'by keyboard', scopes: ['read', 'users', 'payouts']})
  })

  test('without JavaScript, a person signs in, makes a key, pays out and signs out', async () => {
    const shop = await site.money.merchant()
    const ada = await site.person(shop.merchantId)
    await site.money.deposit(shop.address, 20_000_000)
    const page = await site.page(chromium, undefined, {javaScriptEnabled: false, viewport: {width: 390, height: 800}})
    await page.goto(`${site.url}/`)
    await signIn(page, ada)
    await showCode(page, await site.code(ada.secret))
    await follow(page, () => page.getByRole('link', {name: 'Pay out 19.8 USDC on ETH'}).click())
    await follow(page, () => page.getByRole('button', {name: 'Pay out 19.8 USDC'}).click())
    await heading(page, '19.8 USDC')
    await page.getByRole('button', {name: 'Menu'}).click()
    await follow(page, () => page.getByRole('link', {name: 'API keys'}).click())
    await follow(page, () => page.getByRole('link', {name: 'Create a key'}).first().click())
    await send(page, {Label: 'plain'}, 'Create the key')
    const key = (await page.locator('.secret code').textContent())!
    expect((await fetch(`${site.api.url}/v1/payouts`, {headers: {authorization: `Bearer ${key}`}})).status).toBe(200)
    await page.getByRole('button', {name: 'Test'}).click()
    await follow(page, () => page.getByRole('button', {name: 'Sign out'}).click())
    await heading(page, 'Sign in')
    await page.goto(`${site.url}/`)
    expect(pathOf(page)).toBe('/sign-in')
  })
})

/** What has the focus, and whether people see that it has: by a ring around it. */
const inFocus = `(() => {
  const element = document.activeElement
  const name = (element.labels?.[0]?.textContent || element.getAttribute('aria-label') || element.textContent || '').trim()
  const {outlineStyle, outlineWidth, boxShadow} = getComputedStyle(element)
  const hasRing = (outlineStyle !== 'none' && parseFloat(outlineWidth) >= 1.5) || boxShadow !== 'none'
  return {name, isSeen: element === document.body || hasRing}
})()`
