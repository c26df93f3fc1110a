// For parts of a process that run inside a test: whatever would end the process fails the test.
import type {Logger} from '../../base/log.ts'
import {Outage} from '../../db/client/outage.ts'
import type {Ends} from '../../db/client/run-process.ts'

export function endsOf(log: Logger): Ends {
  return {
    outage: new Outage(log),
    lose: reason => {
      throw new Error(reason)
    },
    fail: error => {
      throw error
    },
    startAgain: reason => {
      throw new Error(reason)
    },
  }
}
