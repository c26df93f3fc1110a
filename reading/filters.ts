// What lists can be asked for, as parameters of a query: the same names, forms and errors for every list.
import {z} from 'zod'
import {text} from '../base/text.ts'
import {moment, utc} from './fields.ts'

/**
 * One or more values, with commas between; clients that repeat the parameter instead say the same. One value alone is a
 * form of its own in the document, as clients generated from it write `status: 'final'`.
 */
export const oneOrMore = <Value extends string>(values: readonly Value[]) => {
  const one = {type: 'string', enum: [...values]}
  return z
    .union([z.string(), z.array(z.string()).transform(list => list.join(','))])
    .refine(
      list => list.split(',').every(value => values.includes(value as Value)),
      `must be one or more of ${values.join(', ')}, with commas between`,
    )
    .optional()
    .meta({anyOf: [one, {type: 'array', items: one}], style: 'form', explode: false})
}

/** The values of such a list. */
export const listed = (list: string | undefined): string[] | undefined => list?.split(',')

const limit = z
  .string()
  .max(100)
  .regex(/^(0|[1-9]\d*)(\.\d+)?$/, 'must be a plain decimal, such as 25.5')
  .optional()

/** Of one token: the route refuses them without. */
export const amountsOf = (what: string) => ({
  amount_from: limit.describe(`${what} at least this. Only with what says the token and its chain.`),
  amount_to: limit.describe(`${what} at most this. Only with what says the token and its chain.`),
})

export const timesOf = (what: string) => ({
  created_from: moment.optional().describe(`${what} at this time or later.`),
  created_to: moment.optional().describe(`${what} before this time.`),
})

export const sender = text(128).optional().describe('Address that paid.')

/** Times of a query as the functions of db/functions/reading take them. */
export const made = (query: {created_from?: string | undefined; created_to?: string | undefined}) => ({
  created_from: utc(query.created_from),
  created_to: utc(query.created_to),
})
