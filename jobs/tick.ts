// The periodic work of a worker. Promises: each part runs at once and then at its interval, never concurrently with
// itself. A part that fails or takes long holds up no other part. Each part is safe to run twice and beside another
// worker. Together they repair what a lost job or a dead worker left undone.
import type {Logger} from '../base/log.ts'
import {inWords, isAway} from '../db/client/failure.ts'
import type {Outage} from '../db/client/outage.ts'
import {tickFailures} from './metrics.ts'

export interface Part {
  name: string
  intervalMs: number
  run(): Promise<unknown>
}

/** Starts the parts. The returned function stops them, and resolves when none is running. */
export function startTick(parts: Part[], {log, outage}: {log: Logger; outage: Outage}): () => Promise<void> {
  const stops = parts.map((part, i) => {
    // Apart from each other from the second time on, or each would need a connection at the same moment.
    let pauseMs = (part.intervalMs * (i + 1)) / parts.length
    tickFailures.inc({part: part.name}, 0)
    let timer: NodeJS.Timeout | undefined
    let isStopped = false
    let running: Promise<void>
    const run = async () => {
      try {
        await part.run()
      } catch (error) {
        if (!isStopped) {
          tickFailures.inc({part: part.name})
          if (isAway(error)) outage.failed(`${inWords(error)} (${part.name})`)
          else log.error({part: part.name, error: inWords(error)}, 'a part of the tick failed; it will be retried')
        }
      }
      if (!isStopped) timer = setTimeout(start, pauseMs)
      pauseMs = part.intervalMs
    }
    const start = () => {
      running = run()
    }
    start()
    return () => {
      isStopped = true
      clearTimeout(timer)
      return running
    }
  })
  return async () => void (await Promise.all(stops.map(stop => stop())))
}
