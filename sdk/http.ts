// One request to the service, with its retries. Promises: a change is sent again only where that changes nothing twice:
// it carries an Idempotency-Key, or says the same when it is repeated. What was refused for its rate (429) was not
// done, and is always sent again.
import {type Answer, ConnectionError, errorOf, objectIn, unexpected} from './errors.ts'

export interface Options {
  /** `sk_` and 43 characters; its scopes say what it may do. */
  apiKey: string
  /** Where the service is, such as `https://pay.example`. */
  baseUrl: string
  /** How long one attempt may take. Default: 30,000. */
  timeoutMs?: number
  /** How often a request is sent again. Default: 5. */
  retries?: number
  /** Instead of the global one. */
  fetch?: typeof fetch
}

type Scalar = string | number | boolean | undefined
export type Query = {[name: string]: Scalar | readonly string[]}

export interface Call {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string
  query?: Query | undefined
  body?: unknown
  idempotencyKey?: string | undefined
  /** It changes something each time. */
  isOnce?: boolean
  signal?: AbortSignal | undefined
}

const firstPauseMs = 500
const longestPauseMs = 30_000
/** A service that asks for more has something else wrong with it. */
const longestAskedMs = 5 * 60_000
/** What a header may hold, and a key of the service does: printable, without spaces. */
const isPrintable = (value: unknown) => typeof value === 'string' && /^[\x21-\x7e]{1,255}$/.test(value)

export class Http {
  readonly #options: Required<Options>

  constructor({apiKey, baseUrl, timeoutMs = 30_000, retries = 5, fetch: given = fetch}: Options) {
    if (!apiKey) throw new TypeError('apiKey is missing: ask the operator of the service for one')
    if (!isPrintable(apiKey)) throw new TypeError('apiKey has a space or another character that no key has')
    if (!isBase(baseUrl))
      throw new TypeError('baseUrl must be a URL such as https://pay.example, without a user name, query or fragment')
    if (!(timeoutMs > 0) || !(retries >= 0)) throw new TypeError('timeoutMs must be above 0, and retries 0 or more')
    this.#options = {apiKey, baseUrl: baseUrl.replace(/\/+$/, ''), timeoutMs, retries, fetch: given}
  }

  /** The JSON of the answer; undefined if it has none. */
  async json<Reply>(call: Call): Promise<Reply> {
    const {text, response} = await this.#answered(call)
    if (response.status === 204) return undefined as Reply
    const reply = objectIn(text)
    if (reply === undefined) throw unexpected(response, `${call.method} ${call.path}`)
    return reply as Reply
  }

  async text(call: Call): Promise<string> {
    return (await this.#answered(call)).text
  }

  async #answered(call: Call): Promise<Answer> {
    const {method, path, idempotencyKey} = call
    if (idempotencyKey !== undefined && !isPrintable(idempotencyKey))
      throw new TypeError('idempotencyKey must have 1 to 255 printable characters, and no spaces')
    const what = `${method} ${path}`
    for (let attempt = 0; ; attempt++) {
      const isLast = attempt >= this.#options.retries
      const answer = await this.#sent(call).catch((error: unknown) => error as Error)
      call.signal?.throwIfAborted()
      if (answer instanceof Error) {
        if (isLast || call.isOnce)
          throw new ConnectionError(`${what}: no whole answer: ${reasonOf(answer)}`, {cause: answer})
        await pause(backOffMs(attempt), call.signal)
        continue
      }
      const {status, ok} = answer.response
      if (ok) return answer
      const isAgain = status === 429 || (status >= 500 && !call.isOnce)
      const waitMs = askedMs(answer.response) ?? backOffMs(attempt)
      if (isLast || !isAgain || waitMs > longestAskedMs) throw errorOf(answer, what)
      await pause(waitMs, call.signal)
    }
  }

  /** With its whole text: one that breaks off is none. */
  async #sent({method, path, query, body, idempotencyKey, signal}: Call): Promise<Answer> {
    const {apiKey, baseUrl, timeoutMs, fetch} = this.#options // called on its own: Workers refuse it as a method
    const timeout = AbortSignal.timeout(timeoutMs)
    const response = await fetch(baseUrl + path + search(query), {
      method,
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...(body !== undefined && {'content-type': 'application/json'}),
        ...(idempotencyKey !== undefined && {'idempotency-key': idempotencyKey}),
      },
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      redirect: 'manual',
    })
    return {response, text: await response.text()}
  }
}

/** A path may follow it. */
function isBase(text: string): boolean {
  if (typeof text !== 'string' || text !== text.trim() || !URL.canParse(text)) return false
  const {protocol, username, password, search, hash} = new URL(text)
  return /^https?:$/.test(protocol) && username + password + search + hash === ''
}

/** A part of a path. No id is empty, or leads to another path. */
export function part(id: string): string {
  if (typeof id !== 'string' || /^\.{0,2}$/.test(id)) throw new TypeError(`${JSON.stringify(id)} is no id`)
  return encodeURIComponent(id)
}

/** Lists have commas between, as the service reads them. */
function search(query: Query | undefined): string {
  const given = Object.entries(query ?? {}).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, Array.isArray(value) ? value.join(',') : String(value)]],
  )
  return given.length ? `?${new URLSearchParams(given)}` : ''
}

const reasonOf = (error: Error): string =>
  error.name === 'TimeoutError' ? 'it took too long' : ((error.cause as Error | undefined)?.message ?? error.message)

/** The time that Retry-After asks for (RFC 9110: seconds, or a date). */
function askedMs({headers}: Response): number | undefined {
  const asked = headers.get('retry-after')
  if (asked === null) return undefined
  const ms = /^\d+$/.test(asked)
    ? Number(asked) * 1000
    : /^[A-Z]/i.test(asked)
      ? Date.parse(asked) - Date.now()
      : Number.NaN
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}

/** Twice as long each time, and by chance less, so that not everybody comes back at once. */
const backOffMs = (attempt: number): number =>
  Math.min(firstPauseMs * 2 ** attempt, longestPauseMs) * (0.5 + Math.random() / 2)

/** Ends early, and throws, when the signal says so. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const over = () => {
      clearTimeout(timer)
      reject(signal!.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', over)
      resolve()
    }, ms)
    signal?.addEventListener('abort', over, {once: true})
  })
}
