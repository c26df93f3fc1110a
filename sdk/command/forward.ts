// Posts an event to a program on the developer's machine, as the service posts it to an endpoint: the same headers,
// 15 seconds, only a 2xx is success, no redirect is followed.
import {createHmac} from 'node:crypto'
import {Webhook} from 'standardwebhooks'
import type {Event} from '../types.ts'

const timeoutMs = 15_000
const mostShown = 120
const mostBytes = 1000

/** The secret that a developer verifies with: the same for an API key each time, and no way back to the key. */
export const secretOf = (apiKey: string): string =>
  `whsec_${createHmac('sha256', apiKey).update('sluice listen').digest('base64')}`

export interface Answer {
  /** A 2xx came in time. */
  isTaken: boolean
  /** For people: the status and the time it took, or why there was no answer. */
  text: string
}

/** Never rejects. */
export async function forward(event: Event, url: string, secret: string, signal: AbortSignal): Promise<Answer> {
  const body = JSON.stringify(event)
  const now = new Date()
  const began = performance.now()
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'webhook-id': event.id,
        'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
        'webhook-signature': new Webhook(secret).sign(event.id, now, body),
      },
      body,
      redirect: 'manual',
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), signal]),
    })
    const tookMs = Math.round(performance.now() - began)
    const said = response.ok ? '' : shown(await beginningOf(response))
    await response.body?.cancel().catch(() => {}) // it may be endless
    return {isTaken: response.ok, text: `${response.status} in ${tookMs} ms${said && `: ${said}`}`}
  } catch (error) {
    return {isTaken: false, text: `no answer: ${reasonOf(error as Error)}`}
  }
}

/** A refusal's first words, however long it is, or nothing if it breaks off. */
async function beginningOf({body}: Response): Promise<string> {
  const reader = body?.getReader()
  const first = await reader?.read().catch(() => undefined)
  reader?.releaseLock()
  return new TextDecoder().decode(first?.value?.slice(0, mostBytes))
}

/** The beginning of what others said, on one line and without what a terminal would obey. */
export function shown(text: string, most = mostShown): string {
  const line = text.replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim()
  return line.length > most ? `${line.slice(0, most)}…` : line
}

function reasonOf(error: Error): string {
  if (error.name === 'TimeoutError') return `it took more than ${timeoutMs / 1000} s`
  const cause = error.cause as (Error & {code?: string}) | undefined
  return cause?.code === 'ECONNREFUSED' ? 'nothing listens there' : cause?.message || error.message
}
