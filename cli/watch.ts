// Repeats a report until it is stopped. Promises: on a terminal each report replaces the one before and fits the
// screen; elsewhere reports follow each other, with --json one line each; Ctrl-C, SIGTERM or a closed pipe ends it, and
// that is no failure.
import {setTimeout as sleep} from 'node:timers/promises'
import {terminalSize} from './fit.ts'
import {type Report, show} from './output.ts'

const everyMs = 2000
const forever = 2 ** 31 - 1 // the longest that a timer can wait
const clear = '\x1b[H\x1b[2J\x1b[3J'

export async function watch(make: () => Promise<Report>, asJson: boolean): Promise<void> {
  const end = new AbortController()
  const enough = () => end.abort()
  process.once('SIGINT', enough).once('SIGTERM', enough)
  process.stdout.once('error', enough)
  const ended = sleep(forever, undefined, {signal: end.signal}).catch(() => undefined)
  try {
    for (let isFirst = true; ; isFirst = false) {
      const report = await Promise.race([make(), ended])
      if (!report || end.signal.aborted) return
      if (process.stdout.isTTY && !asJson) process.stdout.write(clear)
      else if (!isFirst && !asJson) console.log()
      const size = process.stdout.isTTY ? terminalSize() : undefined
      show(size && report.fitted ? {...report, text: report.fitted(size)} : report, asJson)
      await sleep(everyMs, undefined, {signal: end.signal}).catch(() => {})
    }
  } finally {
    end.abort()
  }
}
