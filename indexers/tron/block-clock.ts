// When to ask for the next block of a chain whose blocks have the times of their slots, a fixed interval apart. A poll
// right after a block costs the node as much as one just before it, and shows the block sooner. How long after its time
// a node shows a block is learned: a little less each time that it was there, more each time that it was late.

/** A block that was not there is asked for again so soon, and so often. */
const againMs = 50
const againMost = 4
const laterMs = 40
const earlierMs = 8
/** Until a block is late for the first time, the share of the interval by which each poll is earlier. */
const firstSteps = 16

export class BlockClock {
  readonly #intervalMs: number
  /** Of the newest block. */
  #time: number | undefined
  /** From the time of a block to the poll that shows it, but for whole intervals: the node's clock may differ. */
  #delayMs = 0
  #isNew = false
  #wasLate = false
  /** How often the next block was asked for and not there; above `againMost`, there is none for now. */
  #again = 0

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs
  }

  /** What a poll has shown: the time of the newest block. */
  saw(time: number, now = Date.now()): void {
    this.#isNew = time !== this.#time
    if (!this.#isNew) return
    if (this.#time === undefined) this.#delayMs = (now - time) % this.#intervalMs
    else if (this.#again === 0) this.#delayMs -= this.#wasLate ? earlierMs : this.#intervalMs / firstSteps
    else this.#delayMs += this.#again > againMost ? againMost * againMs : laterMs
    this.#wasLate ||= this.#again > 0
    this.#time = time
    this.#again = 0
  }

  /** How long to wait for the next poll: about as long as `pollMs` or longer, unless a block is late. */
  pauseMs(pollMs: number, now = Date.now()): number {
    if (this.#time === undefined) return pollMs
    if (!this.#isNew && this.#again++ < againMost) return againMs
    const due = this.#time + this.#delayMs
    const slots = Math.ceil((now + pollMs - due) / this.#intervalMs)
    return due + slots * this.#intervalMs - now
  }
}
