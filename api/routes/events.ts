// Events: the same as webhooks deliver, as a list.
import {z} from 'zod'
import {type EventType, eventTypes} from '../../base/event-types.ts'
import {
  address,
  amount,
  chainCode,
  currency,
  externalId,
  externalRef,
  failureCode,
  id,
  metadata,
  pageOf,
  pageQuery,
  paymentStatus,
  timestamp,
  token,
  txid,
  uuidOf,
} from '../../reading/fields.ts'
import {listed, oneOrMore} from '../../reading/filters.ts'
import type {App, Context} from '../app.ts'
import {statement} from '../database.ts'
import {errors} from '../error-codes.ts'
import {invalid, notFound} from '../errors.ts'
import {listOf, objectStatement, pageOfList} from '../page.ts'

export const newest = listOf('events', 'app.read_events')
export const following = listOf('events', 'app.read_events_after', undefined, 'asc')

const findEvent = objectStatement('app.read_event')
const findSequence = statement(
  'find_sequence',
  'select sequence from app.event where id = $1 and merchant_id = $2 and sequence is not null',
)

/** Where reading forward begins if there is no event yet. */
const beforeAll = `evt_${'0'.repeat(32)}`

const common = {
  id: id('evt').describe('De-duplicate on it.'),
  created_at: timestamp,
  sequence: z
    .int()
    .meta({description: 'Rises in the order in which events happened; gaps are allowed.', examples: [1042]}),
  test: z.literal(true).optional().describe('Only in a test of an endpoint: nothing happened.'),
}

const ofDeposit = {
  deposit_id: id('dep'),
  user: z.object({
    id: id('usr'),
    external_ref: externalRef,
    metadata: metadata.describe('The metadata that the user had when it happened.'),
  }),
  chain: chainCode,
  token,
  amount: amount.meta({examples: ['250']}),
  txid,
}
const ofPayout = {
  payout_id: id('pay'),
  chain: chainCode,
  token,
  gross: amount.meta({examples: ['250']}),
  fee: amount.meta({examples: ['1.25']}),
  net: amount.meta({examples: ['248.75']}),
  address,
}
const paid = {
  txid: txid.describe('The transaction that paid it.'),
  error: z.null(),
}
const failed = {
  txid: z.null(),
  error: z
    .object({code: failureCode, message: z.string()})
    .meta({examples: [{code: 'address_not_whitelisted', message: 'the address was not on the whitelist for a day'}]}),
}

const ofPaymentRequest = {
  external_id: externalId,
  currency,
  address,
  amount: amount.meta({description: 'What was asked for.', examples: ['25']}),
  tolerance: amount.meta({description: 'How much of it may be missing.', examples: ['0']}),
  status: paymentStatus.meta({examples: ['paid']}),
  amount_received: amount.meta({description: 'What is final.', examples: ['25']}),
  amount_pending: amount.meta({description: 'What was seen and is not final yet.', examples: ['0']}),
  shortfall: amount.meta({description: 'What is missing from `amount`, exactly.', examples: ['0']}),
  late: z.boolean(),
  txid: txid.nullable(),
  expires_at: timestamp,
  metadata: metadata.describe('Your notes of the request.'),
}

const ofEndpoint = {
  webhook_endpoint_id: id('whe'),
  url: z.string().meta({examples: ['https://shop.example/webhooks']}),
  reason: z.enum(['gone', 'failing']).meta({
    description: 'It answered nothing but 410 for a minute, or it failed for five days.',
    examples: ['failing'],
  }),
}

