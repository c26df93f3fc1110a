// Node responses, checked against what is read of them.
import {z} from 'zod'
import {RetryableError} from '../base/errors.ts'

/**
 * Why fetch got no response: the system's code (ECONNREFUSED), else the error's name (TimeoutError). Neither has the
 * URL.
 */
export function whyUnanswered(error: unknown): string {
  const {name, cause} = error as Error & {cause?: {code?: string}}
  return cause?.code ?? name
}

/** `what` was asked, such as a method. Throws RetryableError. */
export function readResponse<T>(what: string, json: unknown, schema: z.ZodType<T>): T {
  const {success, data, error} = schema.safeParse(json)
  if (success) return data
  const wrong = z.prettifyError(error).slice(0, 500)
  throw new RetryableError(`the node sent an unexpected response to ${what}: ${wrong}`)
}
