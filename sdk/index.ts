// The Sluice API for JavaScript and TypeScript: Node 20 or later, Deno, Bun, and what else has the web's fetch.
//
//   const sluice = new Sluice({apiKey: process.env.SLUICE_API_KEY!, baseUrl: 'https://pay.example'})
//   const user = await sluice.users.create({external_ref: 'customer-42'})
//   for await (const deposit of sluice.deposits.list({status: 'final'})) credit(deposit)
//
// Amounts are decimal strings, never numbers: `Amount` compares and adds them. Whatever fails is one of the classes of
// errors.ts. Requests are sent again by themselves, with longer and longer pauses, where that changes nothing twice.
import {SluiceError} from './errors.ts'
import {Http, type Options, part, pause, type Query} from './http.ts'
import {List} from './pages.ts'
import type {
  Asset,
  Body,
  Delivery,
  Deposit,
  Event,
  EventType,
  Filters,
  NewPayout,
  Payment,
  PaymentRequest,
  PaymentRequestItem,
  PaymentRequestState,
  Payout,
  PayoutAddress,
  PayoutItem,
  PayoutPart,
  Reply,
  SingleDeposit,
  StatementLine,
  User,
  WebhookEndpoint,
  WebhookEndpointWithSecret,
} from './types.ts'

export {Amount} from './amount.ts'
export {
  ApiError,
  AuthenticationError,
  ConnectionError,
  type Detail,
  InvalidRequestError,
  NotFoundError,
  PermissionError,
  RateLimitError,
  ServerError,
  SluiceError,
  UnprocessableError,
} from './errors.ts'
export {eventTypes} from './event-types.ts'
export type {Options} from './http.ts'
export {List, type Page} from './pages.ts'
export type * from './types.ts'
export {type Refusal, verify, WebhookError, webhooks} from './webhooks.ts'

/** Where `events.follow` begins with the first event of all. */
export const beforeAllEvents = `evt_${'0'.repeat(32)}`

/** For a change that must happen once: your own key of it, at most 255 characters. One is made if you give none. */
export interface Once {
  idempotencyKey?: string
}

export interface Follow {
  /** The id of the last event that you have handled; `beforeAllEvents` to begin with the first. */
  after: string
  /** Only these. Those of payment requests and of endpoints come only if they are named. */
  type?: EventType | readonly EventType[]
  /** Ends it. */
  signal?: AbortSignal
  /** How long it waits where there is nothing new. Default: 2,000. */
  pauseMs?: number
}

const keyOf = ({idempotencyKey = crypto.randomUUID()}: Once = {}) => idempotencyKey

export class Sluice {
  readonly #http: Http

  constructor(options: Options) {
    this.#http = new Http(options)
  }

