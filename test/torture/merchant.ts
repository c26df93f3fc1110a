// A merchant under torture: its key, its webhook receiver, and its API calls. It repeats calls until they get a
// response, as a merchant does when the API dies during a request.
import {setTimeout as sleep} from 'node:timers/promises'
import {z} from 'zod'
import {eventTypes} from '../../base/event-types.ts'
import type {Random} from './random.ts'
import {Receiver} from './receiver.ts'
import {chainCodes, type Service} from './service.ts'

const retryMs = 250
const answerTimeoutMs = 120_000
const callTimeoutMs = 10_000

export interface Response {
  status: number
  text: string
}

export class Merchant {
  readonly prefix: string
  readonly #service: Service
  readonly receiver: Receiver
  /** The id in the database. */
  id = ''
  #key = ''
  /** Repeated calls, after no response, or after a server error. */
  retries = 0

  constructor(prefix: string, service: Service, random: Random) {
    this.prefix = prefix
    this.#service = service
    this.receiver = new Receiver(random.fork(prefix))
  }

  /** Makes the merchant with every chain, its key, and its endpoint for every type of event. */
  async open(): Promise<void> {
    const merchant = ['--merchant', this.prefix]
    const words = ['--name', this.prefix, '--prefix', this.prefix, '--chains', chainCodes.join()]
    await this.#service.sluice('merchant', 'create', ...words)
    const [row] = await this.#service.query('select id from app.merchant where prefix = $1', [this.prefix])
    this.id = z.object({id: z.string()}).parse(row).id
    this.#key = (await this.#service.sluice('key', 'create', ...merchant)).secret!
    const url = await this.receiver.listen()
    this.receiver.secret = (
      await this.#service.sluice('webhook', 'add', ...merchant, '--url', url, '--events', eventTypes.join())
    ).secret!
  }

  /** A call that must succeed. Resolves to the body of the response. */
  async call(method: string, path: string, body?: object): Promise<string> {
    const {status, text} = await this.ask(method, path, body)
    if (status >= 400) throw new Error(`${method} ${path} returned ${status}: ${text.slice(0, 200)}`)
    return text
  }

  /** A call, repeated until it gets any response but a server error. */
  async ask(method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Response> {
    let last: unknown
    for (const deadline = Date.now() + answerTimeoutMs; Date.now() < deadline; await sleep(retryMs)) {
      try {
        const response = await this.askOnce(method, path, body, headers)
        if (response.status < 500) return response
        last = response.text
      } catch (error) {
        last = error
      }
      this.retries++
    }
    throw new Error(`${method} ${path} got no response`, {cause: last})
  }

  async askOnce(method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Response> {
    const response = await fetch(this.#service.apiUrl + path, {
      method,
      headers: {authorization: `Bearer ${this.#key}`, ...(body && {'content-type': 'application/json'}), ...headers},
      body: body && JSON.stringify(body),
      signal: AbortSignal.timeout(callTimeoutMs),
    })
    return {status: response.status, text: await response.text()}
  }
}
