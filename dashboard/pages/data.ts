// What the pages read and change, through the functions of db/functions/dashboard. Promises: each call carries the
// token of a session, and the database decides by it; this process can name no merchant. What a function returns is
// checked before it is used.
import type pg from 'pg'
import {z} from 'zod'
import {type Column, columnsOf, pagesOf, type Row, texts} from '../../base/export/rows.ts'
import * as balances from '../../reading/balances.ts'
import {Deposit, SingleDeposit} from '../../reading/deposits.ts'
import {chainCode} from '../../reading/fields.ts'
import {PaymentRequestItem, PaymentRequestState} from '../../reading/payment-requests.ts'
import {PayoutItem, PayoutPart, payoutStatuses} from '../../reading/payouts.ts'
import {Statement, StatementLine} from '../../reading/statements.ts'
import {User} from '../../reading/users.ts'
import * as webhooks from '../../reading/webhooks.ts'

const timestamp = z.iso.datetime()

/** Whoever is signed in. */
export const Me = z.object({
  email: z.string(),
  name: z.string(),
  merchant_name: z.string(),
  merchant_prefix: z.string(),
  fee_bps: z.int(),
  /** In which times are shown, such as Europe/Berlin. */
  time_zone: z.string(),
  suspended: z.boolean(),
  /** The chains that are enabled. */
  chains: z.array(z.string()),
  /** The networks of these that are followed, as CAIP-2 ids. */
  networks: z.array(z.string()),
  /** Whether the second factor was shown within the last ten minutes. */
  is_fresh: z.boolean(),
})
export type Me = z.infer<typeof Me>

export const Balance = balances.Balance.extend({
  /** Why no payout collects what is held back, for people; null if nothing is. */
  why_held_back: z.string().nullable(),
  /** There is a payout address of its chain. */
  has_address: z.boolean(),
  /** Why it cannot be paid out now, for people; null if it can. */
  refusal: z.string().nullable(),
})
export type Balance = z.infer<typeof Balance>

/** An event on its way to one endpoint. */
export const Delivery = webhooks.Delivery.extend({
  endpoint_id: z.string(),
  endpoint_url: z.string(),
  /** Its deliveries can no longer be seen. */
  endpoint_deleted: z.boolean(),
  /** What its event is about; null of a test. */
  about: z
    .object({kind: z.enum(['deposit', 'payout', 'payment_request', 'endpoint']), id: z.string(), label: z.string()})
    .nullable(),
})
export type Delivery = z.infer<typeof Delivery>

export const DeliveryDetail = Delivery.extend({
  /** The body that is sent: JSON. */
  body: z.string(),
})
export type DeliveryDetail = z.infer<typeof DeliveryDetail>

/** What merchants were notified of, about a deposit or a payout. */
export const Event = z.object({
  id: z.string(),
  type: z.string(),
  created_at: timestamp,
  deliveries: z.array(Delivery),
})
export type Event = z.infer<typeof Event>

export const DepositDetail = SingleDeposit.extend({
  block_height: z.int().nullable(),
  payout: z.object({id: z.string(), status: z.enum(payoutStatuses), created_at: timestamp}).nullable(),
  events: z.array(Event),
})
export type DepositDetail = z.infer<typeof DepositDetail>

export const PaymentRequestDetail = PaymentRequestState.omit({payment_uri: true, payment_url: true}).extend({
  chain: chainCode,
  token: z.string(),
  /** Of the page that customers see. */
  page_token: z.string(),
  /** What is to be sent, in base units; 0 if enough was seen, or it has ended. */
  due: z.string(),
  events: z.array(Event),
  /** What came and does not pay it: its transaction, what it is, and why. */
  not_counted: z.array(z.object({txid: z.string(), what: z.string(), why: z.string(), at: timestamp})),
})
export type PaymentRequestDetail = z.infer<typeof PaymentRequestDetail>

/** What came for a user and was not credited. */
export const NotCredited = z.object({
  chain: z.string(),
  /** Such as "25 USDT". */
  what: z.string(),
  why: z.string(),
  sender: z.string(),
  txid: z.string(),
  at: timestamp,
})
export type NotCredited = z.infer<typeof NotCredited>

/** What a payment request can ask for. */
export const Currency = z.object({name: z.string(), display_name: z.string()})
export type Currency = z.infer<typeof Currency>

export const Payout = PayoutItem.extend({
  /** From when on its address counts as whitelisted, if it waits for that. */
  whitelisted_at: timestamp.nullable(),
  /** Its payment has not begun. */
  is_cancellable: z.boolean(),
})
export type Payout = z.infer<typeof Payout>

