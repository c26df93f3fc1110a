// A payout, and what one is made of, as merchants see them: the JSON that the functions of
// db/functions/reading/payouts.sql give. The API's document and the dashboard read it by these schemas.
import {z} from 'zod'
import {depositStatuses} from './deposits.ts'
import {
  address,
  amount,
  chainCode,
  externalId,
  externalRef,
  failureCode,
  id,
  timestamp,
  token,
  txid,
  waitingCode,
} from './fields.ts'

export const payoutStatuses = ['pending', 'sweeping', 'swept', 'paying', 'completed', 'failed'] as const
/** Why a balance changed by something other than a deposit (app.adjustment.reason). */
const adjustmentReasons = [
  'deposit_lost',
  'deposit_back',
  'payout_failed',
  'payout_recovered',
  'paid_after_all',
] as const

export const payoutShape = {
  id: id('pay'),
  status: z.enum(payoutStatuses).meta({examples: ['completed']}),
  chain: chainCode,
  token,
  gross: amount.meta({description: 'The balance that it collected.', examples: ['250']}),
  fee: amount.meta({
    description: 'Service fee: gross × fee_bps / 10000, rounded down in base units.',
    examples: ['1.25'],
  }),
  net: amount.meta({description: 'What is paid: gross − fee.', examples: ['248.75']}),
  txid: txid.nullable().describe('The transaction that paid it; null until it is completed.'),
  error: z
    .object({code: failureCode, message: z.string()})
    .nullable()
    .meta({
      description: 'Why it failed; null unless it did. Its deposits are in the balance again.',
      examples: [null],
    }),
  waiting: z
    .object({code: waitingCode, message: z.string(), since: timestamp})
    .nullable()
    .meta({
      description:
        'What its next step waits for, and since when; null while nothing is in its way, and once it has ended.',
      examples: [null],
    }),
  address: address.describe('Where it is paid to. A later change of the payout address does not change it.'),
  completed_at: timestamp.nullable().describe('When its payment was final; null until then.'),
}
export const Payout = z.object(payoutShape).meta({id: 'Payout'})
export const PayoutItem = z.object({...payoutShape, created_at: timestamp}).meta({id: 'PayoutItem'})
export const PayoutPart = z
  .object({
    type: z.enum(['deposit', 'receipt', 'adjustment']).meta({
      description:
        '`deposit`: of a user. `receipt`: what reached the address of a payment request. `adjustment`: a debt, or what cancels one.',
      examples: ['deposit'],
    }),
    amount: amount.meta({description: 'Its part of the gross: below zero for a debt.', examples: ['250']}),
    reason: z
      .enum(adjustmentReasons)
      .nullable()
      .meta({description: 'Why there is an adjustment; null for others.', examples: [null]}),
    deposit_id: id('dep').nullable().describe('The deposit, or the one that an adjustment is about.'),
    status: z
      .enum(depositStatuses)
      .nullable()
      .meta({
        description:
          'Of a deposit or receipt, now. One that was lost in a reorganisation stays in a payout that had begun to pay: a later payout has the debt.',
        examples: ['final'],
      }),
    txid: txid.nullable(),
    output_index: z
      .int()
      .nullable()
      .meta({description: 'Position inside the transaction.', examples: [3]}),
    user_id: id('usr').nullable(),
    external_ref: externalRef.nullable(),
    external_id: externalId.nullable().meta({description: 'Your reference of the payment request.', examples: [null]}),
    created_at: timestamp.describe('When it was first seen; of an adjustment, when it was made.'),
  })
  .meta({id: 'PayoutPart'})
export type PayoutPart = z.infer<typeof PayoutPart>
