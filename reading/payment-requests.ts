// A payment request, and what became a payment of one, as merchants see them: the JSON that the functions of
// db/functions/reading/payment_requests.sql and app.read_payment_request give. The API's document reads it by these
// schemas.
import {z} from 'zod'
import {Settlement} from './deposits.ts'
import {address, amount, currency, externalId, id, metadata, paymentStatus, timestamp, txid} from './fields.ts'

/** What became a payment. */
export const paymentKinds = ['paid', 'underpaid'] as const

const wanted = amount.meta({
  description: 'The amount to pay. Plain decimal, without trailing zeros.',
  examples: ['25'],
})
const received = amount.meta({description: 'What arrived and is final.', examples: ['25']})
const late = z.boolean().meta({
  description: 'Whether some of it came after the request expired, or was cancelled.',
  examples: [false],
})
const created = {
  external_id: externalId,
  currency,
  address: address.describe('Where to pay. The address is for this request only.'),
  amount: wanted,
  tolerance: amount.meta({description: 'How much of it may be missing: it is paid all the same.', examples: ['0']}),
  payment_uri: z.string().meta({
    description: 'Address and amount in one, in the format of the wallets of the chain.',
    examples: [
      'ethereum:0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238@11155111/transfer?address=0x70997970C51812dc3A010C7d01b50e0d17dc79C8&uint256=25000000',
    ],
  }),
  payment_url: z.string().meta({
    description: 'A page for your customer, with a QR code and what has arrived.',
    examples: ['https://pay.example/pay/Vb1Zq0cWb3XcJ8mF5yTn2sKd7RgHe4La'],
  }),
  expires_at: timestamp.describe('A later payment still counts, with `late`.'),
  metadata,
  return_url: z
    .string()
    .nullable()
    .meta({
      description: 'Where the page sends your customer back to.',
      examples: ['https://shop.example/orders/1042'],
    }),
}
export const PaymentRequest = z.object(created).meta({id: 'PaymentRequest'})

const Receipt = z
  .object({
    txid,
    output_index: z.int().meta({description: 'Position inside the transaction.', examples: [3]}),
    sender: address.describe('Who paid, as the chain says. Never pay back to it: it may belong to an exchange.'),
    amount: amount.meta({examples: ['25']}),
    status: z.enum(['pending', 'final']).meta({examples: ['final']}),
    confirmations: z.int().meta({
      description: 'Number of blocks from its own to the newest, both included; 0 while it is in no block.',
      examples: [12],
    }),
    late: late.describe('Whether it came after the request expired, or was cancelled.'),
    settlement_id: id('pay')
      .nullable()
      .meta({description: 'The payout that collected it; null until then.', examples: [null]}),
    created_at: timestamp,
  })
  .meta({id: 'Receipt'})
const shortfall = amount.meta({
  description: 'What is missing from `amount`, exactly; also if it may be missing.',
  examples: ['0'],
})
const state = {
  status: paymentStatus.meta({
    description:
      '`detected`: money was seen, and is not enough or not final yet. `expired`, `cancelled`: nothing came, or too little to count as a payment.',
    examples: ['paid'],
  }),
  explanation: z.string().meta({description: 'Why it has this status, in words.', examples: ['all of it came']}),
  amount_received: received,
  amount_pending: amount.meta({description: 'What was seen and is not final yet.', examples: ['0']}),
  shortfall,
  amount_missing: amount.meta({
    description: 'What is missing besides what was seen: 0 if that is enough, and never less than anybody can send.',
    examples: ['0'],
  }),
  late,
  txid: txid.nullable().describe('The transaction that completed the payment; until then the last final one.'),
  paid_at: timestamp.nullable(),
  created_at: timestamp,
  cancelled_at: timestamp
    .nullable()
    .meta({description: 'When you cancelled it; null unless you did.', examples: [null]}),
}
const {payment_uri: _uri, payment_url: _url, ...listed} = created
export const PaymentRequestItem = z.object({...listed, ...state}).meta({id: 'PaymentRequestItem'})
export type PaymentRequestItem = z.infer<typeof PaymentRequestItem>
export const PaymentRequestState = z
  .object({
    ...created,
    payment_uri: created.payment_uri
      .nullable()
      .describe('Address and what is still missing in one; null if nothing is missing, or the request has ended.'),
    ...state,
    receipts: z.array(Receipt).describe('The payments that arrived, in the order in which they were seen.'),
  })
  .meta({id: 'PaymentRequestState'})

export const Payment = z
  .object({
    external_id: externalId,
    currency,
    amount: wanted.describe('What was asked for.'),
    amount_received: received.describe('What arrived and is final; more than `amount` if too much was paid.'),
    shortfall,
    status: z.enum(paymentKinds).describe('`underpaid`: the request expired with less than pays it.'),
    late,
    txid: txid.describe('The transaction that completed the payment; the last one if it is underpaid.'),
    paid_at: timestamp.nullable().describe('Null while it is underpaid.'),
    settlement_id: id('pay')
      .nullable()
      .meta({description: 'The payout that collected it; null until all of it was collected.', examples: [null]}),
    settlement: Settlement,
    metadata,
  })
  .meta({id: 'Payment'})
