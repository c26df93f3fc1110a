// Which transactions Electrum servers list for our addresses. Promises: the history of an address is accepted only if
// it matches the status that the server gave for it. Every status is asked for again now and then, because events can
// be lost. A listed transaction is not yet proven.
import {createHash} from 'node:crypto'
import {z} from 'zod'
import type {Logger} from '../../base/log.ts'
import {MalformedError} from '../../chains/bitcoin/block.ts'
import {type Electrum, ElectrumError} from '../../chains/bitcoin/electrum.ts'
import {type AddressFormat, scripthashOf, scriptOfAddress} from '../../chains/bitcoin/script.ts'
import {Hash} from './shapes.ts'

const History = z.array(z.object({tx_hash: Hash, height: z.int().min(-1)}))
type History = z.infer<typeof History>

/** Every status is asked for again within this time. */
const askAgainMs = 600_000

export class ElectrumHistories {
  readonly #electrum: Electrum
  readonly #format: AddressFormat
  readonly #log: Logger
  /** All addresses that are subscribed, or will be, by scripthash. */
  readonly #addresses = new Map<string, string>()
  readonly #notSubscribed = new Set<string>()
  readonly #histories = new Map<string, History>()
  /** Scripthashes whose history must be read again. */
  readonly #outdated = new Set<string>()
  readonly #refused = new Set<string>()
  #askAgain: string[] = []
  #askedAgainAt = Date.now()

  constructor(electrum: Electrum, format: AddressFormat, log: Logger) {
    this.#electrum = electrum
    this.#format = format
    this.#log = log
  }

  /** The histories at the last poll, by scripthash. */
  get all(): ReadonlyMap<string, History> {
    return this.#histories
  }

  addressOf(scripthash: string): string {
    return this.#addresses.get(scripthash)!
  }

  /** Subscribes to these addresses too, and asks for the status of some others again. */
  async subscribe(addresses: string[]): Promise<void> {
    for (const address of addresses) {
      const scripthash = scripthashOf(scriptOfAddress(address, this.#format))
      this.#addresses.set(scripthash, address)
      this.#notSubscribed.add(scripthash)
    }
    if (this.#notSubscribed.size) {
      const fresh = [...this.#notSubscribed]
      await this.#electrum.subscribeScripthashes(fresh)
      for (const scripthash of fresh) this.#notSubscribed.delete(scripthash)
    }
    await this.#electrum.subscribeScripthashes(this.#nextToAskAgain())
  }

  #nextToAskAgain(): string[] {
    const now = Date.now()
    const share = Math.min(1, (now - this.#askedAgainAt) / askAgainMs)
    const count = Math.floor(this.#addresses.size * share)
    if (!count) return []
    this.#askedAgainAt = now
    if (!this.#askAgain.length) this.#askAgain = [...this.#addresses.keys()]
    return this.#askAgain.splice(0, count)
  }

  /** Has the next poll read this history again. */
  outdate(scripthash: string): void {
    this.#outdated.add(scripthash)
  }

  outdateAll(): void {
    for (const scripthash of this.#addresses.keys()) this.#outdated.add(scripthash)
  }

  /**
   * The chain changed above this height. Transactions may be in it at the same height as before, and nothing shows
   * which.
   */
  outdateAbove(fork: number): void {
    for (const [scripthash, history] of this.#histories)
      if (history.some(({height}) => height > fork)) this.#outdated.add(scripthash)
  }

  /**
   * Reads what changed. Returns the scripthashes whose history changed, or whose transactions may be in other blocks.
   */
  async poll(): Promise<string[]> {
    for (const scripthash of this.#electrum.takeChanged()) this.#outdated.add(scripthash)
    const changed: string[] = []
    let asked = [...this.#outdated]
    for (let attempt = 1; asked.length; attempt++) {
      const {taken, doubtful} = await this.#ask(asked)
      changed.push(...taken)
      if (attempt > 1 && doubtful.length) throw new MalformedError('a history does not match its status')
      if (doubtful.length) await this.#electrum.subscribeScripthashes(doubtful) // it may have changed in between
      asked = doubtful
    }
    return changed
  }

  async #ask(scripthashes: string[]): Promise<{taken: string[]; doubtful: string[]}> {
    const calls = scripthashes.map(scripthash => ({method: 'blockchain.scripthash.get_history', params: [scripthash]}))
    const responses = await this.#electrum.batch(calls, History)
    const statuses = this.#electrum.statuses()
    const taken: string[] = []
    const doubtful: string[] = []
    for (const [i, scripthash] of scripthashes.entries()) {
      const history = responses[i]!
      if (history instanceof ElectrumError) {
        this.#sayRefused(scripthash, history)
      } else if (statusOf(history) !== statuses.get(scripthash)) doubtful.push(scripthash)
      else {
        this.#histories.set(scripthash, history)
        this.#outdated.delete(scripthash)
        this.#refused.delete(scripthash)
        taken.push(scripthash)
      }
    }
    return {taken, doubtful}
  }

  /**
   * Logs a refused history once. A history that is too long for the server must not hold up the others; each poll
   * requests it again.
   */
  #sayRefused(scripthash: string, {message}: ElectrumError): void {
    if (this.#refused.has(scripthash)) return
    this.#refused.add(scripthash)
    this.#log.error(
      {error: message, scripthash},
      'the server refuses the history of an address; payments to it are not seen until the server returns it',
    )
  }
}

/** The status as the protocol defines it; null for an address that was never used. */
function statusOf(history: History): string | null {
  if (!history.length) return null
  const text = history.map(({tx_hash, height}) => `${tx_hash}:${height}:`).join('')
  return createHash('sha256').update(text).digest('hex')
}
