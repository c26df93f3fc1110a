// What goes wrong with a node of a local Solana chain when a test asks for it: errors by method, answers of some blocks
// ago, slots that getBlocks leaves out, and transactions that it does not know. Promises: the same seed makes the same
// trouble.
import {z} from 'zod'
import {RpcError} from '../engine.ts'

const Share = z.number().min(0).max(1)

export const Troubled = z.strictObject({
  /** The next calls of a method fail with a code. */
  fail: z.array(z.strictObject({method: z.string(), code: z.int(), times: z.int().min(1).default(1)})).default([]),
  /** This share of all calls is answered as 1 to `blocks` blocks ago. */
  lag: z.strictObject({share: Share, blocks: z.int().min(1)}).optional(),
  /** This share of the slots is left out of getBlocks. */
  omit: Share.default(0),
  /** This share of the calls of getBlock fails, with one of the codes that say that the block is not there. */
  hide: Share.default(0),
  /** The node knows nothing of these transactions, also where blocks hold them. */
  without: z.array(z.string()).default([]),
  seed: z.int().min(1).default(1),
})

const hidden = [-32004, -32007, -32009, -32014]

export class Trouble {
  readonly #given: z.infer<typeof Troubled>
  #state: number

  constructor(given: z.input<typeof Troubled> = {}) {
    this.#given = Troubled.parse(given)
    this.#state = this.#given.seed
  }

  /** Throws if a call of the method fails. */
  meet(method: string): void {
    const due = this.#given.fail.find(each => each.method === method && each.times > 0)
    if (due) {
      due.times -= 1
      throw new RpcError({code: due.code, message: `${method} fails, as was asked`})
    }
    if (method === 'getBlock' && this.#happens(this.#given.hide))
      throw new RpcError({code: hidden[Math.floor(this.#random() * hidden.length)]!, message: 'the block is hidden'})
  }

  /** How many blocks ago the call is answered. */
  lag(): number {
    const {lag} = this.#given
    return lag && this.#happens(lag.share) ? 1 + Math.floor(this.#random() * lag.blocks) : 0
  }

  leave(slots: number[]): number[] {
    return this.#given.omit ? slots.filter(() => !this.#happens(this.#given.omit)) : slots
  }

  knows(txid: string): boolean {
    return !this.#given.without.includes(txid)
  }

  #happens(share: number): boolean {
    return share > 0 && this.#random() < share
  }

  /** Park and Miller's minimal standard. */
  #random(): number {
    this.#state = (this.#state * 48_271) % 2_147_483_647
    return this.#state / 2_147_483_647
  }
}
