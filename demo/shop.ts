// The demo's merchant. Operator actions (account, key, whitelist) use the SQL of the command line; merchant actions
// use the REST API. A second run finds the same merchant and user, and makes a new key and a new webhook endpoint.

import {createHash, randomBytes, randomUUID} from 'node:crypto'
import {setTimeout as sleep} from 'node:timers/promises'
import pg from 'pg'
import {z} from 'zod'
import {newKey} from '../base/api-key.ts'
import {chainCodes} from './chains.ts'

const prefix = 'demo'
const demoChains: readonly string[] = chainCodes
const feeBps = 50

const User = z.object({
  id: z.string(),
  external_ref: z.string(),
  addresses: z.array(z.object({chain: z.string(), address: z.string()})),
})
export type User = z.infer<typeof User>

const Deposit = z.object({
  id: z.string(),
  chain: z.string(),
  token: z.string(),
  amount: z.string(),
  txid: z.string(),
  status: z.enum(['pending', 'final', 'reorged']),
  confirmations: z.int(),
})
export type Deposit = z.infer<typeof Deposit>

const Balance = z.object({
  chain: z.string(),
  token: z.string(),
  gross: z.string(),
  fee: z.string(),
  net: z.string(),
  depositCount: z.int(),
})
export type Balance = z.infer<typeof Balance>

const PayoutStatus = z.enum(['pending', 'sweeping', 'swept', 'paying', 'completed', 'failed'])
export type PayoutStatus = z.infer<typeof PayoutStatus>

const NewPayout = z.object({id: z.string(), status: PayoutStatus, gross: z.string(), fee: z.string(), net: z.string()})

const Payout = NewPayout.extend({chain: z.string(), token: z.string(), txid: z.string().nullable()})
export type Payout = z.infer<typeof Payout>

const PaymentRequest = z.object({payment_uri: z.string(), payment_url: z.string()})
const NewPaymentRequest = z.object({data: PaymentRequest})

const PaymentState = z.object({
  status: z.enum(['awaiting', 'detected', 'paid', 'expired', 'underpaid', 'cancelled']),
  amount_received: z.string(),
  amount_pending: z.string(),
  receipts: z.array(z.object({confirmations: z.int()})),
})
export type PaymentState = z.infer<typeof PaymentState>

const Payment = z.object({
  external_id: z.string(),
  status: z.enum(['paid', 'underpaid']),
  amount_received: z.string(),
  txid: z.string(),
})
type Payment = z.infer<typeof Payment>

const Endpoint = z.object({id: z.string(), secret: z.string()})
const Endpoints = z.object({webhook_endpoints: z.array(z.object({id: z.string()}))})

/** The operator, with the database owner's rights. */
export class Operator {
  readonly #databaseUrl: string

  constructor(databaseUrl: string) {
    this.#databaseUrl = databaseUrl
  }

  /** Makes the merchant, or finds it, and a key for it; keys of earlier runs are revoked. Returns the key's secret. */
  async openShop(): Promise<string> {
    return await this.#inDatabase(async db => {
      const id = (await findMerchant(db)) ?? (await createMerchant(db))
      await db.query('select app.revoke_api_key(id) from app.api_key where merchant_id = $1 and revoked_at is null', [
        id,
      ])
      const {secret, hash} = newKey()
      await db.query('select app.create_api_key($1, $2)', [id, hash])
      return secret
    })
  }

  /** A link by which one person signs in to the merchant's dashboard, once and for a day. */
  async invite(dashboardUrl: string): Promise<string> {
    const token = randomBytes(32).toString('base64url')
    const hash = createHash('sha256').update(token).digest()
    await this.#inDatabase(async db => db.query('select dashboard.invite($1, $2)', [await findMerchant(db), hash]))
    return `${dashboardUrl}/invitation/${token}`
  }

  /** Whitelists an address for payouts of the merchant. */
  async whitelist(chain: string, address: string): Promise<void> {
    await this.#inDatabase(async db =>
      db.query('insert into custody.whitelist (merchant_id, chain, address) values ($1, $2, $3)', [
        await findMerchant(db),
        chain,
        address,
      ]),
    )
  }

  async #inDatabase<T>(work: (db: pg.Client) => Promise<T>): Promise<T> {
    const db = new pg.Client({connectionString: this.#databaseUrl, application_name: 'sluice-demo'})
    await db.connect()
    try {
      return await work(db)
    } finally {
      await db.end()
    }
  }
}

