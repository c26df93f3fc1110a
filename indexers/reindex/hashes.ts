// The hashes of a chain of blocks, each linked to the one below. Promises: a block that does not link is refused,
// whatever a node says.
import {createHash} from 'node:crypto'
import {RetryableError} from '../../base/errors.ts'
import type {Link} from '../family.ts'

/** The hashes of a chain of blocks, in memory: 32 bytes of each, however the chain writes it. */
export class Hashes {
  readonly #from: number
  readonly #parts: Buffer[] = []
  #last: string | undefined
  count = 0

  /** `below`: the hash of the block below the first one, if known. */
  constructor(from: number, below: string | null) {
    this.#from = from
    this.#last = below ?? undefined
  }

  /** Throws if the blocks do not link. */
  extend(links: Link[]): void {
    for (const {height, hash, parentHash} of links) {
      if (height !== this.#from + this.count || (this.#last !== undefined && parentHash !== this.#last))
        throw new RetryableError(
          `block ${height} (${hash}) of the node does not link to the block below it (${this.#last})`,
        )
      const place = this.count % hashesPerPart
      if (place === 0) this.#parts.push(Buffer.alloc(32 * hashesPerPart))
      digestOf(hash).copy(this.#parts.at(-1)!, 32 * place)
      this.#last = hash
      this.count += 1
    }
  }

  has(height: number, hash: string): boolean {
    const index = height - this.#from
    const part = this.#parts[Math.floor(index / hashesPerPart)]!
    const start = 32 * (index % hashesPerPart)
    return part.subarray(start, start + 32).equals(digestOf(hash))
  }
}

const hashesPerPart = 65_536

const digestOf = (hash: string): Buffer => createHash('sha256').update(hash).digest()
