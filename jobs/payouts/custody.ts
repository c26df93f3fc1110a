// Asking custody, over the unix socket in SLUICE_HOME. Promises: an answer is checked for its shape, or the question ends with a
// RetryableError within its timeout; the token is read anew for each question, as custody makes another at each start; asking twice for
// the same gives the same bytes.
import {readFile} from 'node:fs/promises'
import {Agent} from 'undici'
import {z} from 'zod'
import {RetryableError} from '../../service/errors.ts'
import {custodyDoor} from '../../service/home.ts'

const timeoutMs = 20_000

/** What custody is asked to sign; the rest it reads itself. */
export type Intent = (
  | {intent: 'pay'; payout_id: string}
  | {intent: 'sweep'; spend_id: string; chain: string; token: string; address: string; amount: string}
  | {intent: 'withdraw'; spend_id: string}
  | {intent: 'cancel'; chain: string; sender: string}
) & {nonce: number; max_fee_per_gas: string; max_priority_fee_per_gas: string; gas_limit: number}

const wei = z.string().regex(/^\d+$/)
const offered = {max_fee_per_gas: wei, max_priority_fee_per_gas: wei}
/** `needed`, with fee_too_low: the least that a replacement has to offer. */
const Refusal = z.object({
  ok: z.literal(false),
  code: z.string(),
  message: z.string(),
  needed: z.object(offered).optional(),
})
/** With the fees and the amount that are in the bytes, which may be those of an earlier signature. */
const Signed = z.object({
  ok: z.literal(true),
  txid: z.string().regex(/^0x[0-9a-f]{64}$/),
  raw: z.string().regex(/^0x[0-9a-f]+$/),
  amount: wei,
  ...offered,
  gas_limit: z.int(),
})
const Result = z.discriminatedUnion('ok', [Signed, Refusal])
const Signatures = z.object({results: z.array(Result)})
const Check = z.discriminatedUnion('ok', [z.object({ok: z.literal(true)}), Refusal])

export type Result = z.infer<typeof Result>
export type Signed = z.infer<typeof Signed>

export class Custody {
  readonly #door: {socket: string; tokenFile: string}
  readonly #agent: Agent

  constructor(home: string) {
    this.#door = custodyDoor(home)
    this.#agent = new Agent({connect: {socketPath: this.#door.socket}})
  }

  /** Up to 200 signatures, in the order of the intents. */
  async sign(intents: Intent[]): Promise<Result[]> {
    const {results} = await this.#ask('/sign', {intents}, Signatures)
    if (results.length !== intents.length) throw new RetryableError('custody left intents without an answer')
    return results
  }

  /** Whether custody would sign the payout, by what it can know before there are fees. */
  async check(payoutId: string): Promise<z.infer<typeof Check>> {
    return await this.#ask('/check', {payout_id: payoutId}, Check)
  }

  /** Ends what is being asked. */
  async close(): Promise<void> {
    if (!this.#agent.destroyed) await this.#agent.destroy()
  }

  async #ask<T>(path: string, body: object, schema: z.ZodType<T>): Promise<T> {
    const {status, text} = await this.#post(path, JSON.stringify(body)).catch(error => {
      const why = (error as Error).cause ?? error
      throw new RetryableError(`custody cannot be reached at ${this.#door.socket}: ${(why as Error).message}`)
    })
    // A 401 is the token of a custody that ended meanwhile; a 400 says that this program and custody are not of one version.
    if (status !== 200) throw new RetryableError(`custody answered ${path} with ${status}: ${text.slice(0, 500)}`)
    const {success, data, error} = schema.safeParse(parse(text))
    if (!success) throw new RetryableError(`custody answered ${path} with something else: ${z.prettifyError(error)}`)
    return data
  }

  async #post(path: string, body: string): Promise<{status: number; text: string}> {
    const token = (await readFile(this.#door.tokenFile, 'utf8')).trim()
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
