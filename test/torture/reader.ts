// The merchant's other source of events: GET /v1/events, always read forward. It has the events of a merchant that never reads backwards.
import {setTimeout as sleep} from 'node:timers/promises'
import {z} from 'zod'
import type {Merchant} from './merchant.ts'

const Page = z.object({events: z.array(z.object({id: z.string(), sequence: z.int()})), has_more: z.boolean()})

export class Reader {
  readonly merchant: Merchant
  readonly events: {id: string; sequence: number}[] = []

  constructor(merchant: Merchant) {
    this.merchant = merchant
  }

  /** Begins with the newest event. */
  async begin(): Promise<void> {
    while (this.events.length === 0) {
      await sleep(100)
      this.events.push(...(await this.#page('')).slice(0, 1))
    }
  }

  async read(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      await this.readOn()
      await sleep(150)
    }
  }

  /** Reads until there is nothing more. */
  async readOn(): Promise<void> {
    for (;;) {
      const page = await this.#page(`&after=${this.events.at(-1)!.id}`)
      if (page.length === 0) return
      this.events.push(...page)
    }
  }

  async #page(query: string): Promise<{id: string; sequence: number}[]> {
    return Page.parse(JSON.parse(await this.merchant.call('GET', `/v1/events?limit=100${query}`))).events
  }
}
