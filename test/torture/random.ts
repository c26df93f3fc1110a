// Repeatable random numbers: every choice of a run comes from its seed. (The machine decides when things happen.)

export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** A separate generator for one actor, so that its choices do not depend on the timing of others. */
  fork(name: string): Random {
    let hash = this.#state
    for (const letter of name) hash = Math.imul(hash ^ letter.charCodeAt(0), 0x01000193)
    return new Random(hash)
  }

  /** A number from 0 up to 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1))
  }

  /** The same for amounts, down to the last digit. */
  amount(low: bigint, high: bigint): bigint {
    const [most, least] = [this.between(0, 2 ** 32 - 1), this.between(0, 2 ** 32 - 1)]
    return low + ((((BigInt(most) << 32n) + BigInt(least)) * (high - low + 1n)) >> 64n)
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(list: readonly T[]): T {
    return list[this.between(0, list.length - 1)]!
  }

  /** One of the names, with its weight as probability. */
  weighted<T extends string>(weights: Record<T, number>): T {
    const names = Object.keys(weights) as T[]
    let left = this.next() * names.reduce((sum, name) => sum + weights[name], 0)
    for (const name of names) {
      left -= weights[name]
      if (left < 0) return name
    }
    return names.at(-1)!
  }
}
