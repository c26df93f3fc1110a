// How a program in a terminal is interrupted. Promises: Ctrl-C, SIGTERM, a closed terminal, and the death of the npm
// that started the program all ask it to end; asking again a while later ends it at once.

const secondAfterMs = 700
const parentIntervalMs = 500

/**
 * Calls `first` when the process is asked to end, and `again` each later time. Requests in the same moment count as
 * one: npm passes on the Ctrl-C that the terminal has sent to the process already.
 */
export function onInterrupt({first, again}: {first(): void; again(): void}): void {
  let askedAt: number | undefined
  const ask = () => {
    if (askedAt === undefined) {
      askedAt = Date.now()
      first()
    } else if (Date.now() - askedAt > secondAfterMs) again()
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, ask)
  if (!process.env.npm_lifecycle_event) return
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    ask()
  }, parentIntervalMs)
  timer.unref()
}