export const PayoutDetail = Payout.extend({
  fee_bps: z.int(),
  sweep_first: z.boolean(),
  deposit_count: z.int(),
  /** How many of them it has collected so far; null once it has all. */
  collected_count: z.int().nullable(),
  /** When each step began; null if it did not. */
  sweeping_at: timestamp.nullable(),
  swept_at: timestamp.nullable(),
  paying_at: timestamp.nullable(),
  finished_at: timestamp.nullable(),
  events: z.array(Event),
})
export type PayoutDetail = z.infer<typeof PayoutDetail>

export const ApiKey = z.object({
  id: z.string(),
  label: z.string().nullable(),
  scopes: z.array(z.string()),
  created_at: timestamp,
  /** A day in UTC, such as 2026-11-25. */
  last_used_on: z.string().nullable(),
  revoked_at: timestamp.nullable(),
})
export type ApiKey = z.infer<typeof ApiKey>

export const Endpoint = webhooks.Endpoint.extend({
  disabled_at: timestamp.nullable(),
  /** Until when the secret before the last rotation signs, too. */
  previous_secret_expires_at: timestamp.nullable(),
  /** Of the last 24 hours. */
  delivered: z.int(),
  failed: z.int(),
  pending: z.int(),
  /** Something was sent to it, whatever it responded. */
  was_tried: z.boolean(),
})
export type Endpoint = z.infer<typeof Endpoint>

export const AuditEntry = z.object({
  at: timestamp,
  person: z.string().nullable(),
  action: z.string(),
  target: z.string().nullable(),
  detail: z.string().nullable(),
  ip: z.string().nullable(),
  outcome: z.string(),
})
export type AuditEntry = z.infer<typeof AuditEntry>

export const Overview = z.object({
  balances: z.array(Balance),
  deposits: z.array(Deposit),
  payouts: z.array(Payout),
  /** Those of all that are under way that wait for something. */
  waiting: z.array(Payout),
  endpoints: z.array(Endpoint),
  /** Whether there is any, for what to do next. */
  has_keys: z.boolean(),
  has_users: z.boolean(),
  has_addresses: z.boolean(),
  /** A payout address is on the whitelist. */
  has_whitelisted: z.boolean(),
  has_payment_requests: z.boolean(),
  /** Payment requests that were made on this day or later and ended with too little; at most 100 are counted. */
  underpaid_since: z.string(),
  underpaid_count: z.int(),
})
export type Overview = z.infer<typeof Overview>

/** A series of the charts, one element for each day. */
const ChartSeries = z.object({
  series: z.string(),
  /** CHAIN:TOKEN of money; else a chain, a status or an endpoint. */
  about: z.string(),
  counts: z.array(z.int()),
  /** Decimals of money; else milliseconds. */
  amounts: z.array(z.string()),
  amounts_at_end: z.array(z.string()),
})
export type ChartSeries = z.infer<typeof ChartSeries>
/** The last days, such as 2026-11-25, and what there was on each. */
export const Charts = z.object({days: z.array(z.string()), series: z.array(ChartSeries)})
export type Charts = z.infer<typeof Charts>

/** What there was today, and a week ago up to the same time of day. */
export const Today = z.object({
  compared_with: timestamp,
  series: z.array(
    z.object({
      series: z.enum(['deposit', 'paid', 'requests']),
      /** CHAIN:TOKEN of money; else a status. */
      about: z.string(),
      count: z.int(),
      past_count: z.int(),
      amount: z.string(),
      past_amount: z.string(),
    }),
  ),
})
export type Today = z.infer<typeof Today>

/** What the payment page shows of the merchant; null is as without. */
export const Brand = z.object({
  name: z.string().nullable(),
  /** Such as #0b5cad. */
  accent: z.string().nullable(),
  site_url: z.string().nullable(),
  help_url: z.string().nullable(),
  has_logo: z.boolean(),
  /** The origins that may show it in a frame. */
  sites: z.array(z.string()),
})
export type Brand = z.infer<typeof Brand>

/** One thing that a search found. */
export const Found = z.object({
  kind: z.enum([
    'user',
    'deposit',
    'not_credited',
    'payout',
    'payout_address',
    'payment_request',
    'endpoint',
    'delivery',
    'api_key',
  ]),
  /** Of a payout address, its chain; of a payment request, its reference; of what is not credited, its user. */
  id: z.string(),
  /** Of a delivery. */
  endpoint_id: z.string().nullable(),
  /** For people, such as "1.5 ETH, final". */
  label: z.string(),
  /** When it came, or was made; null of a payout address. */
  at: timestamp.nullable(),
})
export type Found = z.infer<typeof Found>

/** A page of a list. */
const pageOf = <Item extends z.ZodType>(item: Item) => z.object({items: z.array(item), next: z.string().nullable()})
/** `next` is where the next, older page begins; null on the last one. */
export interface Page<Item> {
  items: Item[]
  next: string | null
}

const pageSize = 25
/** A statement is printed. */
const linesOfPage = 200
/** That are read for a file at once. */
const rowsOfFile = 5000

