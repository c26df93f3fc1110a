// The merchant's other source of events: GET /v1/events, of one type or of all that it has without a type, always read
// forward. It has the events of a merchant that never reads backwards.
import {setTimeout as sleep} from 'node:timers/promises'
import {z} from 'zod'
import type {EventType} from '../../base/event-types.ts'
import type {Merchant} from './merchant.ts'

const Page = z.object({events: z.array(z.object({id: z.string(), sequence: z.int()}))})
/** Before the first event of all. */
const beforeAll = `evt_${'0'.repeat(32)}`

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
    for (;;) {
      const {events} = await this.#page(this.events.at(-1)?.id ?? beforeAll)
      if (events.length === 0) return
      this.events.push(...events)
    }
  }

  async #page(after: string): Promise<z.infer<typeof Page>> {
    const ofType = this.type ? `&type=${this.type}` : ''
    return Page.parse(JSON.parse(await this.merchant.call('GET', `/v1/events?limit=100${ofType}&after=${after}`)))
  }
}
