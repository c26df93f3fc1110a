// The sign-in process on a real socket, with a stand-in for the pages process that records what it is asked; and
// browsers, which keep cookies and send the origin with every form as browsers do.
import {createHash, randomBytes} from 'node:crypto'
import {mkdtempSync, rmSync} from 'node:fs'
import {createServer, type IncomingMessage, type ServerResponse} from 'node:http'
import type {AddressInfo} from 'node:net'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {logger} from '../../base/log.ts'
import {buildServer} from '../../dashboard/auth/server.ts'
import {codeAt} from '../../dashboard/auth/totp.ts'
import {Outage} from '../../db/client/outage.ts'
import {openPool} from '../../db/client/pool.ts'
import type {TestDatabase} from './database.ts'

export interface SignInServer {
  url: string
  /** What the pages process was asked. */
  asked: IncomingMessage[]
  /** What it responds, until it is changed. */
  respond: (request: IncomingMessage, response: ServerResponse) => void
  close(): Promise<void>
}

export async function startSignIn(db: Pick<TestDatabase, 'url'>): Promise<SignInServer> {
  const directory = mkdtempSync(path.join(tmpdir(), 'sluice-pages-'))
  const socket = path.join(directory, 'pages.sock')
  const started: SignInServer = {
    url: '',
    asked: [],
    respond: (_request, response) => response.writeHead(200, {'content-type': 'text/html'}).end('<h1>A page</h1>'),
    close: async () => {
      await app.close()
      await pool.end()
      pages.closeAllConnections()
      await new Promise(resolve => pages.close(resolve))
      rmSync(directory, {recursive: true})
    },
  }
  const pages = createServer((request, response) => {
    started.asked.push(request)
    started.respond(request, response)
  })
  await new Promise<void>(resolve => pages.listen(socket, resolve))
  const log = logger('dashboard-auth')
  log.level = 'fatal'
  const pool = openPool(db.url('sluice_auth'), {name: 'sluice-auth', max: 4})
  const secret = randomBytes(32).toString('hex')
  const outage = new Outage(log)
  const app = await buildServer({pool, secret, url: () => started.url, socket, proxies: ['127.0.0.1'], log, outage})
  await app.listen({host: '127.0.0.1', port: 0})
  started.url = `http://localhost:${(app.server.address() as AddressInfo).port}`
  return started
}

export interface Reply {
  status: number
  headers: Headers
  location: string | null
  text: string
}

export class Browser {
  readonly cookies = new Map<string, string>()
  /** As a reverse proxy says it. */
  readonly address: string
  readonly #server: Pick<SignInServer, 'url'>

  constructor(server: Pick<SignInServer, 'url'>, address = '203.0.113.1') {
    this.#server = server
    this.address = address
  }

  async send(
    method: string,
    path: string,
    body?: string | Record<string, string>,
    headers: Record<string, string> = {},
  ): Promise<Reply> {
    const response = await fetch(this.#server.url.replace('localhost', '127.0.0.1') + path, {
      method,
      redirect: 'manual',
      headers: {
        accept: 'text/html',
        cookie: [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; '),
        'x-forwarded-for': this.address,
        ...(method !== 'GET' && {origin: this.#server.url, 'sec-fetch-site': 'same-origin'}),
        ...(body !== undefined && {'content-type': 'application/x-www-form-urlencoded'}),
        ...headers,
      },
      body: typeof body === 'object' ? new URLSearchParams(body).toString() : body,
    })
    for (const cookie of response.headers.getSetCookie()) this.#keep(cookie)
    return {
      status: response.status,
      headers: response.headers,
      location: response.headers.get('location'),
      text: await response.text(),
    }
  }

  get = (path: string, headers?: Record<string, string>) => this.send('GET', path, undefined, headers)
  post = (path: string, body: string | Record<string, string> = {}, headers?: Record<string, string>) =>
    this.send('POST', path, body, headers)

  #keep(cookie: string): void {
    const [pair, ...attributes] = cookie.split('; ')
    const [name, value] = [pair!.slice(0, pair!.indexOf('=')), pair!.slice(pair!.indexOf('=') + 1)]
    if (attributes.includes('Max-Age=0')) this.cookies.delete(name)
    else this.cookies.set(name, value)
  }
}

/** The path of a new invitation, as the operator makes it. */
export async function invite(
  db: Pick<TestDatabase, 'rows'>,
  merchantId: string,
  email: string | null = null,
): Promise<string> {
  const token = randomBytes(32).toString('base64url')
  await db.rows('select dashboard.invite($1, $2, $3)', [merchantId, createHash('sha256').update(token).digest(), email])
  return `/invitation/${token}`
}

export const password = 'correct horse battery'

/** Somebody who accepted an invitation: signed in, without a second factor yet. */
export async function join(
  server: Pick<SignInServer, 'url'>,
  db: Pick<TestDatabase, 'rows'>,
  merchantId: string,
  email: string,
  address?: string,
): Promise<Browser> {
  const browser = new Browser(server, address)
  const {status, text} = await browser.post(await invite(db, merchantId), {name: 'Ada', email, password})
  if (status !== 303) throw new Error(`the invitation was not accepted: ${status} ${text}`)
  return browser
}

/** Sets up an authenticator. Resolves to its secret, and the recovery codes. */
export async function setUpAuthenticator(browser: Browser): Promise<{secret: string; codes: string[]}> {
  const begun = await browser.post('/security/authenticator')
  const secret = /<code>([A-Z2-7 ]+)<\/code>/.exec(begun.text)![1]!.replaceAll(' ', '')
  const sealed = /name="sealed" value="([^"]+)"/.exec(begun.text)![1]!
  const {status, text} = await browser.post('/security/authenticator/confirm', {sealed, code: codeAt(secret, step())})
  if (status !== 200) throw new Error(`the authenticator was not set up: ${status} ${text}`)
  return {secret, codes: /<pre[^>]*>([^<]+)<\/pre>/.exec(text)![1]!.split('\n')}
}

/** The present half minute. */
export const step = () => Math.floor(Date.now() / 30_000)
