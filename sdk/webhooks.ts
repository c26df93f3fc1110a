// Verifies what a webhook endpoint receives (Standard Webhooks 1.0), and gives it its type.
import {Webhook} from 'standardwebhooks'
import {SluiceError} from './errors.ts'
import type {Event} from './types.ts'

/** Why a message is not taken: answer it with 400, and do nothing. */
export type Refusal =
  /** It has no signature: it is not from the service. */
  | 'missing_headers'
  /** It is more than five minutes old, or in the future: sent again by a stranger, or a clock is wrong. */
  | 'wrong_time'
  /** The body was changed on its way, by a framework that parses it too, or the secret is another one. */
  | 'wrong_signature'
  | 'not_an_event'

export class WebhookError extends SluiceError {
  override name = 'WebhookError'
  readonly reason: Refusal

  constructor(reason: Refusal, message: string, cause?: unknown) {
    super(message, {cause})
    this.reason = reason
  }
}

type Headers = {get(name: string): string | null} | {readonly [name: string]: string | readonly string[] | undefined}

const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature'] as const

/**
 * The event in a request, if it is the service's own and new. Throws a WebhookError with a reason otherwise.
 *
 * `rawBody`: the bytes as they came, not the parsed JSON. `headers`: a Headers object, or those of Node. `secret`:
 * `whsec_…`, as the endpoint was made with; after a rotation both sign for a day, so either verifies.
 *
 * An event can come more than once, and after the service was restored under another id: credit a deposit once by its
 * `deposit_id`. An event with `test` is an example: nothing happened.
 */
export function verify(rawBody: string | Uint8Array, headers: Headers, secret: string): Event {
  if (typeof secret !== 'string' || !secret.startsWith('whsec_'))
    throw new TypeError('secret must be that of the endpoint, whsec_…')
  if (typeof rawBody !== 'string' && !ArrayBuffer.isView(rawBody))
    throw new TypeError('rawBody must be the text or the bytes as they came, not the parsed JSON')
  const body = typeof rawBody === 'string' ? rawBody : new TextDecoder().decode(rawBody)
  const given = Object.fromEntries(names.map(name => [name, headerOf(headers, name)]))
  const missing = names.filter(name => !given[name])
  if (missing.length) throw new WebhookError('missing_headers', `the request has no ${missing.join(', ')}`)
  let message: unknown
  try {
    message = new Webhook(secret).verify(body, given as Record<string, string>)
  } catch (error) {
    throw refusalOf(error as Error)
  }
  if (typeof (message as Event | undefined)?.type !== 'string')
    throw new WebhookError('not_an_event', 'the body is signed, and no event of Sluice')
  return message as Event
}

function headerOf(headers: Headers, name: string): string | undefined {
  if ('get' in headers && typeof headers.get === 'function') return headers.get(name) ?? undefined
  const all = Object.entries(headers as Record<string, string | string[] | undefined>)
  const value = all.find(([each]) => each.toLowerCase() === name)?.[1]
  return Array.isArray(value) ? value[0] : value
}

function refusalOf(error: Error): WebhookError {
  if (error instanceof SyntaxError) return new WebhookError('not_an_event', 'the body is signed, and no JSON', error)
  if (/timestamp|Signature Headers/.test(error.message))
    return new WebhookError(
      'wrong_time',
      'the message is older than five minutes, or of the future: is the clock right?',
      error,
    )
  if (/signature/.test(error.message))
    return new WebhookError(
      'wrong_signature',
      'the signature is not that of this body and secret: pass the bytes as they came, not the parsed JSON',
      error,
    )
  return new WebhookError('wrong_signature', `the secret cannot be used: ${error.message}`, error)
}

export const webhooks = {verify}
