// A statement of a period, and its lines, as merchants see them: the JSON that app.read_statements and app.read_lines
// give (db/functions/reading/statements.sql). The API's document and the dashboard read it by these schemas.
import {z} from 'zod'
import {amount, chainCode, externalId, externalRef, id, moment, timestamp, token, txid} from './fields.ts'

const lineTypes = ['deposit', 'deposit_lost', 'payout', 'fee', 'adjustment'] as const

/** How much something changed a balance. */
const change = (description: string, example: string) => amount.meta({description, examples: [example]})

export const Statement = z
  .object({
    chain: chainCode,
    token,
    opening_balance: change('The gross balance at `from`.', '0'),
    deposits: change('What became final, receipts of payment requests included.', '250'),
    deposits_lost: change('Final deposits that a reorganisation took back, below zero.', '0'),
    payouts: change(
      'What payouts claimed for you (their net), below zero, less what came back of failed ones.',
      '-99.5',
    ),
    fees: change('What they claimed for the service fee, in the same way.', '-0.5'),
    adjustments: change('Debts for what was paid although its payment had ended, below zero.', '0'),
    closing_balance: change('The gross balance at `to`: the sum of all of these.', '150'),
    held_back: amount.nullable().meta({
      description: 'The part of it that no payout could collect then; null of a time before this was kept.',
      examples: ['0'],
    }),
    payouts_under_way: amount.meta({
      description:
        'The net of the payouts that were requested before `to` and had not ended by then: it is out of the balance, and not paid yet.',
      examples: ['0'],
    }),
  })
  .meta({id: 'Statement'})
export type Statement = z.infer<typeof Statement>

export const StatementLine = z
  .object({
    created_at: timestamp.describe('When it was posted: never earlier than what it is about.'),
    chain: chainCode,
    token,
    type: z.enum(lineTypes).meta({
      description:
        '`deposit`: it became final. `deposit_lost`: a final one was taken back. `payout`, `fee`: what a payout claimed; above zero if it failed. `adjustment`: a debt.',
      examples: ['deposit'],
    }),
    amount: change('How it changed the balance: below zero for what left.', '250'),
    deposit_id: id('dep').nullable(),
    user_id: id('usr').nullable(),
    external_ref: externalRef.nullable(),
    external_id: externalId.nullable().meta({description: 'Your reference of the payment request.', examples: [null]}),
    payout_id: id('pay')
      .nullable()
      .meta({examples: [null]}),
    txid: txid.nullable().describe('Of the deposit, or of what paid the payout; null while it is not paid.'),
  })
  .meta({id: 'StatementLine'})
export type StatementLine = z.infer<typeof StatementLine>

/** Totals are kept for each quarter of an hour, which is when days begin everywhere. */
const quarter = (what: string) => moment.meta({description: `${what} A whole quarter of an hour.`})

export const period = {
  from: quarter('The beginning of the period.'),
  to: quarter('Its end, which is not part of it.'),
}
export const pastMoment = quarter('A time in the past, instead of now.')
