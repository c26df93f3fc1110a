// Runs a process of the service until an error ends it. Promises: whatever part of it notices that the database is
// lost, also a library whose error nobody catches, the process ends with exit code 70; the supervisor starts it again
// soon, and the next one waits inside. An outage is one line when it begins and one when it is over, across such a
// restart. What only an operator can mend is told to the supervisor. What Node warns of is a line of the log.
import {PermanentError} from '../../base/errors.ts'
import {announceFailure, databaseAwaySince, exitLost} from '../../base/lifecycle.ts'
import type {Logger} from '../../base/log.ts'
import {unknownSettings} from '../../chains/settings.ts'
import {failureOf, inWords, isAway, isForkBelowFinal} from './failure.ts'
import {Outage} from './outage.ts'

export interface Ends {
  outage: Outage
  /** Ends the process, because the database is lost for this reason. */
  lose(reason: string): void
  /** Ends the process with an error. */
  fail(error: unknown): void
  /**
   * Ends the process, which was told to end and must not stay away: the supervisor starts it again soon, however often
   * that happens.
   */
  startAgain(reason: string): void
}

/** `cannot` says in the log what the process cannot do when it ends. */
export function runProcess(log: Logger, cannot: string, main: (ends: Ends) => Promise<unknown>): void {
  const outage = new Outage(log, databaseAwaySince())
  const lose = (reason: string) => {
    outage.failed(reason)
    process.exit(exitLost)
  }
  const startAgain = (reason: string) => {
    log.warn({reason}, 'starting again')
    process.exit(0)
  }
  const fail = (error: unknown) => {
    if (isAway(error)) return lose(inWords(error))
    if (isForkBelowFinal(error)) return startAgain((error as Error).message) // the next one observes the fork, and halts the chain
    const isPermanent = error instanceof PermanentError
    const stack = isPermanent || failureOf(error) ? undefined : (error as Error | undefined)?.stack
    log.fatal({error: inWords(error), stack}, cannot)
    if (isPermanent) announceFailure(error.message)
    else process.exit(1)
  }
  process.on('uncaughtException', fail)
  process.removeAllListeners('warning') // Node's own listener prints lines that are no JSON
  process.on('warning', ({name, message, stack}) => log.warn({warning: name, stack}, message))
  if (!process.send) warnOfUnknown(log) // the supervisor has warned for its processes
  main({outage, lose, fail, startAgain}).catch(fail)
}

/** Warns of variables that may be misspelt settings. */
export function warnOfUnknown(log: Logger): void {
  const unknown = unknownSettings()
  if (unknown)
    log.warn(
      {unknown},
      'these variables are no settings of Sluice, and have no effect; .env.example lists all settings',
    )
}
