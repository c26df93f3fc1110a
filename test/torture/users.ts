// The merchants' users, made by the API while everything is being killed: a user asked for twice is one user.
import {z} from 'zod'
import type {Merchant} from './merchant.ts'
import type {Random} from './random.ts'
import {type ChainCode, chainCodes} from './service.ts'

export interface User {
  merchant: Merchant
  id: string
  externalRef: string
  /** Asked for: what arrives elsewhere is unattributed. */
  chains: readonly ChainCode[]
  /** EIP-55; the same on every chain. */
  address: string
}

const Answer = z.object({
  id: z.string(),
  addresses: z.array(z.object({chain: z.enum(chainCodes), address: z.string()})),
})

export class Users {
  readonly #merchants: Merchant[]
  readonly #random: Random
  readonly all: User[] = []

  constructor(merchants: Merchant[], random: Random) {
    this.#merchants = merchants
    this.#random = random.fork('users')
  }

  async create(): Promise<User> {
    const externalRef = `user-${this.#random.between(0, 2 ** 40)}`
    const chains = this.#random.chance(0.8) ? chainCodes : [this.#random.pick(chainCodes)]
    const user = await this.#ask(this.#random.pick(this.#merchants), externalRef, chains)
    this.all.push(user)
    return user
  }

  async #ask(merchant: Merchant, externalRef: string, chains: readonly ChainCode[]): Promise<User> {
    const body = {external_ref: externalRef, chains}
    const {id, addresses} = Answer.parse(JSON.parse(await merchant.call('POST', '/v1/users', body)))
    return {merchant, id, externalRef, chains, address: addresses[0]!.address}
  }

  any(): User {
    return this.#random.pick(this.all)
  }

  /** Users that are another one, or have another address, when they are asked for again. */
  async changed(): Promise<User[]> {
    const changed = []
    for (const user of this.all) {
      const again = await this.#ask(user.merchant, user.externalRef, user.chains)
      if (again.id !== user.id || again.address !== user.address) changed.push(user)
    }
    return changed
  }
}
