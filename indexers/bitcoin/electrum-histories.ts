// Which transactions Electrum servers name for our addresses. Promises: the history of an address is taken only where it has the status that the
// server named for it; every status is asked again now and then, because an event is never a fact. That a transaction is named proves nothing of it.
import {createHash} from 'node:crypto'
import {z} from 'zod'
import type {Logger} from '../../base/log.ts'
import {MalformedError} from '../../chains/bitcoin/block.ts'
import {type Electrum, ElectrumError} from '../../chains/bitcoin/electrum.ts'
import {type AddressFormat, scripthashOf, scriptOfAddress} from '../../chains/bitcoin/script.ts'
import {Hash} from './shapes.ts'

const History = z.array(z.object({tx_hash: Hash, height: z.int().min(-1)}))
type History = z.infer<typeof History>

/** Within this time every status was asked again. */
const askAgainMs = 600_000

export class ElectrumHistories {
  readonly #electrum: Electrum
  readonly #format: AddressFormat
  readonly #log: Logger
  /** All that are subscribed, or are to be, by scripthash. */
  readonly #addresses = new Map<string, string>()
  readonly #notSubscribed = new Set<string>()
  readonly #histories = new Map<string, History>()
  /** Scripthashes whose history is to be asked. */
  readonly #outdated = new Set<string>()
  readonly #refused = new Set<string>()
  #askAgain: string[] = []
  #askedAgainAt = Date.now()

  constructor(electrum: Electrum, format: AddressFormat, log: Logger) {
    this.#electrum = electrum
    this.#format = format
    this.#log = log
  }

  /** As they were at the last look, by scripthash. */
  get all(): ReadonlyMap<string, History> {
    return this.#histories
  }

  addressOf(scripthash: string): string {
    return this.#addresses.get(scripthash)!
  }

  /** Is told of changes to these addresses, too, and asks some of the others again. */
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

  /** To be asked for again at the next look. */
  outdate(scripthash: string): void {
    this.#outdated.add(scripthash)
  }

  outdateAll(): void {
    for (const scripthash of this.#addresses.keys()) this.#outdated.add(scripthash)
  }

  /** The chain is another one above this height. Nothing tells which transactions are in it at the same height as before. */
  outdateAbove(fork: number): void {
    for (const [scripthash, history] of this.#histories)
      if (history.some(({height}) => height > fork)) this.#outdated.add(scripthash)
  }

  /** Takes in what changed. The scripthashes whose history is another one than before, or may be in other blocks. */
  async poll(): Promise<string[]> {
    for (const scripthash of this.#electrum.takeChanged()) this.#outdated.add(scripthash)
    const changed: string[] = []
    let asked = [...this.#outdated]
    for (let attempt = 1; asked.length; attempt++) {
      const {taken, doubtful} = await this.#ask(asked)
      changed.push(...taken)
      if (attempt > 1 && doubtful.length) throw new MalformedError('a history is not the one that its status says')
      if (doubtful.length) await this.#electrum.subscribeScripthashes(doubtful) // it may have changed between
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

  /** One history that is too long for the server must not hold up all the others. It is asked for again with each look. */
  #sayRefused(scripthash: string, {message}: ElectrumError): void {
    if (this.#refused.has(scripthash)) return
    this.#refused.add(scripthash)
    this.#log.error(
      {error: message, scripthash},
      'the server refuses the history of an address; what it is paid is not seen until then',
    )
  }
}

/** As the protocol has it; null for an address that was never used. */
function statusOf(history: History): string | null {
  if (!history.length) return null
  const text = history.map(({tx_hash, height}) => `${tx_hash}:${height}:`).join('')
  return createHash('sha256').update(text).digest('hex')
}
