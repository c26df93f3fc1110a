// Requests a merchant's payouts in every way: with and without a key, twice at once, again later, to an address that
// is not whitelisted, cancelled by the merchant or by the operator. Every response is recorded, and checked at the end.
import {setTimeout as sleep} from 'node:timers/promises'
import {z} from 'zod'
import type {ChainCode} from '../../chains/registry.ts'
import {until} from '../support/until.ts'
import type {Asset} from './asset.ts'
import type {Merchant, Response} from './merchant.ts'
import type {Payer} from './payer.ts'
import type {Random} from './random.ts'
import {chainCodes, type Service} from './service.ts'

export interface Asked {
  key: string
  body: {chain: ChainCode; token: string; sweep_first: boolean}
  /** The payout address at that time. */
  address: string
  /** Of responses with 202. */
  texts: string[]
}

const Accepted = z.object({id: z.string()})
const Refused = z.object({error: z.string()})

interface Surroundings {
  service: Service
  assets: Asset[]
  payers: Payer[]
  random: Random
}

export class Claimant {
  readonly merchant: Merchant
  readonly #service: Service
  readonly #assets: Map<ChainCode, Asset[]>
  readonly #payers: Map<ChainCode, Payer>
  readonly #random: Random
  readonly #addresses = new Map<ChainCode, string>()
  /** Requests with a key that were accepted. */
  readonly asked: Asked[] = []
  /** Payouts that were accepted without a key. */
  readonly plain: {id: string; address: string}[] = []
  /** Requests without a key whose response was lost: each may have made a payout. */
  lost = 0
  /** Broken rules, in words. */
  readonly wrong: string[] = []
  readonly counts: Record<string, number> = {}

  constructor(merchant: Merchant, {service, assets, payers, random}: Surroundings) {
    this.merchant = merchant
    this.#service = service
    this.#assets = Map.groupBy(assets, ({chain}) => chain)
    this.#payers = new Map(payers.map(payer => [payer.chain, payer]))
    this.#random = random.fork(`claimant ${merchant.prefix}`)
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }

  async begin(): Promise<void> {
    for (const chain of chainCodes) await this.#move(chain)
  }

  async claim(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      await sleep(this.#random.between(200, 2000))
      if (stopped.aborted) return
      const kind = this.#random.weighted(weights)
      this.#count(kind)
      await this.#ways[kind]().catch(() => this.#count('operator without a database'))
    }
  }

