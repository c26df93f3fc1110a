// What merchants can be notified of.
export const eventTypes = [
  'deposit.pending',
  'deposit.confirmed',
  'deposit.reorged',
  'payout.completed',
  'payout.failed',
] as const
export type EventType = (typeof eventTypes)[number]
