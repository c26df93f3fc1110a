// The jobs worker as a process. Promises: it reports ready when it works. It exits with 70 at once when it loses its
// liveness connection. While the database is away at its start, it waits.
import {announceReady, endWhenAsked} from '../base/lifecycle.ts'
import {logger} from '../base/log.ts'
import {observe} from '../base/observe.ts'
import {databaseUrlOf, readSettings} from '../chains/settings.ts'
import {type Ends, runProcess} from '../db/client/run-process.ts'
import {startWorker} from './worker.ts'

// A slow DNS lookup blocks one of libuv's threads (four by default) until its name server responds. libuv reads the
// variable at first use.
process.env.UV_THREADPOOL_SIZE ??= '64'

const log = logger('jobs')

async function main(ends: Ends): Promise<void> {
  const settings = readSettings()
  await observe({...settings, log})
  const starting = startWorker({databaseUrl: databaseUrlOf(settings), settings, log, ends})
  endWhenAsked(async () => (await starting).stop())
  await starting
  log.info('the worker runs: jobs, webhooks and payouts')
  announceReady()
}

runProcess(log, 'the jobs worker cannot go on; other workers take over its work', main)