  #list<Item>(path: string, key: string, query?: object): List<Item> {
    return new List<Item>(this.#http, path, key, query as Query)
  }
  #get<Result>(path: string): Promise<Result> {
    return this.#http.json<Result>({method: 'GET', path})
  }

  /** Your customers, each with addresses of its own. */
  readonly users = {
    /** Makes a user, or gives the one that has this `external_ref`. */
    create: (user: Body<'createUser'>): Promise<User> =>
      this.#http.json({method: 'POST', path: '/v1/users', body: user}),
    list: (filters?: Filters<'listUsers'>): List<User> => this.#list('/v1/users', 'users', filters),
    /** By its `id`; by your own reference: `list({external_ref})`. */
    get: (id: string): Promise<User> => this.#get(`/v1/users/${part(id)}`),
    /** Replaces the whole of `metadata`. */
    update: (id: string, changes: Body<'updateUser'>): Promise<User> =>
      this.#http.json({method: 'PATCH', path: `/v1/users/${part(id)}`, body: changes}),
    /** Adds an address on each of these chains; one that is there stays. */
    addAddresses: (id: string, chains: Body<'addAddresses'>['chains']): Promise<Reply<'addAddresses'>> =>
      this.#http.json({method: 'POST', path: `/v1/users/${part(id)}/addresses`, body: {chains}}),
  }

  /** What reached the addresses of users: `pending` in a block, then `final`, or `reorged`. */
  readonly deposits = {
    list: (filters?: Filters<'listDeposits'>): List<Deposit> => this.#list('/v1/deposits', 'deposits', filters),
    /** With what the list does not have: when it was final, and the payout that paid it. */
    get: (id: string): Promise<SingleDeposit> => this.#get(`/v1/deposits/${part(id)}`),
  }

  /** What can be paid out, and your fee. */
  readonly balances = {
    /** `at`: what they were then, in ISO 8601, on a whole quarter of an hour. */
    get: ({at}: {at?: string} = {}): Promise<Reply<'getBalances'>> =>
      this.#http.json({method: 'GET', path: '/v1/balances', query: {at}}),
  }

  /** What changed the balances in a period, in sums that add up to the last unit, and line by line. */
  readonly statements = {
    get: (period: Filters<'getStatements'>): Promise<Reply<'getStatements'>> =>
      this.#http.json({method: 'GET', path: '/v1/statements', query: period as Query}),
    /** What is behind the sums of the same period, the newest first. */
    lines: (period: Filters<'listStatementLines'>): List<StatementLine> =>
      this.#list('/v1/statements/lines', 'lines', period),
  }

  /** Payouts of a whole balance to your payout address. */
  readonly payouts = {
    /** Answers at once; the event `payout.completed` or `payout.failed` says how it ended. */
    create: (payout: Body<'createPayout'>, once?: Once): Promise<NewPayout> =>
      this.#http.json({method: 'POST', path: '/v1/payouts', body: payout, idempotencyKey: keyOf(once)}),
    list: (filters?: Filters<'listPayouts'>): List<PayoutItem> => this.#list('/v1/payouts', 'payouts', filters),
    get: (id: string): Promise<Payout> => this.#get(`/v1/payouts/${part(id)}`),
    /** What it is made of. */
    deposits: (id: string): List<PayoutPart> => this.#list(`/v1/payouts/${part(id)}/deposits`, 'deposits'),
    /** Until its payment has begun. */
    cancel: (id: string): Promise<Payout> =>
      this.#http.json({method: 'POST', path: `/v1/payouts/${part(id)}/cancel`, isOnce: true}),
  }

  /** Where payouts of each chain go. The operator's whitelist must have an address before anything is paid there. */
  readonly payoutAddresses = {
    list: async (): Promise<PayoutAddress[]> =>
      (await this.#get<Reply<'listPayoutAddresses'>>('/v1/payout-addresses')).payout_addresses,
    set: (address: Body<'setPayoutAddress'>): Promise<Reply<'setPayoutAddress'>> =>
      this.#http.json({method: 'PUT', path: '/v1/payout-address', body: address}),
  }

  /** An exact amount, once, to an address of its own: for a payer who need not be a user. */
  readonly paymentRequests = {
    /** `currency`: one of `assets.list()`, such as `ETH-USDC`. */
    create: async (currency: string, request: Body<'createPaymentRequest'>, once?: Once): Promise<PaymentRequest> => {
      const path = `/v1/${part(currency)}/payment-request`
      const call = {method: 'POST', path, body: request, idempotencyKey: keyOf(once)} as const
      return (await this.#http.json<Reply<'createPaymentRequest'>>(call)).data
    },
    list: (filters?: Filters<'listPaymentRequests'>): List<PaymentRequestItem> =>
      this.#list('/v1/payment-requests', 'data', filters),
    /** By your own reference. */
    get: async (externalId: string): Promise<PaymentRequestState> =>
      (await this.#get<Reply<'getPaymentRequest'>>(`/v1/payment-requests/${part(externalId)}`)).data,
    cancel: async (externalId: string): Promise<PaymentRequestState> => {
      const path = `/v1/payment-requests/${part(externalId)}/cancel`
      return (await this.#http.json<Reply<'cancelPaymentRequest'>>({method: 'POST', path})).data
    },
    /** A picture for wallets, as SVG. */
    qr: (externalId: string, filters?: Filters<'getPaymentRequestQr'>): Promise<string> =>
      this.#http.text({
        method: 'GET',
        path: `/v1/payment-requests/${part(externalId)}/qr.svg`,
        query: filters as Query,
      }),
  }

  /** Payment requests that are paid, or underpaid. One that changes is the newest again. */
  readonly payments = {
    list: (filters?: Filters<'listPayments'>): List<Payment> => this.#list('/payments', 'data', filters),
  }

  /** What payment requests can ask for. */
  readonly assets = {
    list: async (): Promise<Asset[]> => (await this.#get<Reply<'listAssets'>>('/v1/crypto')).data,
  }

  /** What webhooks deliver, as a list. */
  readonly events = {
    /** The newest first; with `after`, what followed that event, the oldest first. */
    list: (filters?: Filters<'listEvents'>): List<Event> => this.#list('/v1/events', 'events', filters),
    get: (id: string): Promise<Event> => this.#get(`/v1/events/${part(id)}`),
    /**
     * All that happens after an event, in order, none skipped, for ever: without `type`, what happens to deposits and
     * payouts. Keep the `id` of each once you have handled it: from there you go on.
     */
    follow: (how: Follow): AsyncGenerator<Event, void> => this.#follow(how),
  }

  /** The URLs that events are posted to. */
  readonly webhookEndpoints = {
    /** Its secret is in this answer alone. */
    create: (endpoint: Body<'createWebhookEndpoint'>): Promise<WebhookEndpointWithSecret> =>
      this.#http.json({method: 'POST', path: '/v1/webhook-endpoints', body: endpoint, isOnce: true}),
    list: async (): Promise<WebhookEndpoint[]> =>
      (await this.#get<Reply<'listWebhookEndpoints'>>('/v1/webhook-endpoints')).webhook_endpoints,
    get: (id: string) => this.#get<WebhookEndpoint>(`/v1/webhook-endpoints/${part(id)}`),
    update: (id: string, changes: Body<'updateWebhookEndpoint'>): Promise<WebhookEndpoint> =>
      this.#http.json({method: 'PATCH', path: `/v1/webhook-endpoints/${part(id)}`, body: changes}),
    delete: (id: string): Promise<void> =>
      this.#http.json({method: 'DELETE', path: `/v1/webhook-endpoints/${part(id)}`}),
    /** The one before signs, too, for a day. */
    rotateSecret: (id: string): Promise<WebhookEndpointWithSecret> =>
      this.#http.json({method: 'POST', path: `/v1/webhook-endpoints/${part(id)}/rotate-secret`, isOnce: true}),
    /** Sends a signed example to it. */
    test: (id: string, type?: EventType): Promise<Delivery> =>
      this.#http.json({
        method: 'POST',
        path: `/v1/webhook-endpoints/${part(id)}/test`,
        body: type ? {type} : {},
        isOnce: true,
      }),
    /** Each with its attempts, and what you answered. */
    deliveries: (id: string, filters?: Filters<'listWebhookDeliveries'>): List<Delivery> =>
      this.#list(`/v1/webhook-endpoints/${part(id)}/deliveries`, 'deliveries', filters),
    redeliver: (id: string, deliveryId: string): Promise<Delivery> =>
      this.#http.json({
        method: 'POST',
        path: `/v1/webhook-endpoints/${part(id)}/deliveries/${part(deliveryId)}/redeliver`,
        isOnce: true,
      }),
    /** How many are sent again. */
    redeliverFailed: async (id: string, since: string | Date): Promise<number> => {
      const path = `/v1/webhook-endpoints/${part(id)}/redeliver-failed`
      const body = {since: new Date(since).toISOString()}
      return (await this.#http.json<Reply<'redeliverFailedWebhooks'>>({method: 'POST', path, body, isOnce: true})).count
    },
  }

  async *#follow({after, type, signal, pauseMs = 2000}: Follow): AsyncGenerator<Event, void> {
    if (typeof after !== 'string' || !after.startsWith('evt_'))
      throw new TypeError('after must be the id of an event, or beforeAllEvents to begin with the first')
    for (let last = after; !signal?.aborted; ) {
      const {items} = await this.#following(last, type, pauseMs, signal)
      for (const event of items) {
        if (signal?.aborted) return
        if (event.id === last) throw new SluiceError('GET /v1/events: the service does not go on behind an event')
        yield event
        last = event.id
      }
    }
  }

  /** The next events, after a pause where there are none; nothing once the signal ends it. */
  async #following(after: string, type: Follow['type'], pauseMs: number, signal: AbortSignal | undefined) {
    try {
      const page = await this.#list<Event>('/v1/events', 'events', {after, type, limit: 200}).page(null, signal)
      if (page.items.length === 0) await pause(pauseMs, signal)
      return page
    } catch (error) {
      if (signal?.aborted) return {items: []}
      throw error
    }
  }
}