/** The name of the schema of each type. */
export const eventNames = {
  'deposit.pending': 'DepositPending',
  'deposit.confirmed': 'DepositConfirmed',
  'deposit.reorged': 'DepositReorged',
  'payout.completed': 'PayoutCompleted',
  'payout.failed': 'PayoutFailed',
  'payment_request.detected': 'PaymentRequestDetected',
  'payment_request.partially_paid': 'PaymentRequestPartiallyPaid',
  'payment_request.paid': 'PaymentRequestPaid',
  'payment_request.underpaid': 'PaymentRequestUnderpaid',
  'payment_request.expired': 'PaymentRequestExpired',
  'payment_request.cancelled': 'PaymentRequestCancelled',
  'payment_request.reopened': 'PaymentRequestReopened',
  'webhook_endpoint.disabled': 'WebhookEndpointDisabled',
} as const satisfies Record<EventType, string>

function eventOf<Fields extends z.ZodRawShape>(type: EventType, fields: Fields) {
  return z.object({type: z.literal(type), ...common, ...fields}).meta({id: eventNames[type]})
}
const Event = z
  .discriminatedUnion('type', [
    eventOf('deposit.pending', ofDeposit),
    eventOf('deposit.confirmed', ofDeposit),
    eventOf('deposit.reorged', ofDeposit),
    eventOf('payout.completed', {...ofPayout, ...paid}),
    eventOf('payout.failed', {...ofPayout, ...failed}),
    eventOf('payment_request.detected', ofPaymentRequest),
    eventOf('payment_request.partially_paid', ofPaymentRequest),
    eventOf('payment_request.paid', ofPaymentRequest),
    eventOf('payment_request.underpaid', ofPaymentRequest),
    eventOf('payment_request.expired', ofPaymentRequest),
    eventOf('payment_request.cancelled', ofPaymentRequest),
    eventOf('payment_request.reopened', ofPaymentRequest),
    eventOf('webhook_endpoint.disabled', ofEndpoint),
  ])
  .meta({id: 'Event', description: 'Keep a branch for types that you do not know: more may be added.'})

export function events(app: App, {db}: Context): void {
  app.get(
    '/v1/events',
    {
      schema: {
        tags: ['Events'],
        summary: 'List events',
        operationId: 'listEvents',
        description:
          'Each event exactly as webhooks deliver it. Newest first; with `after`, the events that followed that one, oldest first, ' +
          'none skipped. Events of payment requests and of endpoints are listed only where `type` names theirs.',
        querystring: z.object({
          type: oneOrMore(eventTypes),
          after: id('evt')
            .optional()
            .describe(`Id of the last event that you have; \`${beforeAll}\` to begin with the first event of all.`),
          ...pageQuery,
        }),
        response: {200: pageOf('events', Event), ...errors('event_not_found')},
      },
    },
    async ({merchantId, query}) => {
      const {type, after} = query
      const list = after === undefined ? newest : following
      const start = after === undefined ? undefined : await sequenceOf(merchantId, after)
      return pageOfList(db.of(merchantId), list, {merchantId, asked: {type: listed(type)}, query, start})
    },
  )

  app.get(
    '/v1/events/:id',
    {
      schema: {
        tags: ['Events'],
        summary: 'Get an event',
        operationId: 'getEvent',
        params: z.object({id: id('evt')}),
        response: {200: Event.describe('The event, of whatever type.'), ...errors('event_not_found')},
      },
    },
    async ({merchantId, params}) => {
      const event = uuidOf('evt', params.id)
      const found = event && (await db.of(merchantId).read<[string]>(findEvent, [merchantId, event]))
      if (!found) throw notFound('event')
      return found[0]
    },
  )

  async function sequenceOf(merchantId: string, publicId: string): Promise<bigint> {
    if (publicId === beforeAll) return 0n
    if (!publicId)
      throw invalid(
        'after',
        'invalid_value',
        `must be the id of an event, evt_…, or ${beforeAll} to begin with the first`,
      )
    const event = uuidOf('evt', publicId.replace('evt_test_', 'evt_')) // a test is in no list, and has its place in the order
    const found = event && (await db.of(merchantId).read<[string]>(findSequence, [event, merchantId]))
    if (!found) throw notFound('event')
    return BigInt(found[0])
  }
}
