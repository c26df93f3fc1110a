// Decides which endpoints this worker sends to. Promises: one worker at a time sends to an endpoint, the one that holds
// its advisory lock. A worker that dies, or is cut from the database, loses the lock at once. No endpoint waits for
// another. One pass finds every due delivery: endpoints with something due are locked, and their pumps woken; endpoints
// that are done are unlocked.
import type pg from 'pg'
import type {Logger} from '../../base/log.ts'
import {inWords} from '../../db/client/failure.ts'
import {coalesce} from '../coalesce.ts'
import {Pump} from './pump.ts'
import type {Sender} from './send.ts'

/** How long requests in flight may take when the worker stops. */
const stopGraceMs = 2000

/**
 * Of these endpoints ($1) those that are held already ($2), and those that nobody held and that this statement locks.
 */
const acquire = 'select id from unnest($1::uuid[]) as due (id) where id = any($2::uuid[]) or app.try_lock_endpoint(id)'
const release = 'select app.unlock_endpoint(id) from unnest($1::uuid[]) as held (id)'

export interface Dispatcher {
  /** Finds what is due. Resolves when the pumps of those endpoints are awake. */
  pass(): Promise<void>
  /** Ends all sending within `stopGraceMs`; deliveries without a response by then stay due. */
  stop(): Promise<void>
}

/**
 * `locks` is the liveness connection. When it is lost, the process ends, so nothing is sent without the lock. It takes
 * nothing that may last: a worker that does not hear from the database on it for some seconds ends.
 */
export function startDispatcher(to: {locks: pg.Client; pool: pg.Pool; sender: Sender; log: Logger}): Dispatcher {
  const pumps = new Map<string, Pump>()
  let isStopping = false
  const becameIdle = () => void pass().catch(error => to.log.error({error: inWords(error)}, 'webhooks: a pass failed'))

  const pass = coalesce(async () => {
    const idle = [...pumps.values()].filter(pump => pump.isIdle).map(pump => pump.endpointId)
    for (const id of idle) pumps.delete(id)
    if (idle.length) await to.locks.query({name: 'release_endpoints', text: release, values: [idle]})
    if (isStopping) return
    // After the release, because other workers saw these endpoints locked.
    const {rows} = await to.pool.query<{id: string}>('select id from app.due_endpoints() as due (id)')
    if (!rows.length) return
    const values = [rows.map(({id}) => id), [...pumps.keys()]]
    const held = await to.locks.query<{id: string}>({name: 'acquire_endpoints', text: acquire, values})
    for (const {id} of held.rows) {
      const pump = pumps.get(id) ?? new Pump(id, {...to, onIdle: becameIdle})
      pumps.set(id, pump)
      pump.wake()
    }
  })

  const stop = async () => {
    isStopping = true
    await pass() // after this, a pass that was running has created its pumps
    for (const pump of pumps.values()) pump.stop()
    const allIdle = async (until: number) => {
      while ([...pumps.values()].some(pump => !pump.isIdle) && performance.now() < until)
        await new Promise(resolve => setTimeout(resolve, 10))
    }
    await allIdle(performance.now() + stopGraceMs)
    for (const pump of pumps.values()) pump.cut()
    await to.sender.close()
    await allIdle(performance.now() + 1000)
    await pass()
  }

  return {pass, stop}
}
