// The chain of headers that one source shows, in memory. Promises: every header has the proof of work that it claims,
// and at least the lowest difficulty that its network allows. It links to the header below it, down to a block that is
// in the database.
import {assertWork, type BlockHeader, MalformedError} from '../../chains/bitcoin/block.ts'
import type {BlockRef} from '../cursor.ts'

export class HeaderChain {
  /** The block below the lowest header. */
  readonly base: BlockRef
  readonly #headers: BlockHeader[] = []
  readonly #easiestBits: number

  constructor(base: BlockRef, easiestBits: number) {
    this.base = base
    this.#easiestBits = easiestBits
  }

  get top(): BlockRef {
    return {height: this.base.height + this.#headers.length, hash: this.#headers.at(-1)?.hash ?? this.base.hash}
  }

  /** Undefined for the base, and where the chain has no header. */
  at(height: number): BlockHeader | undefined {
    return this.#headers[height - this.base.height - 1]
  }

  hashAt(height: number): string | undefined {
    return height === this.base.height ? this.base.hash : this.at(height)?.hash
  }

  /**
   * Adds headers on top. Throws MalformedError if they do not link to each other or are too easy; false if the first
   * one does not link.
   */
  extend(headers: BlockHeader[]): boolean {
    if (headers[0]?.parentHash !== this.top.hash) return false
    for (let i = 1; i < headers.length; i++) {
      if (headers[i]!.parentHash !== headers[i - 1]!.hash) throw new MalformedError('headers do not link to each other')
    }
    for (const header of headers) assertWork(header, this.#easiestBits)
    this.#headers.push(...headers)
    return true
  }

  /** Removes the headers above a height. */
  cut(height: number): void {
    this.#headers.length = height - this.base.height
  }
}
