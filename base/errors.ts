// The kinds of errors that callers distinguish.

/** A retry may help: a node that lags, a connection that broke. */
export class RetryableError extends Error {
  override name = 'RetryableError'
}

/** A retry does not help; the message says what to do. */
export class PermanentError extends Error {
  override name = 'PermanentError'
}
