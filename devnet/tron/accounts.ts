// The accounts of a local Tron chain: at a block, and changed by the transactions that come after it.

export interface Account {
  /** In sun. */
  balance: bigint
  /**
   * Free bandwidth that was used, and the time of the block below the one that used it last, in ms. It comes back
   * within a day.
   */
  used: number
  usedAt: number
}

/** Finds an account; undefined if it was never activated. */
type FindAccount = (address: string) => Account | undefined

/** Accounts, with the changes since. */
export class Accounts {
  readonly #below: FindAccount
  readonly changed = new Map<string, Account>()

  constructor(below: FindAccount) {
    this.#below = below
  }

  find = (address: string): Account | undefined => this.changed.get(address) ?? this.#below(address)

  set(address: string, account: Account): void {
    this.changed.set(address, account)
  }

  /** Adds to a balance; activates the account if it is new. */
  add(address: string, amount: bigint): void {
    const account = this.find(address) ?? {balance: 0n, used: 0, usedAt: 0}
    this.set(address, {...account, balance: account.balance + amount})
  }

  /** The same accounts, whose changes are apart until they are taken. */
  fork(): Accounts {
    return new Accounts(this.find)
  }

  take({changed}: Accounts): void {
    for (const [address, account] of changed) this.set(address, account)
  }
}
