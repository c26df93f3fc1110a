// The jobs worker as a process. Promises: says {ready: true} to its parent when it works; stops within 5 seconds on SIGTERM, SIGINT or the
// end of its parent; exits with 70 at once when it loses its liveness connection.
import {logger} from '../service/log.ts'
import {databaseUrlOf, readSettings} from '../service/settings.ts'
import {startWorker} from './worker.ts'

const exitLost = 70
const stopTimeoutMs = 4800

// A name that is slow to resolve holds a thread of libuv's, four by default, for as long as its name server likes. Read at first use.
process.env.UV_THREADPOOL_SIZE ??= '64'

const log = logger('jobs')
const settings = readSettings()
const starting = startWorker({
  databaseUrl: databaseUrlOf(settings),
  allowPrivate: settings.webhookAllowPrivate,
  log,
  onLost: reason => {
    log.fatal({reason}, 'the liveness connection is lost; other workers take over what this one did')
    process.exit(exitLost)
  },
})

let isStopping = false
async function stop(why: string): Promise<void> {
  if (isStopping) return
  isStopping = true
  log.info({why}, 'stopping')
  setTimeout(() => process.exit(1), stopTimeoutMs).unref()
  await (await starting).stop()
  process.exit(0)
}
process.on('SIGTERM', () => void stop('SIGTERM'))
process.on('SIGINT', () => void stop('SIGINT'))
process.on('disconnect', () => void stop('the parent is gone'))

await starting
log.info('webhooks and jobs are being worked on')
process.send?.({ready: true})
