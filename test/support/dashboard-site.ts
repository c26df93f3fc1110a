// The dashboard as people meet it: both of its processes and the API, on real sockets and one real database; people
// with a second factor; and browsers in which they are signed in, of which every complaint and every request is kept.
import {randomBytes} from 'node:crypto'
import {mkdtempSync, rmSync} from 'node:fs'
import type {AddressInfo} from 'node:net'
import {tmpdir} from 'node:os'
import path from 'node:path'
import type {FastifyInstance} from 'fastify'
import pg from 'pg'
import type {BrowserContext, BrowserContextOptions, Browser as Chromium, Page} from 'playwright-core'
import {expect} from 'vitest'
import {logger} from '../../base/log.ts'
import {readSettings} from '../../chains/settings.ts'
import {buildServer as buildAuth} from '../../dashboard/auth/server.ts'
import {codeAt} from '../../dashboard/auth/totp.ts'
import {buildServer as buildPages} from '../../dashboard/pages/server.ts'
import {Outage} from '../../db/client/outage.ts'
import {openPool} from '../../db/client/pool.ts'
import {startTick} from '../../jobs/tick.ts'
import {startDispatcher} from '../../jobs/webhooks/dispatcher.ts'
import {openSender} from '../../jobs/webhooks/send.ts'
import {channel, startSequencer} from '../../jobs/webhooks/sequencer.ts'
import {type Api, startApi} from './api.ts'
import type {TestDatabase} from './database.ts'
import {Money} from './money.ts'
import {Browser, invite, join, password, setUpAuthenticator, step} from './sign-in.ts'

/** Somebody who can sign in, and is signed in by HTTP already. */
export interface Person {
  email: string
  merchantId: string
  /** Of the authenticator. */
  secret: string
  recoveryCodes: string[]
  http: Browser
}

export const cookieName = '__Host-sluice.session_token'
export const tokenIn = (cookie: string | undefined) => decodeURIComponent(cookie ?? '').split('.')[0]!

export class Site {
  readonly money: Money
  readonly api: Api
  /** What people type: http://localhost:… */
  readonly url: string
  readonly auth: FastifyInstance
  readonly pages: FastifyInstance
  /** What browsers complained of, and what they asked of others, since it was last looked at. */
  readonly complaints: string[] = []
  readonly #stop: () => Promise<void>
  #people = 0

  private constructor(money: Money, api: Api, url: string, auth: FastifyInstance, pages: FastifyInstance, stop: Stop) {
    this.money = money
    this.api = api
    this.url = url
    this.auth = auth
    this.pages = pages
    this.#stop = stop
  }

  static async open(): Promise<Site> {
    const money = await Money.open()
    const directory = mkdtempSync(path.join(tmpdir(), 'sluice-pages-'))
    const socket = path.join(directory, 'pages.sock')
    const log = logger('dashboard')
    log.level = 'fatal'
    const authPool = openPool(money.db.url('sluice_auth'), {name: 'sluice-auth', max: 4})
    const pagesPool = openPool(money.db.url('sluice_dashboard'), {name: 'sluice-dashboard', max: 4})
    const api = await startApi(money.db)
    const {chains, payoutTimeoutMs, paymentExpiryMs, paymentLateAfterMs} = readSettings({})
    const outage = new Outage(log)
    const pages = await buildPages({
      pool: pagesPool,
      log,
      outage,
      chains,
      webhookAllowPrivate: true,
      apiUrl: api.url,
      payoutTimeoutMs,
      paymentExpiryMs,
      paymentLateAfterMs,
    })
    await pages.listen({path: socket})
    let url = ''
    const secret = randomBytes(32).toString('hex')
    const auth = await buildAuth({pool: authPool, secret, url: () => url, socket, proxies: ['127.0.0.1'], log, outage})
    await auth.listen({host: '127.0.0.1', port: 0})
    url = `http://localhost:${(auth.server.address() as AddressInfo).port}`
    const stopEvents = await startEvents(money.db)
    return new Site(money, api, url, auth, pages as unknown as FastifyInstance, async () => {
      await stopEvents()
      await Promise.all([auth.close(), pages.close(), api.close()])
      await Promise.all([authPool.end(), pagesPool.end()])
      rmSync(directory, {recursive: true})
      await money.close()
    })
  }

  close(): Promise<void> {
    return this.#stop()
  }

  /** The link of a new invitation. */
  async invitation(merchantId: string, email?: string): Promise<string> {
    return this.url + (await invite(this.money.db, merchantId, email))
  }

  /** Each has a network of its own: limits of one do not concern another. */
  async person(merchantId: string): Promise<Person> {
    this.#people += 1
    const email = `ada${this.#people}@acme.test`
    const http = await join(this, this.money.db, merchantId, email, `203.0.113.${this.#people}`)
    const {secret, codes} = await setUpAuthenticator(http)
    return {email, merchantId, secret, recoveryCodes: codes, http}
  }

