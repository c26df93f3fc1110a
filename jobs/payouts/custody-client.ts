// Custody's client, over the unix socket in SLUICE_HOME. Promises: every response is checked against its schema;
// anything else ends in a RetryableError within the timeout. The token is read again for each request, because custody
// makes a new one at each start. The same request gives the same bytes.
import {readFile} from 'node:fs/promises'
import {Agent} from 'undici'
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import {custodySocket} from '../../base/home.ts'
import {type RefusalCode, refusalCodes} from '../../base/reasons.ts'

const timeoutMs = 20_000

/** An amount in base units. */
export const units = z.string().regex(/^\d+$/)

/** What was signed. The fields describe `raw`, which may be an earlier signature. */
export interface Signed {
  ok: true
  txid: string
  raw: string
  /** The amount that it moves, in base units. */
  amount: string
  /** What it offers for its place in a block, in the terms of its family: app.outgoing_attempt.fee_details. */
  feeDetails: Record<string, string | number>
  /** The highest network fee that it can cost, in base units of the native coin. */
  maxFee: bigint
}

/** `needed`, with fee_too_low: the least that a replacement must pay. */
export interface Refusal<Needed> {
  ok: false
  code: RefusalCode | 'error'
  message: string
  needed?: Needed
}

/** Responses to the intents of a family. */
export type Responses<Needed> = z.ZodType<{results: (Signed | Refusal<Needed>)[]}>

/**
 * A newer custody may have a code that this worker does not know. Everything else of its response counts; this payment
 * waits.
 */
const Refused = z.object({
  ok: z.literal(false),
  code: z.string().transform((code): RefusalCode | 'error' => refusalCodes.find(known => known === code) ?? 'error'),
  message: z.string(),
})

export function responses<Needed>(signed: z.ZodType<Signed>, needed: z.ZodType<Needed>): Responses<Needed> {
  return z.object({results: z.array(z.union([signed, Refused.extend({needed: needed.optional()})]))})
}

const Check = z.union([z.object({ok: z.literal(true)}), Refused])
const Authorised = z.object({results: z.array(z.union([z.object({ok: z.literal(true), data: z.string()}), Refused]))})

export class Custody {
  readonly #endpoint: {socket: string; tokenFile: string}
  readonly #agent: Agent

  constructor(home: string) {
    this.#endpoint = custodySocket(home)
    this.#agent = new Agent({connect: {socketPath: this.#endpoint.socket}})
  }

  /** Up to 200 signatures, in the order of the intents. */
  async sign<Needed>(intents: object[], schema: Responses<Needed>): Promise<(Signed | Refusal<Needed>)[]> {
    const {results} = await this.#ask('/sign', {intents}, schema)
    if (results.length !== intents.length) throw new RetryableError('custody did not respond to every intent')
    return results
  }

  /** Up to 200 authorisations of sweeps, in the order of the requests: the data of the call that uses each. */
  async authorise(sweeps: object[]): Promise<z.infer<typeof Authorised>['results']> {
    const {results} = await this.#ask('/authorise', {sweeps}, Authorised)
    if (results.length !== sweeps.length) throw new RetryableError('custody did not respond to every request')
    return results
  }

  /** Whether custody would sign the payout, as far as it can know before the fees are set. */
  async check(payoutId: string): Promise<z.infer<typeof Check>> {
    return await this.#ask('/check', {payout_id: payoutId}, Check)
  }

  /** Aborts open requests. */
  async close(): Promise<void> {
    if (!this.#agent.destroyed) await this.#agent.destroy()
  }

  async #ask<T>(path: string, body: object, schema: z.ZodType<T>): Promise<T> {
    const {status, text} = await this.#post(path, JSON.stringify(body)).catch(error => {
      const why = (error as Error).cause ?? error
      throw new RetryableError(`custody cannot be reached at ${this.#endpoint.socket}: ${(why as Error).message}`)
    })
    // 401: the token is from a custody process that has ended. 400: this program and custody differ in version.
    if (status !== 200) throw new RetryableError(`custody answered ${path} with ${status}: ${text.slice(0, 500)}`)
    const {success, data, error} = schema.safeParse(parse(text))
    if (!success) throw new RetryableError(`custody sent an unexpected response to ${path}: ${z.prettifyError(error)}`)
    return data
  }

  async #post(path: string, body: string): Promise<{status: number; text: string}> {
    const token = (await readFile(this.#endpoint.tokenFile, 'utf8')).trim()
    const response = await this.#agent.request({
      origin: 'http://custody',
      path,
      method: 'POST',
      headers: {authorization: `Bearer ${token}`, 'content-type': 'application/json'},
      body,
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
    })
    return {status: response.statusCode, text: await response.body.text()}
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
