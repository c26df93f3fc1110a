// Text of others.
import {z} from 'zod'

/**
 * Text that Postgres can store as it is: no NUL, no half of a surrogate pair. From `min` to `max` characters (code
 * points).
 */
export function text(max: number, min = 1) {
  return z
    .string()
    .min(min)
    .refine(value => value.isWellFormed() && !value.includes('\0'), 'must not hold NUL or lone surrogates')
    .refine(value => value.length <= max || (value.length <= 2 * max && [...value].length <= max), {
      error: `must have at most ${max} characters`,
    })
    .meta({maxLength: max})
}

/** What others said, such as a contract's words in the error of a node, as Postgres can store it: without NUL. */
export const storable = (words: string): string => words.replaceAll('\0', '')
