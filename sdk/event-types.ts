import type {EventType} from './types.ts'

/** Every type of event. */
export const eventTypes = [
  'deposit.pending',
  'deposit.confirmed',
  'deposit.reorged',
  'payout.completed',
  'payout.failed',
  'payment_request.detected',
  'payment_request.partially_paid',
  'payment_request.paid',
  'payment_request.underpaid',
  'payment_request.expired',
  'payment_request.cancelled',
  'payment_request.reopened',
  'webhook_endpoint.disabled',
] as const satisfies readonly EventType[]
