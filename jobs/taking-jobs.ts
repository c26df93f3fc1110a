// Whether graphile-worker can take jobs at all. It (0.18.0) looks up its tasks once, and keeps what came of it, also if
// that look failed because the database was lost just then: it never takes a job again, and says so only to its debug
// log. Promises: a pool that fails to take jobs for `longestMs` without a success between is told of. (A database that
// is away ends the process by itself: liveness.ts.)
import type {WorkerEvents} from 'graphile-worker'
import {inWords} from '../db/client/failure.ts'

const longestMs = 5000

/** `events` are those of the pool. `onStuck` must end the process; it is called with the reason. */
export function watchTaking(events: WorkerEvents, onStuck: (reason: string) => void): void {
  let failingSince: number | undefined
  const takes = () => {
    failingSince = undefined
  }
  events.on('worker:getJob:empty', takes)
  events.on('job:start', takes)
  events.on('worker:getJob:error', ({error}) => {
    failingSince ??= performance.now()
    if (performance.now() - failingSince > longestMs) onStuck(`graphile-worker takes no jobs: ${inWords(error)}`)
  })
}
