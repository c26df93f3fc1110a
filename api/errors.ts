// The errors of the contract. Promises: every error while a request is served becomes {error, message?, details?} with
// the contract's status. An unexpected error becomes 500 internal_error and reveals nothing about its cause.
import type {FastifyError} from 'fastify'
import type pg from 'pg'
import type {z} from 'zod'
import {whatIsWrong} from '../base/wrong-value.ts'
import {failureOf} from '../db/client/failure.ts'
import {type AnyErrorCode, type ErrorCode, statusOf} from './error-codes.ts'
import {whyUnknown} from './query.ts'

export interface Detail {
  /** Where in the body, query or path: external_ref, chains.0; empty for the whole. */
  path: string
  code: string
  message: string
}

export class ApiError extends Error {
  override name = 'ApiError'
  readonly status: number
  readonly code: AnyErrorCode
  readonly details?: Detail[]
  readonly headers: Record<string, string>

  constructor(
    code: AnyErrorCode,
    message?: string,
    /** `status`: that of the code, except where HTTP asks for one of its own. */
    {details, headers = {}, cause, status = statusOf(code)}: Partial<ApiError> = {},
  ) {
    super(message, {cause})
    this.status = status
    this.code = code
    this.details = details
    this.headers = headers
  }

  /** The JSON text of the reply. */
  get body(): string {
    return JSON.stringify({error: this.code, message: this.message || undefined, details: this.details})
  }
}

type Missing = ErrorCode extends infer C ? (C extends `${infer Kind}_not_found` ? Kind : never) : never

export function notFound(kind: Missing): ApiError {
  return new ApiError(`${kind}_not_found`, `there is no ${kind.replaceAll('_', ' ')} with this id`)
}

export const nothingDue = () => new ApiError('nothing_due', 'this payment request takes no more payments')

export const chainNotEnabled = (chain: string) =>
  new ApiError('chain_not_enabled', `not enabled for this account: ${chain}`)

export const tooMany = (resetSeconds: number) =>
  new ApiError('rate_limited', `too many requests; try again in ${resetSeconds} s`, {
    headers: {'retry-after': String(resetSeconds)},
  })

/** 400 for one value that a schema cannot check. */
export function invalid(path: string, code: string, message: string): ApiError {
  return new ApiError('invalid_request', `${path}: ${message}`, {details: [{path, code, message}]})
}

/** Amounts mean nothing without their token: `isOfToken` if the query says which. Throws 400 invalid_request. */
export function checkAmounts(
  query: {amount_from?: string | undefined; amount_to?: string | undefined},
  isOfToken: unknown,
) {
  const name = query.amount_from === undefined ? 'amount_to' : 'amount_from'
  if (query[name] !== undefined && !isOfToken)
    throw invalid(name, 'missing', 'is no amount without its token: say of which, and on which chain')
}

/** What is wrong with a body, as the words of a schema's error. */
export const wrongBody: z.core.$ZodErrorMap = issue =>
  issue.path?.length || isObject(issue.input) ? whatIsWrong(issue) : 'send a JSON object as the body'

const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value)

/** 400 for what a schema refused. `parameters` are those of the query, if the schema is of one. */
export function invalidRequest(error: z.ZodError, parameters: string[] = []): ApiError {
  const details = error.issues.flatMap((issue): Detail[] => {
    const {code, message} = issue
    if (code !== 'unrecognized_keys') return [{path: issue.path.join('.'), code, message}]
    return issue.keys.map(path => ({path, code: 'unknown_parameter', message: whyUnknown(path, parameters)}))
  })
  const first = details[0]
  const message = first && (first.path ? `${first.path}: ${first.message}` : first.message)
  return new ApiError('invalid_request', message, {details})
}

export const unavailable = (message: string, cause?: unknown) =>
  new ApiError('unavailable', message, {headers: {'retry-after': '1'}, cause})

/** Those of SQL that say no more than their message. */
const refusals: Record<string, ErrorCode> = {
  SLPFX: 'external_id_prefix_mismatch',
  SL409: 'external_id_conflict',
  SL422: 'unprocessable',
  SLTOK: 'unsupported_token',
  SLIDK: 'idempotency_key_reused',
  SLCHN: 'chain_not_enabled',
}

/** The error as the client sees it. `cause` is set if the log should show more. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  const {code = '', message = '', detail, statusCode} = error as Partial<pg.DatabaseError & FastifyError>
  if (code === 'SL404') return new ApiError(`${detail as Missing}_not_found`, message)
  if (code === 'SLINV') return invalid(detail ?? '', 'invalid_value', message)
  if (code === 'SLCOL') return new ApiError('payout_collecting', message, {headers: {'retry-after': '1'}})
  if (code === 'SL429') return new ApiError('rate_limited', message, {headers: {'retry-after': detail ?? '60'}})
  if (code === 'SLPAY')
    return new ApiError('payout_failed', message, {details: [{path: '', code: detail ?? '', message}]})
  if (code in refusals) return new ApiError(refusals[code]!, message)
  if (code === 'SL503')
    return unavailable(detail === 'totals' ? message : 'no address is free at the moment; try again')
  if (isDatabaseGone(error)) return unavailable('the service is unavailable at the moment; try again', error)
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return new ApiError('payload_too_large', 'the body is too large')
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE')
    return new ApiError('unsupported_media_type', 'send the body as application/json')
  if (code === 'FST_ERR_BAD_URL') return new ApiError('invalid_request', 'the path is no valid URL')
  if (statusCode && statusCode < 500) return new ApiError('invalid_request', message)
  return new ApiError('internal_error', 'something went wrong on our side', {cause: error})
}

// An error in a statement is our mistake. A socket error is the database's: a request uses no other connection.
function isDatabaseGone(error: unknown): boolean {
  const failure = failureOf(error)
  if (failure) return failure.reason !== 'database_error'
  return /^E(CONN\w+|PIPE|TIMEDOUT|NOTFOUND|AI_AGAIN|HOSTUNREACH)$/.test((error as {code?: string}).code ?? '')
}
