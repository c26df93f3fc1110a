// One HTTP exchange with a merchant's endpoint. Promises: the exchange and its connection end within 15 seconds,
// whatever the other side does. Only a 2xx status is success, decided when the headers arrive. No redirect is followed.
// At most 16 kB of the response are read. Connections are kept alive and shared between endpoints, but a hanging
// endpoint never keeps another from opening one.
import {Agent} from 'undici'
import packageJson from '../../package.json' with {type: 'json'}
import {guardedConnector} from './address.ts'
import {parseRetryAfter} from './schedule.ts'
import {signedHeaders} from './sign.ts'

const exchangeTimeoutMs = 15_000
const connectTimeoutMs = 10_000
/** How long, and how much of, a response body is read so that the connection can be reused. */
const bodyTimeoutMs = 1000
const bodyMaxBytes = 16_384
/** How much of a refusal is stored: a developer reads there why their endpoint refused. */
const excerptLength = 200

export interface Message {
  url: string
  /** Public id of the event. */
  id: string
  body: string
  /** Signing secrets, the current one first. */
  secrets: string[]
}

export interface Outcome {
  /** HTTP status of the response, if there was one. */
  status?: number
  /** Why the attempt failed; absent if it succeeded. */
  error?: string
  /** The wait that the receiver's Retry-After asks for. */
  retryAfterMs?: number
}

export interface Sender {
  /** Never rejects. */
  send(message: Message): Promise<Outcome>
  /** Cuts every connection; open exchanges end with an error. */
  close(): Promise<void>
}

export function openSender({allowPrivate}: {allowPrivate: boolean}): Sender {
  const agent = new Agent({
    connect: guardedConnector({timeoutMs: connectTimeoutMs, allowPrivate}),
    // The timer below limits the whole exchange. undici's own limits are on pauses, so a slowly dripping response would
    // never end.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  return {send: message => send(agent, message), close: () => agent.destroy()}
}

function send(agent: Agent, {url, id, body, secrets}: Message): Promise<Outcome> {
  const target = URL.parse(url)
  if (!target) return Promise.resolve({error: 'the URL cannot be parsed'})
  const deadline = performance.now() + exchangeTimeoutMs
  return new Promise(resolve => {
    let outcome: Outcome = {error: `no response within ${exchangeTimeoutMs / 1000} s`}
    let abort: ((reason: Error) => void) | undefined
    let bodyBytes = 0
    let excerpt = ''
    let isOver = false
    const end = (reason?: string) => {
      if (isOver) return
      isOver = true
      clearTimeout(timer)
      if (reason) abort?.(new Error(reason))
      resolve(outcome.status !== undefined && outcome.error ? withExcerpt(outcome, excerpt) : outcome)
    }
    let timer = setTimeout(end, exchangeTimeoutMs, 'timeout')
    const headers = {
      ...signedHeaders(id, body, secrets),
      'content-type': 'application/json',
      'user-agent': `Sluice/${packageJson.version}`,
    }
    const path = target.pathname + target.search
    agent.dispatch(
      {origin: target.origin, path, method: 'POST', headers, body},
      {
        onRequestStart(controller) {
          abort = reason => controller.abort(reason)
          if (isOver) abort(new Error('timeout')) // it ended before there was a connection
        },
        onResponseStart(_controller, status, headers) {
          if (status < 200) return // informational: the response is still to come
          outcome = outcomeOf(status, headers['retry-after'])
          clearTimeout(timer)
          timer = setTimeout(end, Math.min(bodyTimeoutMs, deadline - performance.now()), 'slow body')
        },
        onResponseData(_controller, chunk) {
          bodyBytes += chunk.length
          if (excerpt.length < excerptLength) excerpt += chunk.toString('latin1')
          if (bodyBytes > bodyMaxBytes) end('long body')
        },
        onResponseEnd: () => end(),
        onResponseError(_controller, error) {
          if (outcome.status === undefined && !isOver) outcome = {error: describe(error)}
          end()
        },
      },
    )
  })
}

function outcomeOf(status: number, retryAfter: string | string[] | undefined): Outcome {
  if (status < 300) return {status}
  const error = status < 400 ? `answered ${status}; redirects are not followed` : `answered ${status}`
  return {status, error, retryAfterMs: parseRetryAfter([retryAfter].flat()[0])}
}

function withExcerpt(outcome: Outcome, excerpt: string): Outcome {
  const said = safe(excerpt, excerptLength).trim()
  return said ? {...outcome, error: `${outcome.error}: ${said}`} : outcome
}

function describe(error: Error): string {
  const cause = error instanceof AggregateError ? error.errors[0] : error
  return safe(String(cause?.message || error), 300)
}

/** A text of which a part may come from the other side, made safe to store. */
const safe = (text: string, length: number) => text.replace(/[^\x20-\x7e]+/g, ' ').slice(0, length)
