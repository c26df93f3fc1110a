// Finds whom an API key acts for, and what it may do. Promises: the key is read from either of two headers; if they
// differ, there is no key. Only the SHA-256 of a key is compared, stored or cached. A revoked key, and every key of a
// suspended merchant, stops working here within milliseconds of the commit, because the database announces it on a
// connection that only listens. While that connection is down, every key is looked up in the database, and nothing is
// cached for longer than 5 seconds. It is the held connection of this process: when it is lost, all others are cut,
// too. The day on which a key was last used is recorded once a day, in parallel with the request.
import {hash} from 'node:crypto'
import type {IncomingHttpHeaders} from 'node:http'
import {setTimeout as sleep} from 'node:timers/promises'
import type {Logger} from '../base/log.ts'
import type {Scope} from '../base/scopes.ts'
import {inWords} from '../db/client/failure.ts'
import {type Held, holdConnection} from '../db/client/held-connection.ts'
import type {Outage} from '../db/client/outage.ts'
import {type Database, statement} from './database.ts'

const cacheMs = 5_000
const cacheSize = 10_000
const reconnectMs = 250
const bearer = /^bearer +(.+)$/i
const wellFormed = /^sk_[\w-]{43}$/

const findKey = statement(
  'find_key',
  `select k.merchant_id, k.scopes, k.last_used_on is not distinct from (clock_timestamp() at time zone 'UTC')::date
   from app.api_key k join app.merchant m on m.id = k.merchant_id
   where k.secret_hash = decode($1, 'hex') and k.revoked_at is null and m.suspended_at is null`,
)
const noteKeyUse = statement('note_key_use', `select app.note_key_use(decode($1, 'hex'))`)

/** Whom a key acts for, and what it may do. */
export interface Holder {
  merchantId: string
  scopes: Scope[]
}

export class Keys {
  readonly #db: Database
  readonly #databaseUrl: string
  readonly #log: Logger
  readonly #outage: Outage
  readonly #known = new Map<string, Holder & {expiresAt: number}>()
  readonly #closing = new AbortController()
  #listener?: Held
  #isListening = false
  /** Counts the events that invalidate cached keys: a lookup that was running at such an event is not cached. */
  #doubts = 0

  constructor(db: Database, databaseUrl: string, {log, outage}: {log: Logger; outage: Outage}) {
    this.#db = db
    this.#databaseUrl = databaseUrl
    this.#log = log
    this.#outage = outage
    this.#listen()
  }

  /** The holder of the request's key; undefined if no valid key was sent. Returns no promise if the key is cached. */
  holderOf(headers: IncomingHttpHeaders): Holder | undefined | Promise<Holder | undefined> {
    const secret = secretIn(headers)
    if (!secret || !wellFormed.test(secret)) return undefined
    const secretHash = hash('sha256', secret, 'hex')
    const known = this.#known.get(secretHash)
    if (known && known.expiresAt > performance.now()) return known
    return this.#lookUp(secretHash)
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#listener?.release()
  }

  async #lookUp(secretHash: string): Promise<Holder | undefined> {
    const doubts = this.#doubts
    const found = await this.#db.read<[merchantId: string, scopes: Scope[], usedToday: boolean]>(findKey, [secretHash])
    if (!found) return undefined
    const [merchantId, scopes, usedToday] = found
    if (!usedToday) this.#noteUse(secretHash)
    if (this.#isListening && doubts === this.#doubts) {
      if (this.#known.size >= cacheSize) this.#known.clear()
      this.#known.set(secretHash, {merchantId, scopes, expiresAt: performance.now() + cacheMs})
    }
    return {merchantId, scopes}
  }

  #noteUse(secretHash: string): void {
    this.#db.change(noteKeyUse, [secretHash]).catch(error => {
      this.#log.warn({error: error.message}, 'the day on which a key was used could not be stored')
    })
  }

  #doubt(secretHash?: string): void {
    this.#doubts++
    if (secretHash) this.#known.delete(secretHash)
    else this.#known.clear()
  }

  #stopTrusting(): void {
    this.#isListening = false
    this.#doubt()
  }

  async #listen(): Promise<void> {
    const {signal} = this.#closing
    while (!signal.aborted) {
      await this.#listenOnce(signal).catch(async error => {
        if (!signal.aborted) this.#outage.failed(inWords(error))
        await sleep(reconnectMs, undefined, {signal}).catch(() => {})
      })
      this.#stopTrusting()
      this.#db.cut() // what is older than the next listener may lead to a server that is no primary any more
    }
  }

  /** Resolves when the connection is lost. */
  async #listenOnce(signal: AbortSignal): Promise<void> {
    const {promise: lost, resolve} = Promise.withResolvers<string>()
    const name = 'sluice-api-keys'
    const held = await holdConnection({url: this.#databaseUrl, name, outage: this.#outage, onLost: resolve, signal})
    this.#listener = held
    if (signal.aborted) return await held.release()
    held.client.on('notification', ({payload}) => this.#doubt(payload))
    await held.client.query('listen api_key_revoked')
    this.#doubt() // earlier revocations are not announced again
    this.#isListening = true
    this.#outage.failed(await lost)
  }
}

/** The key that one header or both send; undefined if there is none, or if they differ. */
function secretIn({authorization, 'x-api-key': apiKey}: IncomingHttpHeaders): string | undefined {
  if (authorization === undefined) return apiKey?.toString()
  const secret = bearer.exec(authorization)?.[1]
  return apiKey === undefined || apiKey === secret ? secret : undefined
}
