// The merchants' users, made by the API while everything is being killed. Requesting a user twice gives one user.
import {isDeepStrictEqual} from 'node:util'
import {z} from 'zod'
import {type ChainCode, type Family, chain as registered} from '../../chains/registry.ts'
import type {Merchant} from './merchant.ts'
import type {Random} from './random.ts'
import {chainCodes} from './service.ts'

export interface User {
  merchant: Merchant
  id: string
  externalRef: string
  /** Requested chains; transfers on others are unattributed. */
  chains: readonly ChainCode[]
  /** By family: chains of one family share their addresses. */
  addresses: ReadonlyMap<Family, string>
}

const Response = z.object({
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
    const {id, addresses} = Response.parse(JSON.parse(await merchant.call('POST', '/v1/users', body)))
    const byFamily = new Map(addresses.map(({chain, address}) => [registered(chain).family, address]))
    return {merchant, id, externalRef, chains, addresses: byFamily}
  }

  /** The users' addresses on a chain, requested or shared with another chain of its family, with their owners. */
  on(chain: ChainCode): Map<string, User> {
    const {family} = registered(chain)
    return new Map(
      this.all.flatMap(user => {
        const address = user.addresses.get(family)
        return address === undefined ? [] : [[address, user] as const]
      }),
    )
  }

  /** One of them. */
  any(chain: ChainCode): string {
    return this.#random.pick([...this.on(chain).keys()])
  }

  /** A new user if it requested a chain of the family; else any user. */
  async fresh(chain: ChainCode): Promise<string> {
    const user = await this.create()
    return user.addresses.get(registered(chain).family) ?? this.any(chain)
  }

  /** Users whose id or address changed when they were requested again. */
  async changed(): Promise<User[]> {
    const changed = []
    for (const user of this.all) {
      const again = await this.#ask(user.merchant, user.externalRef, user.chains)
      if (again.id !== user.id || !isDeepStrictEqual(again.addresses, user.addresses)) changed.push(user)
    }
    return changed
  }
}