  readonly #ways: Record<keyof typeof weights, () => Promise<unknown>> = {
    keyed: () => this.#keyed(),
    plain: () => this.#plain(),
    duplicates: () => this.#duplicates(),
    'asked again': () => this.#again(),
    'to a stranger': () => this.#toStranger(),
    'to another address': () => this.#move(this.#random.pick(chainCodes)),
    'off the whitelist for a while': () => this.#offTheList(),
    'cancelled by the operator': () => this.#cancelAsOperator(),
    'cancelled by the merchant': () => this.#cancelAsMerchant(),
  }

  // --- requests ---

  /** Every way once, so that each run has payouts of each token, however short it is. */
  async claimEach(): Promise<void> {
    for (const asset of [...this.#assets.values()].flat()) await this.#keyed(this.#wish(asset))
  }

  #any(): Asset {
    return this.#random.pick(this.#assets.get(this.#random.pick(chainCodes))!)
  }

  #wish({chain, token} = this.#any()): Asked {
    const body = {chain, token, sweep_first: this.#random.chance(0.5)}
    const key = `key-${this.#random.between(0, 2 ** 40)}`
    return {key, body, address: this.#addresses.get(body.chain)!, texts: []}
  }

  async #keyed(wish = this.#wish()): Promise<string | undefined> {
    return this.#heard(wish, await this.#post(wish))
  }

  async #duplicates(): Promise<void> {
    const wish = this.#wish()
    for (const response of await Promise.all([1, 2, 3].map(() => this.#post(wish)))) this.#heard(wish, response)
  }

  #post({body, key}: Asked): Promise<Response> {
    return this.merchant.ask('POST', '/v1/payouts', body, {'idempotency-key': key})
  }

  /** Records a response; returns the payout's id, if it made one. */
  #heard(wish: Asked, {status, text}: Response): string | undefined {
    if (status !== 202) return this.#refusal(status, text)
    this.#count('accepted')
    if (wish.texts.length === 0) this.asked.push(wish)
    wish.texts.push(text)
    return Accepted.parse(JSON.parse(text)).id
  }

  #refusal(status: number, text: string): undefined {
    const {error} = Refused.parse(JSON.parse(text))
    this.#count(`refused: ${error}`)
    if (status !== 422 || error !== 'payout_failed')
      this.wrong.push(`the response to a payout request was ${status} ${text}`)
  }

  /** Once: a request without a response may have made a payout. */
  async #plain(): Promise<void> {
    const {body, address} = this.#wish()
    let response: Response
    try {
      response = await this.merchant.askOnce('POST', '/v1/payouts', body)
    } catch {
      this.lost++
      return
    }
    if (response.status >= 500) this.lost++
    else if (response.status !== 202) this.#refusal(response.status, response.text)
    else this.plain.push({id: Accepted.parse(JSON.parse(response.text)).id, address})
  }

  /** Repeats a used key, with the same request, and with another one. */
  async #again(): Promise<void> {
    if (this.asked.length === 0) return
    const before = this.#random.pick(this.asked)
    this.#heard(before, await this.#post(before))
    const other = {...before, body: {...before.body, sweep_first: !before.body.sweep_first}}
    const {status, text} = await this.#post(other)
    if (status !== 422 || Refused.parse(JSON.parse(text)).error !== 'idempotency_key_reused')
      this.wrong.push(`the response to a key used with another request was ${status} ${text}`)
  }

  /** It waits for the whitelist until it fails, or until the merchant cancels it. */
  async #toStranger(): Promise<void> {
    const wish = this.#wish()
    const {chain} = wish.body
    const usual = this.#addresses.get(chain)!
    wish.address = this.#newAddress(chain)
    await this.#register(chain, wish.address)
    const id = await this.#keyed(wish)
    await this.#register(chain, usual)
    if (!id || !this.#random.chance(0.5)) return
    await sleep(this.#random.between(0, 3000))
    const {status} = await this.merchant.ask('POST', `/v1/payouts/${id}/cancel`)
    this.#count(status === 200 ? 'cancelled' : 'cancelled too late')
  }

  /** A foreign address. */
  #newAddress(chain: ChainCode): string {
    return this.#payers.get(chain)!.newAddress(this.#random)
  }

  async #register(chain: ChainCode, address: string): Promise<void> {
    await this.merchant.call('PUT', '/v1/payout-address', {chain, address})
    this.#addresses.set(chain, address)
  }

  /** Changes to a new address, which is whitelisted before, or a moment later. */
  async #move(chain: ChainCode): Promise<void> {
    const address = this.#newAddress(chain)
    const isLate = this.#random.chance(0.3)
    if (!isLate) await this.#whitelist(chain, address)
    await this.#register(chain, address)
    if (isLate) await this.#whitelist(chain, address)
  }

  /** Cancels whatever is open, in any state: it is cancelled, it is too late, or it was cancelled too often today. */
  async #cancelAsMerchant(): Promise<void> {
    const [open] = await this.#service.query(
      `select app.public_id('pay', id) as id, status from app.payout where merchant_id = $1 and status not in ('completed', 'failed') order by random() limit 1`,
      [this.merchant.id],
    )
    if (!open) return
    const {status} = await this.merchant.ask('POST', `/v1/payouts/${open.id}/cancel`)
    if (![200, 422, 429].includes(status)) this.wrong.push(`the response to a cancel was ${status}`)
    this.#count(`by the merchant, ${open.status}: ${status}`)
  }

  // --- the operator ---

  async #whitelist(chain: ChainCode, address: string): Promise<void> {
    const sql = 'insert into custody.whitelist (merchant_id, chain, address) values ($1, $2, $3)'
    await this.#untilDone(sql, [this.merchant.id, chain, address])
  }

  async #offTheList(): Promise<void> {
    const chain = this.#random.pick(chainCodes)
    const address = this.#addresses.get(chain)!
    const sql = `update custody.whitelist set removed_at = clock_timestamp()
      where merchant_id = $1 and chain = $2 and address = $3 and removed_at is null`
    await this.#untilDone(sql, [this.merchant.id, chain, address])
    await sleep(this.#random.between(500, 4000))
    await this.#whitelist(chain, address)
  }

  /** Cancels in any state: at once, or by a transaction that replaces the payment. */
  async #cancelAsOperator(): Promise<void> {
    const rows = await this.#service.query(
      `select app.cancel_payout_by_operator(id) as how from app.payout
       where id = (select id from app.payout where merchant_id = $1 and status not in ('completed', 'failed') order by random() limit 1)`,
      [this.merchant.id],
    )
    for (const {how} of rows) this.#count(`by the operator: ${how}`)
  }

  /** Statements that must succeed, and are safe to repeat. */
  async #untilDone(sql: string, values: unknown[]): Promise<void> {
    await until(
      async () => {
        try {
          await this.#service.query(sql, values)
        } catch (error) {
          if ((error as {code?: string}).code !== '23505') throw error
        }
        return true // or it was done before, and the response was lost
      },
      {timeoutMs: 60_000, intervalMs: 250, what: sql},
    )
  }
}

const weights = {
  keyed: 40,
  plain: 25,
  duplicates: 10,
  'asked again': 8,
  'to a stranger': 8,
  'to another address': 4,
  'off the whitelist for a while': 4,
  'cancelled by the operator': 6,
  'cancelled by the merchant': 6,
}
