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
] as const
export type EventType = (typeof eventTypes)[number]