  /** The same person in another session. */
  async signedInAgain(person: Person): Promise<Person> {
    const http = new Browser(this, person.http.address)
    await http.post('/sign-in', {email: person.email, password})
    await http.post('/second-factor', {code: await this.code(person.secret), next: '/'})
    return {...person, http}
  }

  /** What the authenticator shows, as if no code had been used before. */
  async code(secret: string): Promise<string> {
    await this.money.db.rows('delete from dashboard.used_code')
    return codeAt(secret, step())
  }

  /** The session of this token showed its second factor this long ago. */
  async age(person: Person, interval: string): Promise<void> {
    await this.money.db.rows(
      `update auth.session set "secondFactorAt" = now() - $2::interval where "userId" = (select id from auth."user" where email = $1)`,
      [person.email, interval],
    )
  }

  /** A browser; of this person, if there is one, signed in. */
  async context(chromium: Chromium, person?: Person, options: BrowserContextOptions = {}): Promise<BrowserContext> {
    const context = await chromium.newContext({viewport: {width: 1280, height: 900}, ...options})
    context.setDefaultTimeout(30_000)
    if (person)
      await context.addCookies(
        [...person.http.cookies].map(([name, value]) => {
          return {name, value, domain: 'localhost', path: '/', secure: true, httpOnly: true, sameSite: 'Lax' as const}
        }),
      )
    this.#listen(context)
    return context
  }

  /** A page of this person. */
  async page(chromium: Chromium, person?: Person, options: BrowserContextOptions = {}): Promise<Page> {
    return await (await this.context(chromium, person, options)).newPage()
  }

  #listen(context: BrowserContext): void {
    context.on('console', message => {
      const isOfStatus = /^Failed to load resource: the server responded/.test(message.text()) // see below
      if (['error', 'warning'].includes(message.type()) && !isOfStatus) this.complaints.push(message.text())
    })
    context.on('weberror', ({error}) => void this.complaints.push(error().message))
    context.on('dialog', dialog => {
      this.complaints.push(`dialog: ${dialog.message()}`)
      void dialog.dismiss()
    })
    context.on('request', request => {
      const url = request.url()
      if (!url.startsWith(`${this.url}/`) && !/^(data|about|blob|chrome-error):/.test(url))
        this.complaints.push(`asked for ${url}`)
    })
    context.on('response', response => {
      const isDocument = response.request().resourceType() === 'document'
      if (response.status() >= (isDocument ? 500 : 400)) this.complaints.push(`${response.status()} ${response.url()}`)
    })
  }

  expectNoComplaints(): void {
    expect(this.complaints.splice(0)).toEqual([])
  }
}

type Stop = () => Promise<void>

/**
 * What the jobs worker does with events: numbers them, and posts them to endpoints. A payout takes its steps only when
 * a test says so.
 */
async function startEvents(db: TestDatabase): Promise<Stop> {
  const log = logger('jobs')
  log.level = 'fatal'
  const pool = openPool(db.url('sluice_jobs'), {name: 'sluice-jobs', max: 4})
  const locks = new pg.Client({connectionString: db.url('sluice_jobs')})
  await locks.connect()
  const sequencer = startSequencer(pool)
  const dispatcher = startDispatcher({locks, pool, sender: openSender({allowPrivate: true}), log})
  locks.on('notification', () => void dispatcher.pass().catch(() => {}))
  await locks.query(`listen ${channel}`)
  const stop = startTick([{name: 'sequence', intervalMs: 100, run: sequencer.announce}], {log, outage: new Outage(log)})
  return async () => {
    await stop()
    await dispatcher.stop()
    await locks.end()
    await pool.end()
  }
}

/** The field of this label. (Below some, within the label, stands a line of help.) */
export const fieldOf = (page: Page, label: string) => page.getByLabel(new RegExp(`^${label}`))

/** Fills and sends a form as people do; resolves when the next page is there. */
export async function send(page: Page, fields: Record<string, string>, button: string | RegExp): Promise<void> {
  for (const [label, value] of Object.entries(fields)) await fieldOf(page, label).fill(value)
  await follow(page, () => page.getByRole('button', {name: button}).click())
}

/** Does what leads to another page, and resolves when it is there. */
export async function follow(page: Page, act: () => Promise<unknown>): Promise<void> {
  await Promise.all([page.waitForEvent('domcontentloaded'), act()])
}

export const heading = (page: Page, text: string | RegExp) =>
  page.getByRole('heading', {name: text, level: 1, exact: true}).waitFor()

export const alertOf = (page: Page) => page.getByRole('alert').textContent()

export const main = (page: Page) => page.locator('main')
