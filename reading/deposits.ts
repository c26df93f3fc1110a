// A deposit of a user, as merchants see it: the JSON that app.read_deposits and app.read_deposit give
// (db/functions/reading/deposits.sql). The API's document and the dashboard read it by these schemas.
import {z} from 'zod'
import {address, amount, chainCode, externalRef, id, metadata, timestamp, token, txid} from './fields.ts'

export const depositStatuses = ['pending', 'final', 'reorged'] as const

const shape = {
  id: id('dep'),
  chain: chainCode,
  token,
  amount: amount.meta({examples: ['250']}),
  sender: address,
  txid,
  status: z.enum(depositStatuses).meta({examples: ['final']}),
  confirmations: z.int().meta({
    description: 'Number of blocks from its own to the newest, both included; 0 if unconfirmed or reorged.',
    examples: [9],
  }),
  settlement_id: id('pay')
    .nullable()
    .meta({description: 'The payout that collected it; null until then.', examples: [null]}),
  created_at: timestamp,
  address: address.describe('The address that received it.'),
  output_index: z.int().meta({description: 'Position inside the transaction.', examples: [3]}),
  user_id: id('usr'),
  external_ref: externalRef,
  metadata: metadata.describe('The metadata of the user.'),
  settled_before_restore: z.boolean().meta({
    description:
      'True if it was paid out before the service was restored from a backup, and the payout that collected it is not known. ' +
      'The balance does not include it, and no payout pays it again.',
    examples: [false],
  }),
}
export const Deposit = z.object(shape).meta({id: 'Deposit'})
export type Deposit = z.infer<typeof Deposit>
export const Settlement = z
  .object({id: id('pay'), status: z.string(), payout_txid: txid})
  .nullable()
  .meta({description: 'Null until paid out.', examples: [null]})
export const SingleDeposit = z
  .object({
    ...shape,
    finalised_at: timestamp.nullable(),
    settlement: Settlement,
    held_back: z
      .object({
        reason: z
          .enum(['below_minimum', 'address_blocked'])
          .describe('`address_blocked`: the chain does not let the token leave the address now.'),
        minimum: amount
          .nullable()
          .describe('What must be on the address: less is not worth moving. (On BTC: in the output.)'),
        missing: amount
          .nullable()
          .describe('How much of that is missing. (On BTC what arrives later does not change it.)'),
      })
      .nullable()
      .meta({
        description: 'While the deposit is final and no payout can collect it; null otherwise.',
        examples: [null],
      }),
  })
  .meta({id: 'SingleDeposit'})
