// The state of a local Tron chain: accounts, contracts with what they store, and how much is staked altogether; at a
// block, and changed by the transactions that come after it.

export type Resource = 'bandwidth' | 'energy'
export const resources: readonly Resource[] = ['bandwidth', 'energy']

/** What was used of something that comes back within a day. */
export interface Used {
  amount: number
  /** The time of the block below the one that used it last, in ms. */
  at: number
}

/** What an account has of a resource, in sun that are staked for it. */
export interface Stake {
  /** Its own, that it lent to nobody. */
  own: bigint
  /** Its own, by the addresses that it lent it to. */
  lent: ReadonlyMap<string, bigint>
  /** Lent to it. */
  borrowed: bigint
  used: Used
}

export interface Account {
  /** In sun. */
  balance: bigint
  /** Free bandwidth. */
  free: Used
  bandwidth: Stake
  energy: Stake
  /** No longer staked, to be withdrawn from a time on, in ms. */
  unstaking: readonly {resource: Resource; amount: bigint; at: number}[]
}

export interface Contract {
  code: Uint8Array
  /** As the transaction has it that created the contract; undefined if another contract did. */
  created?: {bytecode: Uint8Array; abi: Uint8Array; name: string; percent: number; energyLimit: number}
  creator: string
}

export const unused: Used = {amount: 0, at: 0}
const noStake: Stake = {own: 0n, lent: new Map(), borrowed: 0n, used: unused}
export const newAccount: Account = {balance: 0n, free: unused, bandwidth: noStake, energy: noStake, unstaking: []}

/** Finds the state below: of an account, or of something else by its key. Undefined if there is none. */
export interface Below {
  account(address: string): Account | undefined
  other(key: string): unknown
}

/** What was changed; undefined is what is gone. */
export interface Changed {
  accounts: ReadonlyMap<string, Account | undefined>
  others: ReadonlyMap<string, unknown>
}

export class State implements Changed {
  readonly #below: Below
  readonly accounts = new Map<string, Account | undefined>()
  readonly others = new Map<string, unknown>()

  constructor(below: Below) {
    this.#below = below
  }

  /** Undefined if it was never activated. */
  account = (address: string): Account | undefined =>
    this.accounts.has(address) ? this.accounts.get(address) : this.#below.account(address)

  other = (key: string): unknown => (this.others.has(key) ? this.others.get(key) : this.#below.other(key))

  setAccount(address: string, account: Account): void {
    this.accounts.set(address, account)
  }

  /** Adds to a balance; activates the account if it is new. */
  add(address: string, amount: bigint): void {
    const account = this.account(address) ?? newAccount
    this.setAccount(address, {...account, balance: account.balance + amount})
  }

  contract(address: string): Contract | undefined {
    return this.other(`contract ${address}`) as Contract | undefined
  }

  setContract(address: string, contract: Contract): void {
    this.others.set(`contract ${address}`, contract)
  }

  /** What a contract does at its end; what it stored stays, out of reach. */
  remove(address: string): void {
    this.accounts.set(address, undefined)
    this.others.set(`contract ${address}`, undefined)
  }

  /** A word that a contract stores; undefined if it never did, or zero in an earlier transaction. */
  stored(address: string, key: bigint): bigint | undefined {
    return this.other(`stored ${address} ${key.toString(16)}`) as bigint | undefined
  }

  store(address: string, key: bigint, value: bigint): void {
    this.others.set(`stored ${address} ${key.toString(16)}`, value)
  }

  /** What a contract keeps until the end of the transaction. */
  transient(address: string, key: bigint): bigint {
    return (this.other(`transient ${address} ${key.toString(16)}`) as bigint | undefined) ?? 0n
  }

  setTransient(address: string, key: bigint, value: bigint): void {
    this.others.set(`transient ${address} ${key.toString(16)}`, value)
  }

  dropTransient(): void {
    for (const key of this.others.keys()) if (key.startsWith('transient ')) this.others.delete(key)
  }

  /** In sun, of all accounts of this chain. */
  staked(resource: Resource): bigint {
    return (this.other(`staked ${resource}`) as bigint | undefined) ?? 0n
  }

  addStaked(resource: Resource, amount: bigint): void {
    this.others.set(`staked ${resource}`, this.staked(resource) + amount)
  }

  /** The same state, whose changes are apart until they are taken. */
  fork(): State {
    return new State(this)
  }

  /** The same for a transaction: what earlier ones set to zero counts as never stored. */
  forkForTransaction(): State {
    return new State({account: this.account, other: key => this.other(key) || undefined})
  }

  take({accounts, others}: Changed): void {
    for (const [address, account] of accounts) this.accounts.set(address, account)
    for (const [key, value] of others) this.others.set(key, value)
  }
}
