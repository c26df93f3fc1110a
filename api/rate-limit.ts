// The rate limit of a merchant: no span of 60 seconds, wherever it begins, allows more requests than the limit. Each
// request is returned to the allowance after 60 seconds, or up to a second later if others followed it closely. Each
// API process counts alone and allows the full limit.

const windowMs = 60_000
/**
 * Requests that are so close together come back together: a merchant takes no more memory than this makes of a window.
 */
const grainMs = 1_000

export interface Allowance {
  allowed: boolean
  /** Value of the RateLimit header: what is left, and the seconds until some of what was used comes back. */
  header: string
  /** Those seconds, rounded up. */
  resetSeconds: number
}

interface Batch {
  firstAt: number
  lastAt: number
  count: number
}

export class RateLimiter {
  /** Value of the RateLimit-Policy header. */
  readonly policy: string
  readonly #limit: number
  readonly #now: () => number
  /** What each merchant used in the last 60 seconds, the oldest first. */
  readonly #used = new Map<string, {batches: Batch[]; left: number}>()

  constructor(limit: number, now: () => number = () => performance.now()) {
    this.#limit = limit
    this.#now = now
    this.policy = `"default";q=${limit};w=${windowMs / 1000}`
  }

  /** The header for a request without a merchant, which counts for nobody. */
  get untouched(): string {
    return `"default";r=${this.#limit};t=${windowMs / 1000}`
  }

  /** Takes one request of the merchant, if one is left. */
  take(merchantId: string): Allowance {
    const now = Math.floor(this.#now()) // of a fraction the difference may come out longer than the window
    let used = this.#used.get(merchantId)
    if (!used) {
      used = {batches: [], left: this.#limit}
      this.#used.set(merchantId, used)
    }
    const {batches} = used
    while (batches[0] && batches[0].lastAt + windowMs <= now) used.left += batches.shift()!.count
    const allowed = used.left > 0
    if (allowed) {
      used.left--
      const newest = batches.at(-1)
      if (newest && now - newest.firstAt < grainMs) Object.assign(newest, {lastAt: now, count: newest.count + 1})
      else batches.push({firstAt: now, lastAt: now, count: 1})
    }
    const resetSeconds = Math.ceil((batches[0]!.lastAt + windowMs - now) / 1000)
    return {allowed, header: `"default";r=${used.left};t=${resetSeconds}`, resetSeconds}
  }
}
