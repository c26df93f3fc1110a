// One request to the service, with its retries. Promises: a change is sent again only where that changes nothing twice:
// it carries an Idempotency-Key, or says the same when it is repeated. What was refused for its rate (429) was not
// done, and is always sent again.
import {ConnectionError, errorOf, unexpected} from './errors.ts'

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
const printable = /^[\x21-\x7e]{1,255}$/

export class Http {
  readonly #options: Required<Options>

  constructor({apiKey, baseUrl, timeoutMs = 30_000, retries = 5, fetch: given = fetch}: Options) {
    if (!apiKey) throw new TypeError('apiKey is missing: ask the operator of the service for one')
    if (!printable.test(apiKey)) throw new TypeError('apiKey has a space or another character that no key has')
    if (!isBase(baseUrl)) throw new TypeError(`baseUrl must be a URL such as https://pay.example, and is ${baseUrl}`)
    this.#options = {apiKey, baseUrl: baseUrl.replace(/\/+$/, ''), timeoutMs, retries, fetch: given}
  }

  /** The JSON of the answer; undefined if it has none. */
  async json<Reply>(call: Call): Promise<Reply> {
    const response = await this.#answered(call)
    const text = await response.text()
    if (response.status === 204) return undefined as Reply
    try {
      return JSON.parse(text)
    } catch (cause) {
      throw unexpected(response, `${call.method} ${call.path}`, cause)
    }
  }

  async text(call: Call): Promise<string> {
    return await (await this.#answered(call)).text()
  }

  async #answered(call: Call): Promise<Response> {
    const {method, path, idempotencyKey} = call
    if (idempotencyKey !== undefined && !printable.test(idempotencyKey))
      throw new TypeError('idempotencyKey must have 1 to 255 printable characters, and no spaces')
    const what = `${method} ${path}`
    for (let attempt = 0; ; attempt++) {
      const isLast = attempt >= this.#options.retries
      const response = await this.#sent(call).catch((error: unknown) => error as Error)
      call.signal?.throwIfAborted()
      if (!(response instanceof Response)) {
        if (isLast || call.isOnce)
          throw new ConnectionError(`${what}: no answer: ${reasonOf(response)}`, {cause: response})
        await pause(backOffMs(attempt), call.signal)
        continue
      }
      if (response.ok) return response
      const isAgain = response.status === 429 || (response.status >= 500 && !call.isOnce)
      const waitMs = askedMs(response) ?? backOffMs(attempt)
      if (isLast || !isAgain || waitMs > longestAskedMs) throw await errorOf(response, what)
      await response.body?.cancel()
      await pause(waitMs, call.signal)
    }
  }

  async #sent({method, path, query, body, idempotencyKey, signal}: Call): Promise<Response> {
    const {apiKey, baseUrl, timeoutMs, fetch} = this.#options // called on its own: Workers refuse it as a method
    const timeout = AbortSignal.timeout(timeoutMs)
    return await fetch(baseUrl + path + search(query), {
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
  }
}

/** A path may follow it. */
function isBase(text: string): boolean {
  if (!URL.canParse(text)) return false
  const {protocol, username, password, search, hash} = new URL(text)
  return /^https?:$/.test(protocol) && username + password + search + hash === ''
}

/** A part of a path. No id is empty, or leads to another path. */
export function part(id: string): string {
  if (/^\.{0,2}$/.test(id)) throw new TypeError(`${JSON.stringify(id)} is no id`)
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
  const ms = /^\d+$/.test(asked) ? Number(asked) * 1000 : Date.parse(asked) - Date.now()
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
