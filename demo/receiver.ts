// A merchant's webhook receiver, as a merchant would write it: verifies each signature with the standardwebhooks
// package, responds 204, and handles an event once, however often it is delivered.
import {createServer, type IncomingMessage, type Server} from 'node:http'
import type {AddressInfo} from 'node:net'
import {Webhook} from 'standardwebhooks'
import {z} from 'zod'

const Event = z.looseObject({
  id: z.string(),
  type: z.string(),
  chain: z.string().optional(),
  token: z.string().optional(),
  /** Of a deposit. */
  amount: z.string().optional(),
  /** Of a payout. */
  net: z.string().optional(),
  payout_id: z.string().optional(),
  txid: z.string().nullish(),
})
export type Event = z.infer<typeof Event>

export class Receiver {
  readonly url: string
  /** Verified events in the order of arrival, each once. */
  readonly events: Event[] = []
  /** Requests whose signature was wrong. */
  rejected = 0
  /** The endpoint's secret, once it is known. */
  secret = ''
  onEvent: (event: Event) => void = () => {}
  readonly #server: Server

  private constructor(server: Server) {
    this.#server = server
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks`
  }

  /** Listens on a free port. */
  static async listen(): Promise<Receiver> {
    const server = createServer((request, response) => {
      receiver.#take(request).then(
        () => response.writeHead(204).end(),
        () => {
          receiver.rejected++
          response.writeHead(400).end()
        },
      )
    })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(0, '127.0.0.1', resolve)
    })
    const receiver = new Receiver(server)
    return receiver
  }

  async #take(request: IncomingMessage): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const headers = request.headers as Record<string, string>
    const event = Event.parse(new Webhook(this.secret).verify(Buffer.concat(chunks), headers))
    if (this.events.some(({id}) => id === event.id)) return
    this.events.push(event)
    this.onEvent(event)
  }

  /** How many events of each type arrived. */
  counts(): Record<string, number> {
    const counts: Record<string, number> = {}
    for (const {type} of this.events) counts[type] = (counts[type] ?? 0) + 1
    return counts
  }

  /** The types of events about a transaction or a payout, in the order of arrival. */
  typesOf(field: 'txid' | 'payout_id', value: string): string[] {
    return this.events.filter(event => event[field] === value).map(event => event.type)
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }
}
