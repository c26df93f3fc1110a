// The process that signs people in, and the only one of the dashboard that browsers reach: it owns the port, and
// forwards requests for pages to the pages process (dashboard/pages). It ends cleanly when it is asked to or its parent
// is gone.
import type {AddressInfo} from 'node:net'
import {PermanentError} from '../../base/errors.ts'
import {dashboardSocket} from '../../base/home.ts'
import {announceReady} from '../../base/lifecycle.ts'
import {listening, urlAt} from '../../base/listen.ts'
import {logger} from '../../base/log.ts'
import {observe} from '../../base/observe.ts'
import {dashboardUrlOf, databaseUrlOf, readSettings} from '../../chains/settings.ts'
import {connections} from '../../db/client/connections.ts'
import {stayUp} from '../../db/client/held-connection.ts'
import {openPool} from '../../db/client/pool.ts'
import {type Ends, runProcess} from '../../db/client/run-process.ts'
import {buildServer} from './server.ts'

const log = logger('dashboard-auth')
const connectTimeoutMs = 5_000

async function main({outage}: Ends): Promise<void> {
  const settings = readSettings()
  const {host, dashboardPort: port, dashboardSecret: secret, dashboardProxies: proxies, home} = settings
  if (!secret)
    throw new PermanentError(
      'there is no secret for cookies: set DASHBOARD_SECRET, or DASHBOARD_SECRET_FILE, to at least 32 random characters (openssl rand -hex 32)',
    )
  let url = dashboardUrlOf(settings)
  const {pool: max} = connections.sluice_auth
  const pool = openPool(databaseUrlOf(settings), {name: 'sluice-auth', max, log, connectTimeoutMs})
  const app = await buildServer({pool, secret, url: () => url, socket: dashboardSocket(home), proxies, log, outage})
  await observe({...settings, log})
  await stayUp(pool, {url: databaseUrlOf(settings), name: 'sluice-auth-held', outage}, () => app.close())
  await listening(app.listen({host, port}), host, port, 'the dashboard', 'DASHBOARD_PORT')
  const {port: boundPort} = app.server.address() as AddressInfo
  url = dashboardUrlOf(settings, boundPort)
  url = dashboardUrlOf(settings, boundPort)
  log.info({url}, 'the dashboard listens')
  if (url.startsWith('https:') && proxies.length === 0)
    log.warn(
      'DASHBOARD_PROXY is not set: everybody seems to come from the reverse proxy, so all share the limit of one client address',
    )
  announceReady({url: urlAt(host, boundPort)})
}

runProcess(log, 'nobody can sign in to the dashboard', main)
