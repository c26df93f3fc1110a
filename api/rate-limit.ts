// The rate limit of a merchant: so many requests in a window of 60 seconds, which begins with the first of them. Counted in this
// process alone; several API processes allow so many each.

const WINDOW_MS = 60_000

export interface Allowance {
  allowed: boolean
  /** Value of the RateLimit header: what is left, and the seconds until the window ends. */
  header: string
  /** Seconds until the window ends, rounded up. */
  resetSeconds: number
}

export class RateLimiter {
  /** Value of the RateLimit-Policy header. */
  readonly policy: string
  readonly #limit: number
  readonly #now: () => number
  readonly #windows = new Map<string, {endsAt: number; left: number}>()

  constructor(limit: number, now: () => number = () => performance.now()) {
    this.#limit = limit
    this.#now = now
    this.policy = `"default";q=${limit};w=${WINDOW_MS / 1000}`
  }

  /** What a request without a merchant is told: it takes nothing from anybody's window. */
  get untouched(): string {
    return `"default";r=${this.#limit};t=${WINDOW_MS / 1000}`
  }

  /** Takes one request from the merchant's window. */
  take(merchantId: string): Allowance {
    const now = Math.floor(this.#now()) // of a fraction the difference may come out longer than the window
    let window = this.#windows.get(merchantId)
    if (!window || window.endsAt <= now) {
      window = {endsAt: now + WINDOW_MS, left: this.#limit}
      this.#windows.set(merchantId, window)
    }
    const allowed = window.left > 0
    if (allowed) window.left--
    const resetSeconds = Math.ceil((window.endsAt - now) / 1000)
    return {allowed, header: `"default";r=${window.left};t=${resetSeconds}`, resetSeconds}
  }
}
