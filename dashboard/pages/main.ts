// The process that shows the pages. It listens on a unix socket for the sign-in process (dashboard/auth), which alone
// can reach it, and sees no password, code or cookie. It ends cleanly when it is asked to or its parent is gone.
import {chmodSync, mkdirSync, rmSync} from 'node:fs'
import path from 'node:path'
import {dashboardSocket} from '../../base/home.ts'
import {announceReady} from '../../base/lifecycle.ts'
import {logger} from '../../base/log.ts'
import {observe} from '../../base/observe.ts'
import {databaseUrlOf, readSettings} from '../../chains/settings.ts'
import {connections} from '../../db/client/connections.ts'
import {stayUp} from '../../db/client/held-connection.ts'
import {openPool} from '../../db/client/pool.ts'
import {type Ends, runProcess} from '../../db/client/run-process.ts'
import {buildServer} from './server.ts'

const log = logger('dashboard-pages')
const connectTimeoutMs = 5_000

async function main({outage}: Ends): Promise<void> {
  const settings = readSettings()
  const {host, port, publicUrl, chains, webhookAllowPrivate, payoutTimeoutMs, paymentExpiryMs, paymentLateAfterMs} =
    settings
  const max = connections.sluice_dashboard.pool
  const pool = openPool(databaseUrlOf(settings), {name: 'sluice-dashboard', max, log, connectTimeoutMs})
  const apiUrl = publicUrl ?? `http://${host}:${port}`
  const waits = {payoutTimeoutMs, paymentExpiryMs, paymentLateAfterMs}
  const app = await buildServer({pool, log, outage, chains, webhookAllowPrivate, apiUrl, ...waits})
  await observe({...settings, log})
  await stayUp(pool, {url: databaseUrlOf(settings), name: 'sluice-dashboard-held', outage}, () => app.close())
  const socket = dashboardSocket(settings.home)
  mkdirSync(path.dirname(socket), {recursive: true})
  rmSync(socket, {force: true}) // of a process that was killed
  await app.listen({path: socket})
  chmodSync(socket, 0o666) // whoever reaches it needs the token of a session
  log.info({socket}, 'the pages are served')
  announceReady()
}

runProcess(log, 'the pages cannot be served', main)
