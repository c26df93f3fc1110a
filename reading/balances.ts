// A balance, and where payouts of a chain go, as merchants see them: the JSON that the functions of
// db/functions/reading/balances.sql give. The API's document and the dashboard read it by these schemas.
import {z} from 'zod'
import {address, amount, chainCode, timestamp, token} from './fields.ts'

export const Balance = z
  .object({
    chain: chainCode,
    token,
    gross: amount.meta({description: 'Sum of the final deposits that no payout has collected.', examples: ['250']}),
    fee: amount.meta({
      description: 'Service fee: (gross − held_back) × fee_bps / 10000, rounded down in base units.',
      examples: ['1.25'],
    }),
    net: amount.meta({description: 'What a payout made now would pay: gross − held_back − fee.', examples: ['248.75']}),
    held_back: amount.meta({
      description:
        'The part of gross that no payout collects yet: what is on its addresses is too little to be worth moving. It is collected once more arrives there; on BTC, where each payment is moved by itself, once fees are low.',
      examples: ['0'],
    }),
    depositCount: z.int().meta({description: 'How many deposits and receipts that is.', examples: [1]}),
  })
  .meta({id: 'Balance'})

export const PayoutAddressState = z
  .object({
    chain: chainCode,
    address,
    whitelisted: z.boolean().describe("Whether it is on the operator's whitelist now: nothing is paid elsewhere."),
    whitelisted_at: timestamp
      .nullable()
      .describe('Since when it is, or from when on it will be; null if it is not on the list.'),
    updated_at: timestamp.describe('When it was registered, or last changed.'),
  })
  .meta({id: 'PayoutAddressState'})
export type PayoutAddressState = z.infer<typeof PayoutAddressState>
