// The merchants' payment requests, made by the API while everything is being killed, and repeated in every way; and
// their payments: exact, in two parts, too little, too much, next to nothing, in another token, on another chain, in
// time and late.
import {setTimeout as sleep} from 'node:timers/promises'
import {formatUnits} from 'viem'
import {z} from 'zod'
import {type ChainCode, chain as registered} from '../../chains/registry.ts'
import type {Asset} from './asset.ts'
import type {Merchant, Response} from './merchant.ts'
import type {Random} from './random.ts'

export interface Requested {
  merchant: Merchant
  externalId: string
  asset: Asset
  /** In base units. */
  amount: bigint
  /** In base units. */
  tolerance: bigint
  /** The amount as a plain decimal. */
  coins: string
  /** One-time; chains of one family share it. */
  address: string
  expiresAt: number
}

/** A request's body, and its key. */
interface Wish {
  merchant: Merchant
  externalId: string
  asset: Asset
  amount: bigint
  /** Of a tenth, or none. */
  isTolerant: boolean
  key?: string
}

const Made = z.object({
  code: z.literal(200),
  data: z.object({
    external_id: z.string(),
    currency: z.string(),
    address: z.string(),
    amount: z.string(),
    tolerance: z.string(),
    expires_at: z.iso.datetime(),
  }),
})
type Data = z.infer<typeof Made>['data']
const Found = z.object({data: Made.shape.data})
const Refused = z.object({error: z.string()})

const keyed = (key?: string): Record<string, string> => (key === undefined ? {} : {'idempotency-key': key})

const ways = {'with a key': 4, 'without a key': 4, 'duplicates of one key': 3, 'duplicates of one reference': 3}
const shares = {
  exactly: 5,
  'in two parts': 3,
  'too little': 3,
  'a little short': 3,
  'too much': 2,
  'next to nothing': 1,
}

/** Where an address can receive next to nothing. */
const carriesAnything = new Set(['evm', 'tron'])

/** This many of the newest are paid more often: they have not expired yet. */
const newest = 12

export class Payments {
  readonly #merchants: Merchant[]
  readonly #assets: Asset[]
  readonly #random: Random
  readonly all: Requested[] = []
  /** Requests with a key, and their responses. */
  readonly #asked: {wish: Wish; data: Data}[] = []
  /** Broken rules, in words. */
  readonly wrong: string[] = []
  readonly counts: Record<string, number> = {}

  constructor(merchants: Merchant[], assets: Asset[], random: Random) {
    this.#merchants = merchants
    this.#assets = assets
    this.#random = random.fork('payment requests')
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }

  // --- requests ---

  async ask(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      await sleep(this.#random.between(100, 800))
      if (stopped.aborted) return
      await this.create()
      if (this.#random.chance(0.2)) await this.#again()
    }
  }

  async create(): Promise<void> {
    const wish = this.#wish()
    const way = this.#random.weighted(ways)
    this.#count(way)
    if (way === 'with a key') await this.#keyed(wish, 1)
    else if (way === 'duplicates of one key') await this.#keyed(wish, 3)
    else await this.#unkeyed({...wish, key: undefined}, way === 'without a key' ? 1 : 3)
  }

  #wish(): Wish {
    const merchant = this.#random.pick(this.#merchants)
    const asset = this.#random.pick(this.#assets)
    const number = this.#random.between(0, 2 ** 40)
    return {
      merchant,
      externalId: `${merchant.prefix}-${number}`,
      asset,
      amount: this.#random.amount(asset.usual / 2n, asset.usual), // worth a sweep
      isTolerant: number % 2 === 0,
      key: `request-${number}`,
    }
  }

