// What can go wrong between a merchant's program and Sluice, as classes. Programs decide by the class and `code`; the
// message is for people, and says what was asked.

/** What is wrong with one value that was sent. */
export interface Detail {
  /** The field or parameter, such as `metadata.plan`. */
  path: string
  code: string
  message: string
}

/** Whatever this library throws about a request. */
export class SluiceError extends Error {
  override name = 'SluiceError'
}

/** The service refused: it answered, and nothing was done. */
export class ApiError extends SluiceError {
  override name = 'ApiError'
  /** As the reference lists them, such as `payout_failed`. */
  readonly code: string
  /** The HTTP status. */
  readonly status: number
  readonly details: readonly Detail[]
  /** By this the operator finds the request in the log; null if the answer was not the service's own. */
  readonly requestId: string | null

  constructor(message: string, from: {code: string; status: number; details?: Detail[]; requestId: string | null}) {
    super(message)
    this.code = from.code
    this.status = from.status
    this.details = from.details ?? []
    this.requestId = from.requestId
  }
}

/** 400: what was sent is wrong; `details` says which values. */
export class InvalidRequestError extends ApiError {
  override name = 'InvalidRequestError'
}
/** 401: no API key, or one that does not work. */
export class AuthenticationError extends ApiError {
  override name = 'AuthenticationError'
}
/** 403: the key lacks a scope, or the account is suspended. */
export class PermissionError extends ApiError {
  override name = 'PermissionError'
}
/** 404: there is nothing with this id. */
export class NotFoundError extends ApiError {
  override name = 'NotFoundError'
}
/** 409 and 422: not in this state, or not with these values. */
export class UnprocessableError extends ApiError {
  override name = 'UnprocessableError'
}
/** 429, after all retries. */
export class RateLimitError extends ApiError {
  override name = 'RateLimitError'
}
/** 5xx, after all retries. Of a change it is unknown whether it was made: send it again with the same values. */
export class ServerError extends ApiError {
  override name = 'ServerError'
}

/** No answer came, after all retries. Of a change it is unknown whether it was made. */
export class ConnectionError extends SluiceError {
  override name = 'ConnectionError'
}

const byStatus: Record<number, typeof ApiError> = {
  400: InvalidRequestError,
  401: AuthenticationError,
  403: PermissionError,
  404: NotFoundError,
  409: UnprocessableError,
  422: UnprocessableError,
  429: RateLimitError,
}

/** An answer, with all of its text. */
export interface Answer {
  response: Response
  text: string
}

/** The error that an answer of the service says. */
export function errorOf({response, text}: Answer, what: string): ApiError {
  const {status} = response
  const {error, message, details} = (objectIn(text) ?? {}) as {[name: string]: unknown}
  const code = typeof error === 'string' ? error : 'unexpected_answer'
  const Class = byStatus[status] ?? (status >= 500 ? ServerError : ApiError)
  return new Class(`${what}: ${status} ${code}${typeof message === 'string' ? `: ${message}` : ''}`, {
    code,
    status,
    ...(Array.isArray(details) && {details}),
    requestId: response.headers.get('x-request-id'),
  })
}

/** Something answered, with success, and what it says is not the service's. */
export const unexpected = (response: Response, what: string): ServerError =>
  new ServerError(`${what}: ${response.status} with an answer that is not the service's: is baseUrl right?`, {
    code: 'unexpected_answer',
    status: response.status,
    requestId: response.headers.get('x-request-id'),
  })

/** The JSON object in a text; undefined if there is none: a proxy answered, or nobody. */
export function objectIn(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}
