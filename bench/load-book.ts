// What the load test (load.ts) paid, and what its merchants were told of it. Each payment has an amount of its own, by
// which its webhooks are known.
import {formatUnits} from 'viem'
import {type Arrival, now} from './load-merchants.ts'
import {decimalsOf, type Payment} from './load-sources.ts'

export interface Entry extends Payment {
  merchant: number
  /** When the chain had it, by `now`; undefined while it waits to be sent, and for ever if the chain refused it. */
  sentAt?: number
  pendingAt?: number
  confirmedAt?: number
}

export class Book {
  readonly #entries = new Map<string, Entry>()
  /** The id of each event, by its type and deposit. */
  readonly #events = new Map<string, string>()
  /** Deliveries that came again, with the same id: merchants must expect it. */
  repeated = 0
  /** Events that must not be: a second one of a type and deposit, and those of no payment. */
  readonly wrong: string[] = []

  plan(entries: Entry[]): void {
    for (const entry of entries) this.#entries.set(keyOf(entry), entry)
  }

  sent(payments: Payment[]): void {
    for (const payment of payments) this.#entries.get(keyOf(payment))!.sentAt = now()
  }

  note(arrivals: Arrival[]): void {
    for (const {type, id, deposit_id: deposit, at, ...payment} of arrivals) {
      const event = `${type} ${deposit}`
      const known = this.#events.get(event)
      this.#events.set(event, id)
      const entry = this.#entries.get(`${payment.chain} ${payment.token} ${payment.amount}`)
      if (known === id) this.repeated++
      else if (known || !entry) this.wrong.push(`${event}: ${id}${known ? `, after ${known}` : ''}`)
      else if (type === 'deposit.pending') entry.pendingAt = at
      else if (type === 'deposit.confirmed') entry.confirmedAt = at
      else this.wrong.push(event)
    }
  }

  get entries(): Entry[] {
    return [...this.#entries.values()]
  }

  find(deposit: Pick<Payment, 'chain' | 'token' | 'amount'>): Entry | undefined {
    return this.#entries.get(keyOf(deposit))
  }
}

function keyOf({chain, token, amount}: Pick<Payment, 'chain' | 'token' | 'amount'>): string {
  return `${chain} ${token} ${formatUnits(amount, decimalsOf(chain, token))}`
}
