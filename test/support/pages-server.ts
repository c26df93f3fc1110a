// The server of the dashboard's pages on a unix socket, with a database of its own, a merchant and a person.
import {mkdtempSync, rmSync} from 'node:fs'
import {type IncomingMessage, request} from 'node:http'
import {tmpdir} from 'node:os'
import path from 'node:path'
import type pg from 'pg'
import {logger} from '../../base/log.ts'
import {readSettings} from '../../chains/settings.ts'
import type {App} from '../../dashboard/pages/app.ts'
import {buildServer} from '../../dashboard/pages/server.ts'
import {Outage} from '../../db/client/outage.ts'
import {openPool} from '../../db/client/pool.ts'
import {type SignedIn, signIn} from './dashboard.ts'
import {Money} from './money.ts'
import type {TestUser} from './people.ts'

const log = logger('test')
log.level = 'silent'

export interface Asked {
  token?: string
  form?: string
}

/** Built as in production, and ready to listen. */
export const buildPages = (pool: pg.Pool): Promise<App> =>
  buildServer({
    pool,
    log,
    outage: new Outage(log),
    chains: readSettings({}).chains,
    webhookAllowPrivate: true,
    apiUrl: 'http://127.0.0.1:8080',
    payoutTimeoutMs: 86_400_000,
    paymentExpiryMs: 86_400_000,
    paymentLateAfterMs: 7_200_000,
  })

export class PagesServer {
  readonly money: Money
  readonly pool: pg.Pool
  readonly app: App
  readonly shop: TestUser
  readonly ada: SignedIn
  readonly folder: string

  private constructor(parts: Pick<PagesServer, 'money' | 'pool' | 'app' | 'shop' | 'ada' | 'folder'>) {
    this.money = parts.money
    this.pool = parts.pool
    this.app = parts.app
    this.shop = parts.shop
    this.ada = parts.ada
    this.folder = parts.folder
  }

  static async open(): Promise<PagesServer> {
    const folder = mkdtempSync(path.join(tmpdir(), 'sluice-pages-'))
    const money = await Money.open()
    const shop = await money.merchant()
    const ada = await signIn(money.db, shop.merchantId)
    const pool = openPool(money.db.url('sluice_dashboard'), {name: 'sluice-dashboard', max: 4})
    const app = await buildPages(pool)
    await app.listen({path: path.join(folder, 'pages.sock')})
    return new PagesServer({money, pool, app, shop, ada, folder})
  }

  async close(): Promise<void> {
    await this.app.close()
    await this.pool.end()
    await this.money.close()
    rmSync(this.folder, {recursive: true})
  }

  ask(url: string, {token = this.ada.token, form}: Asked = {}): Promise<IncomingMessage> {
    const headers = {'sluice-session': token, ...(form && {'content-type': 'application/x-www-form-urlencoded'})}
    const socketPath = path.join(this.folder, 'pages.sock')
    return new Promise((resolve, reject) => {
      request({socketPath, path: url, method: form ? 'POST' : 'GET', headers}, resolve)
        .on('error', reject)
        .end(form)
    })
  }
}
