// Whether graphile-worker's tables became newer than this worker can work with. graphile-worker ends for a message on a
// channel that every role of the database can send to, so that anybody could keep the workers from working. Promises:
// the message is believed only if the table of its migrations says the same; it is looked up once, however many
// messages arrive meanwhile.
import {EventEmitter} from 'node:events'
import type {WorkerEvents} from 'graphile-worker'
import type pg from 'pg'
import type {Logger} from '../base/log.ts'
import {inWords} from '../db/client/failure.ts'
import {coalesce} from './coalesce.ts'

/**
 * The events of the pool to be started. `onBreaking` is called when a migration that it cannot work with was done after
 * this call.
 */
export async function believeNoMessage(pool: pg.Pool, onBreaking: () => void, log: Logger): Promise<WorkerEvents> {
  const known = await newestBreaking(pool)
  const check = coalesce(async () => {
    if ((await newestBreaking(pool)) > known) onBreaking()
  })
  const events: WorkerEvents = new EventEmitter()
  events.on('pool:listen:notification', ({message}) => {
    if (message.channel !== 'worker:migrate') return
    message.payload = '' // graphile-worker reads it next, and does nothing
    check().catch(error => log.error({error: inWords(error)}, 'the migrations of graphile-worker could not be read'))
  })
  return events
}

async function newestBreaking(pool: pg.Pool): Promise<number> {
  const {rows} = await pool.query<{id: number}>(
    'select coalesce(max(id), 0) as id from graphile_worker.migrations where breaking',
  )
  return rows[0]!.id
}