/** An endpoint's or a key's secret, which is shown once. */
const Created = z.object({id: z.string(), secret: z.string()})
const Id = z.object({id: z.string()})

export interface NewPaymentRequest {
  currency: string
  externalId: string
  /** A plain decimal. */
  amount: string
  expiresInSeconds: number
  /** A plain decimal, or a percentage such as 0.5%; absent: as the account has it. */
  tolerance?: string | undefined
  lateAfterSeconds: number
}

/** What a list is asked for, as dashboard.asked takes it. */
export interface Asked {
  status?: string[]
  chain?: string
  token?: string
  [name: string]: string | string[] | undefined
}

/** Of what there are files. */
export type FileKind = 'deposit' | 'payout' | 'payment_request' | 'statement' | 'user' | 'delivery' | 'audit'

/** The values of a call, behind the token. */
type Value = string | number | boolean | Buffer | string[] | Asked | null

/** What a session may see and do. */
export class Data {
  readonly #pool: pg.Pool
  readonly #token: string

  constructor(pool: pg.Pool, token: string) {
    this.#pool = pool
    this.#token = token
  }

  async #call<Schema extends z.ZodType>(schema: Schema, name: string, ...values: Value[]): Promise<z.infer<Schema>> {
    const parameters = [this.#token, ...values].map((_, index) => `$${index + 1}`).join(', ')
    const text = `select dashboard.${name}(${parameters}) as result`
    const {rows} = await this.#pool.query<{result: unknown}>({name, text, values: [this.#token, ...values]})
    return schema.parse(rows[0]!.result)
  }

  me = () => this.#call(Me, 'me')
  overview = () => this.#call(Overview, 'overview')
  /** These series of app.running_total, of so many days up to today. */
  charts = (series: string[], days: number) => this.#call(Charts, 'charts', series, days)
  today = () => this.#call(Today, 'today')
  deposits = (asked: Asked, before?: string): Promise<Page<Deposit>> =>
    this.#call(pageOf(Deposit), 'deposit_list', asked, before ?? null, pageSize)
  deposit = (id: string) => this.#call(DepositDetail, 'deposit', id)
  users = (asked: Asked, before?: string): Promise<Page<User>> =>
    this.#call(pageOf(User), 'user_list', asked, before ?? null, pageSize)
  user = (id: string) => this.#call(User, 'user_of', id)
  /** The newest that came for a user and was not credited. */
  notCredited = (user: string) => this.#call(z.array(NotCredited), 'user_not_credited', user)
  payouts = (asked: Asked, before?: string): Promise<Page<Payout>> =>
    this.#call(pageOf(Payout), 'payout_list', asked, before ?? null, pageSize)
  payout = (id: string) => this.#call(PayoutDetail, 'payout', id)
  /** What it is made of, as far as it has collected that. */
  payoutParts = (id: string, before?: string): Promise<Page<PayoutPart>> =>
    this.#call(pageOf(PayoutPart), 'payout_parts', id, before ?? null, pageSize)
  /** The balance of a pair; null if there is none. */
  balance = (chain: string, token: string) => this.#call(Balance.nullable(), 'balance', chain, token)
  paymentRequests = (asked: Asked, before?: string): Promise<Page<PaymentRequestItem>> =>
    this.#call(pageOf(PaymentRequestItem), 'payment_request_list', asked, before ?? null, pageSize)
  paymentRequest = (externalId: string) => this.#call(PaymentRequestDetail, 'payment_request', externalId)
  currencies = () => this.#call(z.array(Currency), 'currencies')
  /** How much of a new payment request may be missing, in basis points. */
  paymentTolerance = () => this.#call(z.int(), 'payment_tolerance')
  payoutAddresses = () => this.#call(z.array(balances.PayoutAddressState), 'payout_addresses')
  /** An address of this service on the chain, which shows the network; null if there is none yet. */
  ownAddress = (chain: string) => this.#call(z.string().nullable(), 'own_address', chain)
  apiKeys = () => this.#call(z.array(ApiKey), 'api_keys')
  endpoints = () => this.#call(z.array(Endpoint), 'webhook_endpoints')
  endpoint = (id: string) => this.#call(Endpoint, 'webhook_endpoint', id)
  deliveries = (endpoint: string, asked: Asked, before?: string): Promise<Page<Delivery>> =>
    this.#call(pageOf(Delivery), 'delivery_list', endpoint, asked, before ?? null, pageSize)
  delivery = (endpoint: string, id: string) => this.#call(DeliveryDetail, 'delivery', endpoint, id)
  auditLog = (asked: Asked, before?: string): Promise<Page<AuditEntry>> =>
    this.#call(pageOf(AuditEntry), 'audit_list', asked, before ?? null, pageSize)
  /** Of some days, both included, such as 2026-11-25. */
  statements = (from: string, to: string) => this.#call(z.array(Statement), 'statements', from, to)
  statementLines = (asked: Asked, before?: string, size = linesOfPage): Promise<Page<StatementLine>> =>
    this.#call(pageOf(StatementLine), 'statement_list', asked, before ?? null, size)
  brand = () => this.#call(Brand, 'brand')
  /** A PNG. */
  logo = () => this.#call(z.instanceof(Buffer).nullable(), 'logo')
  hasPaymentRequests = () => this.#call(z.boolean(), 'has_payment_requests')
  search = (text: string) => this.#call(z.array(Found), 'find', text)

