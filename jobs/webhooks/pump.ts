// Sends what is due at one endpoint while this worker holds it. Promises: at most 50 requests are in flight. The
// delivery that is due first is claimed first, and a batch is sent in order of sequence. Only events that have a
// sequence are sent. A hanging request takes one of the 50 places and holds up nothing else. Results are stored in
// batches; a result that could not be stored waits in memory until it can be.
//
// Safe to repeat: a delivery stays pending until its result is stored. After a crash, the next holder of the endpoint
// sends it again with the same webhook-id. Two pumps of one endpoint at the same time (which the lock prevents) would
// send twice and count one attempt.
import type pg from 'pg'
import type {Logger} from '../../base/log.ts'
import {inWords} from '../../db/client/failure.ts'
import {countAttempt} from '../metrics.ts'
import {waitAfterMs} from './schedule.ts'
import type {Outcome, Sender} from './send.ts'

const inFlightMax = 50
const batchMax = 200
/**
 * Claimed deliveries older than this are claimed again: the endpoint may have been changed, disabled or deleted since.
 */
const claimMaxAgeMs = 2000
/** How long results wait for others while requests are in flight. */
const lingerMs = 20
const retryQueryMs = 1000

interface Claimed {
  id: string
  attempts: number
  sequence: string
  event_id: string
  body: string
  url: string
  secrets: string[]
}

interface Ended extends Outcome {
  claimed: Claimed
  startedAt: number
  durationMs: number
}

// The lateral LIMIT keeps the planner on the two indexes, however wrong its estimates are.
export const claim = `
  select d.id, d.attempts, e.sequence, app.event_id(e.id, e.is_test) as event_id, app.event_body(e.payload, e.sequence) as body, w.url,
    case when w.previous_secret_expires_at > now() then array[w.secret, w.previous_secret] else array[w.secret] end as secrets
  from app.webhook_endpoint w
  join app.delivery d on d.endpoint_id = w.id
  cross join lateral (select * from app.event e where e.id = d.event_id and e.sequence is not null limit 1) e
  where w.id = $1 and w.disabled_at is null and w.deleted_at is null
    and d.endpoint_id = $1 and d.status = 'pending' and d.next_attempt_at <= now() and d.id <> all($2::uuid[])
  order by d.next_attempt_at limit ${batchMax}`

export class Pump {
  readonly endpointId: string
  readonly #pool: pg.Pool
  readonly #sender: Sender
  readonly #log: Logger
  readonly #onIdle: () => void
  /** Deliveries that are waiting, in flight, or not stored yet. They are not claimed again. */
  readonly #known = new Set<string>()
  #waiting: Claimed[] = []
  #ended: Ended[] = []
  #claimedAt = 0
  #inFlight = 0
  #isDue = false
  #isClaiming = false
  #isStoring = false
  #isStopping = false
  #isCut = false
  #linger: NodeJS.Timeout | undefined

  constructor(endpointId: string, to: {pool: pg.Pool; sender: Sender; log: Logger; onIdle: () => void}) {
    this.endpointId = endpointId
    this.#pool = to.pool
    this.#sender = to.sender
    this.#log = to.log.child({endpoint_id: endpointId})
    this.#onIdle = to.onIdle
  }

  /** Something may be due. */
  wake(): void {
    this.#isDue = true
    this.#step()
  }

  /** Nothing is waiting, in flight or unstored. onIdle is called whenever this becomes true. */
  get isIdle(): boolean {
    return !this.#isDue && !this.#isClaiming && !this.#isStoring && this.#known.size === 0
  }

  /** Starts no new requests; those in flight continue. */
  stop(): void {
    this.#isStopping = true
    this.#step()
  }

  /** The connections are being cut: from now on, failures say nothing about the endpoint. */
  cut(): void {
    this.#isCut = true
  }

