// One HTTP exchange with a merchant's endpoint. Promises: it ends within 15 seconds, whatever the other side does, and so does its
// connection; only a status of 2xx is success, decided when the headers are there; no redirect is followed; at most 16 kB of the answer are
// read. Connections are kept alive and shared between endpoints, but an endpoint that hangs never keeps another from opening one.
import {Agent} from 'undici'
import packageJson from '../../package.json' with {type: 'json'}
import {guardedConnector} from './address.ts'
import {parseRetryAfter} from './schedule.ts'
import {signedHeaders} from './sign.ts'

const exchangeTimeoutMs = 15_000
const connectTimeoutMs = 10_000
/** How long, and how much of, the body of an answer is read for the sake of keeping the connection. */
const bodyTimeoutMs = 1000
const bodyMaxBytes = 16_384

export interface Message {
  url: string
  /** Public id of the event. */
  id: string
  body: string
  /** Signing secrets, the present one first. */
  secrets: string[]
}

export interface Outcome {
  /** HTTP status of the answer, if there was one. */
  status?: number
  /** Why the attempt failed; absent if it succeeded. */
  error?: string
  /** What the receiver's Retry-After asks for. */
  retryAfterMs?: number
}

export interface Sender {
  /** Never rejects. */
  send(message: Message): Promise<Outcome>
  /** Cuts every connection; exchanges under way end with an error. */
  close(): Promise<void>
}

export function openSender({allowPrivate}: {allowPrivate: boolean}): Sender {
  const agent = new Agent({
    connect: guardedConnector({timeoutMs: connectTimeoutMs, allowPrivate}),
    // The timer below limits the exchange as a whole; a limit on pauses, which undici has, lets a dripping answer go on for ever.
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
    let outcome: Outcome = {error: `no answer within ${exchangeTimeoutMs / 1000} s`}
    let abort: ((reason: Error) => void) | undefined
    let bodyBytes = 0
    let isOver = false
    const end = (reason?: string) => {
      if (isOver) return
      isOver = true
      clearTimeout(timer)
      if (reason) abort?.(new Error(reason))
      resolve(outcome)
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
          if (status < 200) return // informational: the answer is still to come
          outcome = outcomeOf(status, headers['retry-after'])
          clearTimeout(timer)
          timer = setTimeout(end, Math.min(bodyTimeoutMs, deadline - performance.now()), 'slow body')
        },
        onResponseData(_controller, chunk) {
          bodyBytes += chunk.length
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

/** The error's text, made fit to be stored: part of it may be the other side's. */
function describe(error: Error): string {
  const cause = error instanceof AggregateError ? error.errors[0] : error
  return String(cause?.message || error)
    .replace(/[^\x20-\x7e]+/g, ' ')
    .slice(0, 300)
}
