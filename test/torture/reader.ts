// The merchant's other source of events: GET /v1/events, of one type or of all that it has without a type, always read
// forward. It has the events of a merchant that never reads backwards.
import {setTimeout as sleep} from 'node:timers/promises'
import {z} from 'zod'
import type {EventType} from '../../base/event-types.ts'
import type {Merchant} from './merchant.ts'

const Page = z.object({events: z.array(z.object({id: z.string(), sequence: z.int()})), has_more: z.boolean()})

export class Reader {
  readonly merchant: Merchant
  readonly type: EventType | undefined
  readonly events: {id: string; sequence: number}[] = []

  constructor(merchant: Merchant, type?: EventType) {
    this.merchant = merchant
    this.type = type
  }

  async read(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      await this.readOn()
      await sleep(150)
    }
  }

  /** Reads until there is nothing more. */
  async readOn(): Promise<void> {
    if (this.events.length === 0) await this.#begin()
    for (let last = this.events.at(-1); last; last = this.events.at(-1)) {
      const {events} = await this.#page(`&after=${last.id}`)
      if (events.length === 0) return
      this.events.push(...events)
    }
  }

  /** The first events: a list without `after` is newest first. */
  async #begin(): Promise<void> {
    const {events, has_more} = await this.#page('')
    if (has_more) throw new Error('the first events do not fit into one page')
    this.events.push(...events.reverse())
  }

  async #page(query: string): Promise<z.infer<typeof Page>> {
    const ofType = this.type ? `&type=${this.type}` : ''
    return Page.parse(JSON.parse(await this.merchant.call('GET', `/v1/events?limit=100${ofType}${query}`)))
  }
}