  #step(): void {
    if (this.#isStopping) this.#forgetWaiting()
    else if (this.#waiting.length && performance.now() - this.#claimedAt > claimMaxAgeMs) {
      this.#forgetWaiting()
      this.#isDue = true
    }
    if (this.#isStopping) this.#isDue = false
    while (this.#waiting.length && this.#inFlight < inFlightMax) void this.#deliver(this.#waiting.shift()!)
    if (this.#isDue && !this.#isClaiming && this.#waiting.length < batchMax) void this.#claim()
    if (this.#ended.length && !this.#isStoring) {
      if (this.#ended.length >= batchMax || this.#inFlight === 0) void this.#store()
      else this.#linger ??= setTimeout(() => void this.#store(), lingerMs)
    }
    if (this.isIdle) this.#onIdle()
  }

  #forgetWaiting(): void {
    for (const {id} of this.#waiting) this.#known.delete(id)
    this.#waiting = []
  }

  async #claim(): Promise<void> {
    this.#isDue = false
    this.#isClaiming = true
    try {
      const values = [this.endpointId, [...this.#known]]
      const {rows} = await this.#pool.query<Claimed>(claim, values) // without a name: dispatcher.ts says why
      rows.sort((a, b) => Number(a.sequence) - Number(b.sequence))
      for (const row of rows) this.#known.add(row.id)
      this.#waiting.push(...rows)
      this.#claimedAt = performance.now()
      if (rows.length === batchMax) this.#isDue = true
    } catch (error) {
      this.#log.error({error: inWords(error)}, 'due deliveries could not be read; trying again')
      await new Promise(resolve => setTimeout(resolve, retryQueryMs))
    }
    this.#isClaiming = false
    this.#step()
  }

  async #deliver(claimed: Claimed): Promise<void> {
    this.#inFlight++
    const startedAt = performance.now()
    const outcome = await this.#sender.send({...claimed, id: claimed.event_id})
    this.#inFlight--
    const durationMs = performance.now() - startedAt
    if (outcome.error && this.#isCut) this.#known.delete(claimed.id)
    else {
      countAttempt(outcome, durationMs)
      this.#ended.push({...outcome, claimed, startedAt, durationMs: Math.round(durationMs)})
    }
    this.#step()
  }

  async #store(): Promise<void> {
    clearTimeout(this.#linger)
    this.#linger = undefined
    if (this.#isStoring || this.#ended.length === 0) return
    this.#isStoring = true
    const ended = this.#ended.splice(0)
    try {
      const reason = await this.#record(ended)
      for (const {claimed} of ended) this.#known.delete(claimed.id)
      if (reason) {
        this.#log.warn({reason}, 'the webhook endpoint was disabled')
        this.#forgetWaiting()
      }
    } catch (error) {
      this.#ended.unshift(...ended)
      this.#log.error({error: inWords(error)}, 'results of webhooks could not be stored; trying again')
      await new Promise(resolve => setTimeout(resolve, retryQueryMs))
    }
    this.#isStoring = false
    this.#step()
  }

  /** Stores the results. Resolves to why they disabled the endpoint, or null. */
  async #record(ended: Ended[]): Promise<string | null> {
    const now = performance.now()
    const number = ({claimed}: Ended) => claimed.attempts + 1
    const wait = (result: Ended) => (result.error ? waitAfterMs(number(result), result.retryAfterMs) : undefined)
    const values = [
      this.endpointId,
      ended.map(result => result.claimed.id),
      ended.map(number),
      ended.map(result => Math.round(now - result.startedAt)),
      ended.map(result => result.durationMs),
      ended.map(result => result.status ?? null),
      ended.map(result => result.error ?? null),
      ended.map(result => wait(result) ?? null),
    ]
    const text = 'select app.record_attempts($1, $2, $3, $4, $5, $6, $7, $8) as reason'
    const {rows} = await this.#pool.query<{reason: string | null}>({name: 'record_attempts', text, values})
    return rows[0]?.reason ?? null
  }
}
