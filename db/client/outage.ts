// One outage of the database, however many statements fail in it. Promises: an outage is logged once when it begins,
// with the cause, and once when it is over, with its length and the number of failures. One in which the process before
// this one ended goes on, and is not logged again.
import type {Logger} from '../../base/log.ts'

/** A failure that comes this soon after another one belongs to the same outage. */
const quietMs = 2000

export class Outage {
  readonly #log: Logger
  #failures = 0
  #beganAt = 0
  #failedAt = 0

  /** `since`: when it began, if the process before this one logged that. */
  constructor(log: Logger, since?: Date) {
    this.#log = log
    if (!since) return
    this.#failures = 1
    this.#failedAt = performance.now()
    this.#beganAt = this.#failedAt - Math.max(0, Date.now() - since.getTime())
  }

  /** The database, or the way to it, failed. */
  failed(error: string): void {
    this.#failedAt = performance.now()
    if (this.#failures++ > 0) return
    this.#beganAt = this.#failedAt
    this.#log.error({error}, 'the database is away; trying again until it is back')
  }

  /** The database responds and takes writes. The outage is over if it does so for a while. */
  works(): void {
    if (performance.now() - this.#failedAt >= quietMs) this.over()
  }

  /** What needed the database is done. */
  over(): void {
    if (this.#failures === 0) return
    const seconds = Math.round((this.#failedAt - this.#beganAt) / 100) / 10
    this.#log.info({seconds, failures: this.#failures}, 'the database is back')
    this.#failures = 0
  }
}
