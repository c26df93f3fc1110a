// Webhook endpoints and what was sent to them, as merchants see them: the JSON that the functions of
// db/functions/reading/webhooks.sql give. The API's document and the dashboard read it by these schemas.
import {z} from 'zod'
import {eventTypes} from '../base/event-types.ts'
import {id, timestamp} from './fields.ts'

export const deliveryStatuses = ['pending', 'delivered', 'failed'] as const

const shape = {
  id: id('whe'),
  url: z.string().meta({examples: ['https://example.com/webhooks/sluice']}),
  event_types: z.array(z.enum(eventTypes)).meta({
    examples: [['deposit.pending', 'deposit.confirmed', 'payout.completed', 'payout.failed']],
  }),
  enabled: z.boolean(),
  disabled_reason: z
    .string()
    .nullable()
    .meta({
      description: '`merchant`, `gone` (the endpoint responded with 410) or `failing` (five days without a success).',
      examples: [null],
    }),
  failing_since: timestamp.nullable().meta({description: 'First failure since the last success.', examples: [null]}),
  created_at: timestamp,
}
const secret = z.string().meta({
  description: 'Signs the events (Standard Webhooks). Shown here and never again.',
  examples: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
})
export const Endpoint = z.object(shape).meta({id: 'WebhookEndpoint'})
export const EndpointWithSecret = z.object({...shape, secret}).meta({id: 'WebhookEndpointWithSecret'})
export const Delivery = z
  .object({
    id: id('dlv'),
    event_id: id('evt'),
    event_type: z.enum(eventTypes).meta({examples: ['deposit.confirmed']}),
    status: z.enum(deliveryStatuses).meta({examples: ['delivered']}),
    created_at: timestamp,
    next_attempt_at: timestamp.nullable().meta({examples: [null]}),
    finished_at: timestamp.nullable(),
    attempts: z.array(
      z.object({
        attempted_at: timestamp,
        duration_ms: z.int().meta({examples: [42]}),
        response_status: z
          .int()
          .nullable()
          .meta({description: 'Null if there was no response.', examples: [204]}),
        error: z
          .string()
          .nullable()
          .meta({description: 'Null if it succeeded.', examples: [null]}),
      }),
    ),
  })
  .meta({id: 'Delivery'})