  /** All rows of a list, for a file: their columns, and the rows by what is selected of them, page by page. */
  async file(kind: FileKind, asked: Asked): Promise<{columns: Column[]; rows(columns: string): AsyncGenerator<Row[]>}> {
    const from = `dashboard.${kind}_file($1, $2, $3, $4)`
    const [, ...columns] = await columnsOf(this.#pool, from, [this.#token, asked, null, 0])
    const page = (columns: string) => (behind: string | null) =>
      texts(this.#pool, `select place, ${columns} from ${from}`, [this.#token, asked, behind, rowsOfFile])
    return {columns, rows: columns => pagesOf(page(columns))}
  }

  // Changes. `request` is the id of the form: the same form sent again is refused with SLDUP.
  /** Throws SLSTP if the second factor was shown too long ago, so that it can be asked for before a form is filled. */
  requireFullRights = () => this.#call(z.unknown(), 'require_full_rights')
  createApiKey = (request: string, secretHash: Buffer, label: string, scopes: string[]) =>
    this.#call(Id, 'create_api_key', request, secretHash, label, scopes)
  revokeApiKey = (request: string, id: string) => this.#call(z.unknown(), 'revoke_api_key', request, id)
  setTimeZone = (request: string, zone: string) => this.#call(z.unknown(), 'set_time_zone', request, zone)
  /** `logo`: a PNG; null for none, undefined for the one that there is. */
  setBrand = (
    request: string,
    {name, accent, site_url, help_url}: Omit<Brand, 'has_logo' | 'sites'>,
    logo?: Buffer | null,
  ) =>
    this.#call(
      z.unknown(),
      'set_brand',
      ...[request, name, accent, site_url, help_url, logo ?? null, logo === undefined],
    )
  setPaymentPageSites = (request: string, origins: string[]) =>
    this.#call(z.unknown(), 'set_payment_page_sites', request, origins)
  setPaymentTolerance = (request: string, bps: number) => this.#call(z.unknown(), 'set_payment_tolerance', request, bps)
  /** Rejects with SL503 while no address is free. */
  createPaymentRequest = (request: string, asked: NewPaymentRequest) =>
    this.#call(
      Id,
      'create_payment_request',
      request,
      asked.currency,
      asked.externalId,
      asked.amount,
      asked.expiresInSeconds,
      asked.tolerance ?? null,
      asked.lateAfterSeconds,
    )
  cancelPaymentRequest = (request: string, externalId: string) =>
    this.#call(z.unknown(), 'cancel_payment_request', request, externalId)
  /** Has custody make addresses. */
  askForAddresses = async () => {
    await this.#pool.query(`select pg_notify('address_pool_low', '')`)
  }
  setPayoutAddress = (request: string, chain: string, address: string) =>
    this.#call(z.unknown(), 'set_payout_address', request, chain, address)
  /** `address`: where it goes, as the person saw it; undefined if none was registered. */
  createPayout = (request: string, chain: string, token: string, address: string | undefined, sweepFirst = false) =>
    this.#call(Id, 'create_payout', request, chain, token, sweepFirst, address ?? null)
  cancelPayout = (request: string, id: string) => this.#call(z.unknown(), 'cancel_payout', request, id)
  createEndpoint = (request: string, url: string, types: string[]) =>
    this.#call(Created, 'create_webhook_endpoint', request, url, types)
  updateEndpoint = (request: string, id: string, url: string | null, types: string[] | null, enable: boolean | null) =>
    this.#call(z.unknown(), 'update_webhook_endpoint', request, id, url, types, enable)
  deleteEndpoint = (request: string, id: string) => this.#call(z.unknown(), 'delete_webhook_endpoint', request, id)
  rotateSecret = (request: string, id: string) => this.#call(Created, 'rotate_webhook_secret', request, id)
  testEndpoint = (request: string, id: string, type: string) => this.#call(Id, 'test_webhook', request, id, type)
  redeliver = (request: string, endpoint: string, delivery: string) =>
    this.#call(z.unknown(), 'redeliver', request, endpoint, delivery)
  /** Returns how many are sent again. */
  redeliverFailed = (request: string, endpoint: string, since: string) =>
    this.#call(z.int(), 'redeliver_failed', request, endpoint, since)
}
