// The errors of the API: the status of each code, when it comes, and an example of its message. A route names those
// that it can give, for the reference; the tests hold each reply against that.
import {z} from 'zod'

export const howToSendKey =
  'no valid API key was sent: send yours as Authorization: Bearer <key>, or as x-api-key: <key>; if both are sent, they must be equal'

interface Known {
  status: number
  /** When it comes. */
  when: string
  message: string
}
const known = (status: number, when: string, message: string): Known => ({status, when, message})
const missing = (thing: string) =>
  known(404, `there is no ${thing} with this id, or it belongs to another account`, `there is no ${thing} with this id`)

const codes = {
  invalid_request: known(
    400,
    'malformed path, query, cursor or body, or a parameter that the route does not know; `details` says what is wrong where',
    'external_ref: is missing',
  ),
  external_id_prefix_mismatch: known(
    400,
    '`external_id` does not begin with the prefix of the account and `-`',
    'external_id must begin with acme-, followed by a reference of your own',
  ),
  invalid_api_key: known(
    401,
    'missing, unknown or revoked key, two that differ, or your account is suspended',
    howToSendKey,
  ),
  insufficient_scope: known(
    403,
    'the key may not do this',
    'this needs a key with the scope payouts; this key has read, users',
  ),
  user_not_found: missing('user'),
  deposit_not_found: missing('deposit'),
  payout_not_found: missing('payout'),
  event_not_found: missing('event'),
  webhook_endpoint_not_found: missing('webhook endpoint'),
  webhook_delivery_not_found: missing('webhook delivery'),
  payment_request_not_found: missing('payment request'),
  currency_not_found: known(
    404,
    'there is no asset with this name; `GET /v1/crypto` lists them',
    'there is no currency with this name; GET /v1/crypto lists the currencies',
  ),
  external_id_conflict: known(
    409,
    'there is a payment request with this `external_id`',
    'there is a payment request with this external_id; GET /v1/payment-requests/<external_id> shows it',
  ),
  payout_collecting: known(
    409,
    'the payout still collects its deposits; try again after `Retry-After` seconds',
    'the payout is still collecting its deposits: 10000 of 250000 so far',
  ),
  nothing_due: known(
    410,
    'nothing is missing of the payment request, or it has ended: there is no code for paying it',
    'this payment request takes no more payments',
  ),
  payload_too_large: known(413, 'the body has more than 64 KiB', 'the body is too large'),
  unsupported_media_type: known(415, 'the body is not JSON', 'send the body as application/json'),
  chain_not_enabled: known(
    422,
    'the chain is not enabled for the account, or does not exist',
    'not enabled for this account: BTC',
  ),
  unsupported_token: known(422, 'there is no such pair of chain and token', 'there is no token DOGE on ETH'),
  payout_failed: known(
    422,
    'nothing was paid out; the `code` of `details` says why: nothing_to_pay_out, below_smallest_payout, no_payout_address, own_address (the payout address belongs to this service) or chain_stopped',
    'there is nothing to pay out',
  ),
  idempotency_key_reused: known(
    422,
    'the `Idempotency-Key` was used with another body',
    'this Idempotency-Key was used with another request',
  ),
  unprocessable: known(
    422,
    'well-formed, and refused; `message` says why',
    'the payout is paying and can no longer be cancelled',
  ),
  rate_limited: known(
    429,
    'too many requests; wait as long as `Retry-After` says',
    'too many requests; try again in 12 s',
  ),
  internal_error: known(
    500,
    'something failed in the service; `message` has an id by which the operator finds the cause',
    'something went wrong on our side',
  ),
  unavailable: known(
    503,
    'not at the moment; try again after `Retry-After` seconds',
    'no address is free at the moment; try again',
  ),
}
export type ErrorCode = keyof typeof codes

/** Those of no route. */
const ofNoRoute = {route_not_found: 404, method_not_allowed: 405}
export type AnyErrorCode = ErrorCode | keyof typeof ofNoRoute

export const statusOf = (code: AnyErrorCode): number =>
  code in ofNoRoute ? ofNoRoute[code as keyof typeof ofNoRoute] : codes[code as ErrorCode].status

const detailsOf: Partial<Record<ErrorCode, unknown>> = {
  invalid_request: [{path: 'external_ref', code: 'invalid_type', message: 'is missing'}],
  payout_failed: [{path: '', code: 'nothing_to_pay_out', message: codes.payout_failed.message}],
}
const Details = z
  .array(z.object({path: z.string(), code: z.string(), message: z.string()}))
  .describe('What is wrong where.')

/** The replies for these codes, by status. */
function repliesFor(given: ErrorCode[]): Record<number, z.ZodType> {
  const statuses = new Set(given.map(code => codes[code].status))
  return Object.fromEntries(
    [...statuses].map(status => [status, replyWith(given.filter(code => codes[code].status === status))]),
  )
}

function replyWith(given: ErrorCode[]): z.ZodType {
  const [first] = given as [ErrorCode, ...ErrorCode[]]
  const hasDetails = given.includes('invalid_request') || given.includes('payout_failed')
  return z
    .object({
      error: z.enum(given).describe('Code for programs.'),
      message: z.string().optional().describe('For people; may change.'),
      ...(hasDetails && {details: Details.optional()}),
    })
    .meta({
      description: given.map(code => `\`${code}\`: ${codes[code].when}`).join('. '),
      examples: [{error: first, message: codes[first].message, ...(first in detailsOf && {details: detailsOf[first]})}],
    })
}

const ofEvery: ErrorCode[] = [
  'invalid_request',
  'invalid_api_key',
  'insufficient_scope',
  'rate_limited',
  'internal_error',
  'unavailable',
]

/** The error replies of a route that reads: those of every route, and these. */
export const errors = (...own: ErrorCode[]) => repliesFor([...ofEvery, ...own])

/** The error replies of a route that changes something. */
export const changeErrors = (...own: ErrorCode[]) => errors('payload_too_large', 'unsupported_media_type', ...own)

/** The error replies of a route that needs no key. */
export const openErrors = () => repliesFor(['invalid_request', 'internal_error'])
