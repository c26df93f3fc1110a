// Rest for a node that asks for fewer requests. Promises: while it rests it gets none, and each rest that follows
// another at once is twice as long.
import {RetryableError} from '../base/errors.ts'

/** HTTP: we ask too often, or the node has too much to do. */
const tooMuch = [403, 429, 503]
const pauseMs = {first: 500, longest: 30_000}

export class NodeRest {
  #pauseMs = 0
  #until = 0

  /** Throws RetryableError while the node rests. */
  assertOver(): void {
    if (Date.now() < this.#until) throw new RetryableError('the node asked for fewer requests; it gets none now')
  }

  /** The HTTP status of each response. Requests that ran at the same time cause one rest. */
  note(status: number): void {
    if (status === 200) this.#pauseMs = 0
    if (!tooMuch.includes(status) || Date.now() < this.#until) return
    this.#pauseMs = Math.min(Math.max(2 * this.#pauseMs, pauseMs.first), pauseMs.longest)
    this.#until = Date.now() + this.#pauseMs
  }
}
