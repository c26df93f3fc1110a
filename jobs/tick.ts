// What a worker does by itself, again and again. Promises: each part runs at once and then in its interval, never beside itself; one that
// fails or takes long holds no other part up. Each part is safe to run twice and beside another worker's; together they make good whatever
// a lost job or a dead worker left undone.
import type {Logger} from '../base/log.ts'
import {inWords} from '../db/failure.ts'
import {tickFailures} from './metrics.ts'

export interface Part {
  name: string
  intervalMs: number
  run(): Promise<unknown>
}

/** Starts the parts. The returned function stops them, and resolves when none is running. */
export function startTick(parts: Part[], log: Logger): () => Promise<void> {
  const stops = parts.map(part => {
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
          log.error({part: part.name, error: inWords(error)}, 'a part of the tick failed; it runs again')
        }
      }
      if (!isStopped) timer = setTimeout(start, part.intervalMs)
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