async function findMerchant(db: pg.Client): Promise<string | undefined> {
  return (await db.query<{id: string}>('select id from app.merchant where prefix = $1', [prefix])).rows[0]?.id
}

async function createMerchant(db: pg.Client): Promise<string> {
  const {rows} = await db.query<{id: string}>('select app.create_merchant($1, $2, $3, $4) as id', [
    'Demo Shop',
    prefix,
    demoChains,
    feeBps,
  ])
  return rows[0]!.id
}

/** A merchant's client of the API. */
export class Shop {
  readonly #apiUrl: string
  readonly #key: string

  constructor(apiUrl: string, key: string) {
    this.#apiUrl = apiUrl
    this.#key = key
  }

  async user(externalRef: string): Promise<User> {
    return User.parse(await this.#call('POST', '/v1/users', {external_ref: externalRef, chains: demoChains}))
  }

  /** Registers the only endpoint of this merchant; those of earlier runs are deleted. Returns its secret. */
  async receiveWebhooks(url: string): Promise<string> {
    const {webhook_endpoints} = Endpoints.parse(await this.#call('GET', '/v1/webhook-endpoints'))
    for (const {id} of webhook_endpoints) await this.#call('DELETE', `/v1/webhook-endpoints/${id}`)
    const event_types = ['deposit.pending', 'deposit.confirmed', 'deposit.reorged', 'payout.completed', 'payout.failed']
    return Endpoint.parse(await this.#call('POST', '/v1/webhook-endpoints', {url, event_types})).secret
  }

  /** The newest deposits. */
  async deposits(): Promise<Deposit[]> {
    const {deposits} = z.object({deposits: z.array(Deposit)}).parse(await this.#call('GET', '/v1/deposits?limit=50'))
    return deposits
  }

  async balances(): Promise<Balance[]> {
    return z.object({balances: z.array(Balance)}).parse(await this.#call('GET', '/v1/balances')).balances
  }

  /** Registers the payout address of a chain. */
  async payTo(chain: string, address: string): Promise<void> {
    await this.#call('PUT', '/v1/payout-address', {chain, address})
  }

  /** Requests a payout of the whole balance of a chain and token. */
  async payOut(wish: {chain: string; token: string; sweep_first: boolean}): Promise<z.infer<typeof NewPayout>> {
    return NewPayout.parse(await this.#call('POST', '/v1/payouts', wish, {'idempotency-key': randomUUID()}))
  }

  /** The newest payouts. */
  async payouts(): Promise<Payout[]> {
    return z.object({payouts: z.array(Payout)}).parse(await this.#call('GET', '/v1/payouts?limit=50')).payouts
  }

  /** Requests a payment of an amount. */
  async requestPayment(currency: string, externalId: string, amount: string): Promise<z.infer<typeof PaymentRequest>> {
    const body = {external_id: externalId, amount}
    return NewPaymentRequest.parse(await this.#call('POST', `/v1/${currency}/payment-request`, body)).data
  }

  async paymentRequest(externalId: string): Promise<PaymentState> {
    return z.object({data: PaymentState}).parse(await this.#call('GET', `/v1/payment-requests/${externalId}`)).data
  }

  /** The newest payments. */
  async payments(): Promise<Payment[]> {
    return z.object({data: z.array(Payment)}).parse(await this.#call('GET', '/payments?limit=50')).data
  }

  async #call(method: string, path: string, body?: object, more: Record<string, string> = {}): Promise<unknown> {
    const response = await fetch(this.#apiUrl + path, {
      method,
      headers: {authorization: `Bearer ${this.#key}`, ...(body && {'content-type': 'application/json'}), ...more},
      body: body && JSON.stringify(body),
    })
    const text = await response.text()
    if (response.status === 429) {
      await sleep(1000 * Number(response.headers.get('retry-after') ?? 1))
      return await this.#call(method, path, body, more)
    }
    if (!response.ok) throw new Error(`${method} ${path} returned ${response.status}: ${text.slice(0, 500)}`)
    return text === '' ? undefined : JSON.parse(text)
  }
}
