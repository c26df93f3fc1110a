// The API process: reads the settings, listens, and ends cleanly when it is asked to or its parent is gone.
import type {AddressInfo} from 'node:net'
import {announceReady, endWhenAsked} from '../base/lifecycle.ts'
import {listening, urlAt} from '../base/listen.ts'
import {logger} from '../base/log.ts'
import {observe} from '../base/observe.ts'
import {databaseUrlOf, readSettings} from '../chains/settings.ts'
import {untilWritable} from '../db/client/held-connection.ts'
import {openPool} from '../db/client/pool.ts'
import {type Ends, runProcess} from '../db/client/run-process.ts'
import {requireSameAssets} from '../db/migrate/assets.ts'
import {buildServer} from './server.ts'

const log = logger('api')

async function main({outage}: Ends): Promise<void> {
  const settings = readSettings()
  const {host, port, databaseReplicaUrl: replicaUrl, rateLimitPerMinute, webhookAllowPrivate} = settings
  const {chains, publicUrl, paymentExpiryMs, paymentLateAfterMs, metricsOnApiPort, docsTry} = settings
  await untilWritable({url: databaseUrlOf(settings), name: 'sluice-api-keys', outage})
  const pool = openPool(databaseUrlOf(settings), {name: 'sluice-api-settings', max: 1, log})
  await requireSameAssets(pool, chains.values()).finally(() => pool.end())
  let url = ''
  const app = await buildServer({
    databaseUrl: databaseUrlOf(settings),
    replicaUrl,
    rateLimitPerMinute,
    webhookAllowPrivate,
    chains,
    publicUrl: () => publicUrl ?? url,
    paymentExpiryMs,
    paymentLateAfterMs,
    metricsOnApiPort,
    docsTry,
    log,
    outage,
  })
  await observe({...settings, log, text: () => app.metrics()})
  endWhenAsked(() => app.close())
  await listening(app.listen({host, port}), host, port, 'the API', 'PORT')
  url = urlAt(host, (app.server.address() as AddressInfo).port)
  log.info({url}, 'the API listens')
  announceReady({url})
}

runProcess(log, 'the API cannot go on', main)
