// The progress bar of a long command, with rate and time left. Promises: it is on stderr, so that stdout holds only the
// result; if stderr is not a terminal, it is a line now and then, for a log.

const redrawMs = 200
const lineMs = 10_000
const width = 28

export interface ProgressOptions {
  /** What is done, such as "reading ETH". */
  what: string
  /** What is counted, such as "blocks". */
  unit: string
  total: number
  /** How many of them were done before, by another call. */
  doneBefore?: number
  /** Where it is drawn (default: stderr). */
  to?: {isTTY?: boolean; write(text: string): unknown}
  /** Milliseconds. */
  now?: () => number
}

export class Progress {
  readonly #options: ProgressOptions
  readonly #to: NonNullable<ProgressOptions['to']>
  readonly #now: () => number
  readonly #startedAt: number
  #total: number
  #drawnAt = Number.NEGATIVE_INFINITY
  #done = 0

  constructor(options: ProgressOptions) {
    this.#options = options
    this.#total = options.total
    this.#to = options.to ?? process.stderr
    this.#now = options.now ?? performance.now.bind(performance)
    this.#startedAt = this.#now()
  }

  /** How much of the total is done: an estimate of it that was too low grows. */
  at(done: number): void {
    this.#done = done
    this.#total = Math.max(this.#total, done)
    const everyMs = this.#to.isTTY ? redrawMs : lineMs
    if (this.#now() - this.#drawnAt >= everyMs) this.#draw()
  }

  /**
   * Draws the last state; the next output begins on a new line. `all`: everything is done, and this is how much it was,
   * if at() was only told estimates.
   */
  end(all?: number): void {
    if (all !== undefined) {
      this.#done = all
      this.#total = all
    }
    this.#draw(true)
    if (this.#to.isTTY) this.#to.write('\n')
  }

  #draw(isOver = false): void {
    this.#drawnAt = this.#now()
    const line = this.#line(isOver)
    this.#to.write(this.#to.isTTY ? `\r\x1b[2K${line}` : `${line}\n`)
  }

  #line(isOver: boolean): string {
    const total = this.#total
    const {what, unit, doneBefore = 0} = this.#options
    const seconds = (this.#now() - this.#startedAt) / 1000
    const share = total > 0 ? this.#done / total : 1
    const filled = Math.round(share * width)
    const bar = '█'.repeat(filled) + '░'.repeat(width - filled)
    const rate = seconds > 0 ? (this.#done - doneBefore) / seconds : 0
    const left = rate > 0 && share < 1 ? `${duration((total - this.#done) / rate)} left` : ''
    const parts = [`${what}  ${bar} ${String(Math.floor(share * 100)).padStart(3)} %`]
    parts.push(
      `${this.#done} of ${total} ${unit}`,
      `${rate < 10 ? rate.toFixed(1) : Math.round(rate)}/s`,
      isOver ? `took ${duration(seconds)}` : left,
    )
    return parts.filter(Boolean).join('  ')
  }
}

function duration(seconds: number): string {
  const whole = Math.round(seconds)
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`
}
