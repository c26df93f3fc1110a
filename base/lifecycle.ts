// How a process of the service ends. Promises: SIGTERM, SIGINT and the death of the supervisor (its IPC channel closes) all end it, and
// it ends within `graceMs` even if `stop` hangs.

const graceMs = 5000

/** Exit code of a process that lost the database, which is no fault of its own: the next one waits inside until the database is back. */
export const exitLost = 70

/** Calls `stop` once when the process is asked to end, then exits with code 0. */
export function endWhenAsked(stop: () => Promise<void> = async () => {}): void {
  let asked = false
  const end = () => {
    if (asked) return
    asked = true
    setTimeout(() => process.exit(1), graceMs).unref()
    stop().then(
      () => process.exit(0),
      () => process.exit(1),
    )
  }
  process.once('SIGTERM', end)
  process.once('SIGINT', end)
  process.once('disconnect', end)
}

/** Notifies the supervisor, if there is one, that the process does its work now. */
export function announceReady(details: Record<string, string> = {}): void {
  process.send?.({ready: true, ...details})
}

/** Notifies the supervisor, if there is one, why the process cannot do its work, and exits with code 1. */
export function announceFailure(why: string): void {
  if (process.send) process.send({failed: why}, () => process.exit(1))
  else process.exit(1)
}
