// How a process of the service ends. Promises: SIGTERM, SIGINT and the death of the supervisor (its IPC channel closes)
// all end it, and it ends within `graceMs` even if `stop` hangs.

const graceMs = 5000

/**
 * Exit code of a process that lost the database, which is no fault of its own: the next one waits inside until the
 * database is back.
 */
export const exitLost = 70

/**
 * In the environment of a process, if the one before it ended with exitLost: since when the database is away, in
 * milliseconds since 1970.
 */
const awaySinceVariable = 'DATABASE_AWAY_SINCE_MS'

/** The environment that tells a process since when the database is away; empty if it is there. */
export function withAwaySince(since: Date | undefined): NodeJS.ProcessEnv {
  return since ? {[awaySinceVariable]: String(since.getTime())} : {}
}

/** Since when the database is away, if the process before this one ended because of that. */
export function databaseAwaySince(): Date | undefined {
  const since_ms = Number(process.env[awaySinceVariable])
  return since_ms > 0 ? new Date(since_ms) : undefined
}

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

let ready = false
/** Whether the process does its work, or stands by for another one that does. */
export const isReady = (): boolean => ready

/** Notifies the supervisor, if there is one, that the process does its work now. */
export function announceReady(details: Record<string, string> = {}): void {
  ready = true
  process.send?.({ready: true, ...details}, endIfLost)
}

/** The supervisor has died, perhaps before anybody listened for that. Nothing is under way yet. */
function endIfLost(error: Error | null): void {
  if (error) process.exit(0)
}

/** Notifies the supervisor, if there is one, why the process cannot do its work, and exits with code 1. */
export function announceFailure(why: string): void {
  if (process.send) process.send({failed: why}, () => process.exit(1))
  else process.exit(1)
}