  #post({merchant, asset, externalId, amount, isTolerant, key}: Wish): Promise<Response> {
    const tolerance = isTolerant ? {tolerance: '10%'} : {}
    const body = {external_id: externalId, amount: formatUnits(amount, asset.decimals), ...tolerance}
    return merchant.ask('POST', `/v1/${asset.name}/payment-request`, body, keyed(key))
  }

  /** A key has one response, however often and however unreliably it is requested. */
  async #keyed(wish: Wish, times: number): Promise<void> {
    const responses = await Promise.all(Array.from({length: times}, () => this.#post(wish)))
    const texts = new Set(responses.map(({text}) => text))
    if (responses.some(({status}) => status !== 200) || texts.size !== 1)
      this.wrong.push(`${wish.externalId} with a key got the responses ${[...texts].join(' and ')}`)
    const {data} = Made.parse(JSON.parse(responses[0]!.text))
    this.#asked.push({wish, data})
    this.#take(wish, data)
  }

  /** Of several without a key at most one gets the response that created the request; if that was lost, none does. */
  async #unkeyed(wish: Wish, times: number): Promise<void> {
    const wishes = Array.from({length: times}, (_, i) => ({...wish, amount: wish.amount + BigInt(i)}))
    const responses = await Promise.all(wishes.map(each => this.#post(each)))
    const made = responses.flatMap(({status}, i) => (status === 200 ? [i] : []))
    const refused = responses.filter(({status}) => status !== 200)
    if (made.length > 1 || refused.some(response => !isRefusal(response, 409, 'external_id_conflict')))
      this.wrong.push(`${wish.externalId} got the responses ${responses.map(({text}) => text).join(' and ')}`)
    if (made.length === 0) this.#count('response lost')
    const found = Found.parse(JSON.parse(await wish.merchant.call('GET', pathOf(wish.externalId)))).data
    const winner = made.length
      ? wishes[made[0]!]!
      : wishes.find(({asset, amount}) => formatUnits(amount, asset.decimals) === found.amount)!
    this.#take(winner, found)
  }

  #take(
    {merchant, externalId, asset, amount, isTolerant}: Wish,
    {external_id, address, expires_at, ...data}: Data,
  ): void {
    const coins = formatUnits(amount, asset.decimals)
    const tolerance = isTolerant ? amount / 10n : 0n
    const missing = formatUnits(tolerance, asset.decimals)
    if (
      external_id !== externalId ||
      data.currency !== asset.name ||
      data.amount !== coins ||
      data.tolerance !== missing
    )
      this.wrong.push(
        `${externalId} over ${coins} ${asset.name} (${missing} may be missing) was made as ${external_id} over ${data.amount} ${data.currency} (${data.tolerance})`,
      )
    this.all.push({merchant, externalId, asset, amount, tolerance, coins, address, expiresAt: Date.parse(expires_at)})
  }

  /** Repeats a request with its key, then with another body, and with another key. */
  async #again(): Promise<void> {
    if (this.#asked.length === 0) return
    this.#count('asked again')
    const {wish, data} = this.#random.pick(this.#asked)
    const same = Made.parse(JSON.parse((await this.#post(wish)).text)).data
    if (JSON.stringify(same) !== JSON.stringify(data))
      this.wrong.push(`${wish.externalId} is another request when repeated`)
    const other = await this.#post({...wish, amount: wish.amount + 1n})
    if (!isRefusal(other, 422, 'idempotency_key_reused'))
      this.wrong.push(`the response to a key used with another amount was ${other.status} ${other.text}`)
    const stranger = await this.#post({...wish, key: `${wish.key}-other`})
    if (!isRefusal(stranger, 409, 'external_id_conflict'))
      this.wrong.push(`the response to a repeated reference was ${stranger.status} ${stranger.text}`)
  }

  // --- payments ---

  /** The addresses of requests on a chain, whether they are paid there or on another chain of its family. */
  on(chain: ChainCode): Map<string, Requested> {
    const {family} = registered(chain)
    const those = this.all.filter(request => registered(request.asset.chain).family === family)
    return new Map(those.map(request => [request.address, request]))
  }

  /** One to be paid on the chain, sometimes wrongly; undefined while there is none. */
  any(chain: ChainCode, random: Random): Requested | undefined {
    const isWrong = random.chance(0.15)
    const all = [...this.on(chain).values()].filter(request => isWrong || request.asset.chain === chain)
    return all.length ? random.pick(random.chance(0.7) ? all.slice(-newest) : all) : undefined
  }

  /** The amounts that one payer sends for a request, one for each part. */
  parts({amount, asset}: Requested, random: Random): bigint[] {
    const share = random.weighted(shares)
    this.#count(`paid ${share}`)
    const some = (amount * BigInt(random.between(5, 95))) / 100n
    return {
      exactly: [amount],
      'in two parts': [some, amount - some],
      'too little': [some],
      'a little short': [amount - amount / 20n],
      'too much': [amount + some],
      'next to nothing': [carriesAnything.has(registered(asset.chain).family) ? amount / 100_000n : some],
    }[share]
  }
}

function isRefusal({status, text}: Response, expected: number, error: string): boolean {
  return status === expected && Refused.parse(JSON.parse(text)).error === error
}

export function pathOf(externalId: string): string {
  return `/v1/payment-requests/${externalId}`
}
