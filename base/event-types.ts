// What merchants can be notified of.
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
] as const
export type EventType = (typeof eventTypes)[number]

/**
 * Whether only those who name the type get such events: lists leave them out, and new endpoints do, unless they are
 * asked for.
 */
export const isOnlyIfAsked = (type: string): boolean => !/^(deposit|payout)\./.test(type)
