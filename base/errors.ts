// The kinds of failure that callers tell apart.

/** Asking again later may help: a node that lags, a connection that broke. */
export class RetryableError extends Error {
  override name = 'RetryableError'
}

/** Asking again does not help; the message says what to do. */
export class PermanentError extends Error {
  override name = 'PermanentError'
}
