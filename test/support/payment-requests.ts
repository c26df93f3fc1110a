// Payment requests for tests: a pool of addresses, requests made as the API makes them, and their status.
import {hash, randomBytes} from 'node:crypto'
import type pg from 'pg'
import {getAddress} from 'viem'
import type {TestDatabase} from './database.ts'

const poolSize = 500

export interface Asked {
  currency?: string
  externalId?: string
  /** A plain decimal; a number is in base units of six decimals. */
  amount?: string | number
  key?: string
  tolerance?: string
}

export interface Made {
  id: string
  external_id: string
  currency: string
  address: string
  amount: string
  tolerance: string
  expires_at: string
  page_token: string
  baseUnits: string
}

export interface PaymentState {
  status: string
  received: string
  pending: string
  late: boolean
  txid: string | null
  paid_at: Date | null
  expired_at: Date | null
  decide_at: Date | null
  position: string | null
}

export class PaymentRequests {
  readonly #db: Pick<TestDatabase, 'rows'>
  #made = 0

  private constructor(db: Pick<TestDatabase, 'rows'>) {
    this.#db = db
  }

  /** Fills the pool with addresses whose keys nobody has. */
  static async open(db: Pick<TestDatabase, 'rows'>): Promise<PaymentRequests> {
    const addresses = Array.from({length: poolSize}, () => getAddress(`0x${randomBytes(20).toString('hex')}`))
    await db.rows(
      `insert into custody.address (address, family, derivation_index)
       select address, 'evm', 1000000 + n from unnest($1::text[]) with ordinality as a (address, n)`,
      [addresses],
    )
    return new PaymentRequests(db)
  }

  async prefixOf(merchantId: string): Promise<string> {
    const [row] = await this.#db.rows<{prefix: string}>('select prefix from app.merchant where id = $1', [merchantId])
    return row!.prefix
  }

  async create(
    api: pg.Pool,
    merchantId: string,
    {currency = 'ETH-USDC', externalId, amount = 100, key, tolerance}: Asked,
  ): Promise<Made> {
    this.#made += 1
    const number = this.#made // before any await
    const reference = externalId ?? `${await this.prefixOf(merchantId)}-${number}`
    const coins = typeof amount === 'number' ? String(amount / 1e6) : amount
    const request = hash('sha256', JSON.stringify([currency, reference, coins]), 'buffer')
    const {rows} = await api.query<{body: string; amount: string}>(
      `select body, amount from app.request_payment($1, $2, $3, $4, '1 day', $5, $6, null, null, $7)`,
      [merchantId, currency, reference, coins, key ?? null, request, tolerance ?? null],
    )
    const made = JSON.parse(rows[0]!.body)
    const [row] = await this.#db.rows<{id: string}>('select id from app.payment_request where page_token = $1', [
      made.page_token,
    ])
    return {id: row!.id, baseUnits: rows[0]!.amount, ...made}
  }

  /** The received amounts that the merchant can see. */
  async receipts(api: pg.Pool, merchantId: string, externalId: string): Promise<object[]> {
    return (await this.shown(api, merchantId, externalId)).receipts as object[]
  }

  /** The types of the events of a request, without their prefix, in order. */
  async events(id: string): Promise<string[]> {
    const rows = await this.#db.rows<{type: string}>(
      `select split_part(type, '.', 2) as type from app.event where subject_id = $1 order by version`,
      [id],
    )
    return rows.map(({type}) => type)
  }

  /** What the merchant reads. */
  async shown(api: pg.Pool, merchantId: string, externalId: string): Promise<Record<string, unknown>> {
    const {rows} = await api.query<{body: string}>('select body from app.read_payment_request($1, $2)', [
      merchantId,
      externalId,
    ])
    return JSON.parse(rows[0]!.body)
  }

  async state(id: string): Promise<PaymentState> {
    const [row] = await this.#db.rows<PaymentState>('select * from app.payment_request where id = $1', [id])
    return row!
  }

  /** Ends the time of requests a moment ago, and runs the worker's job. */
  async expire(ids: string[], ago = '0'): Promise<void> {
    await this.#db.rows(
      `update app.payment_request set expires_at = clock_timestamp() - $2::interval,
         decide_at = case when decide_at is not null then clock_timestamp() - $2::interval end where id = any($1)`,
      [ids, ago],
    )
    await this.#db.rows('select app.decide_payment_requests()')
  }
}
