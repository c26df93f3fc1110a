// The jobs worker as a process. Promises: it reports ready when it works. It exits with 70 at once when it loses its liveness connection. While the
// database is away at its start, it waits.
import {PermanentError} from '../base/errors.ts'
import {announceReady, endWhenAsked, exitLost} from '../base/lifecycle.ts'
import {logger} from '../base/log.ts'
import {observe} from '../base/observe.ts'
import {databaseUrlOf, readSettings} from '../chains/settings.ts'
import {failureOf, inWords, isAway} from '../db/failure.ts'
import {startWorker} from './worker.ts'

// A slow DNS lookup blocks one of libuv's threads (four by default) until its name server responds. libuv reads the variable at first use.
process.env.UV_THREADPOOL_SIZE ??= '64'

const log = logger('jobs')

async function main(): Promise<void> {
  const settings = readSettings()
  await observe({...settings, log})
  const starting = startWorker({
    databaseUrl: databaseUrlOf(settings),
    settings,
    log,
    onLost: reason => {
      log.fatal({reason}, 'the worker ends with an error; other workers take over its work')
      process.exit(exitLost)
    },
  })
  endWhenAsked(async () => (await starting).stop())
  await starting
  log.info('the worker runs: jobs, webhooks and payouts')
  announceReady()
}

main().catch(error => {
  log.fatal(
    {error: inWords(error), stack: failureOf(error) || error instanceof PermanentError ? undefined : error.stack},
    'the jobs worker cannot start',
  )
  process.exit(isAway(error) ? exitLost : 1)
})
