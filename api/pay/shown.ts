// What the page of a payment request shows at one moment: between the service and the script in the browser.
export type State =
  | 'awaiting'
  | 'seen'
  | 'partial'
  | 'paid'
  | 'overpaid'
  | 'late'
  | 'expired'
  | 'cancelled'
  | 'underpaid'

export interface Shown {
  state: State
  heading: string
  text: string
  /** What to send now, in whole coins, and the URI for it; null if nothing is due. */
  due: string | null
  uri: string | null
  /** What the QR code holds: the URI or, of a token, the address alone. Null if nothing is due. */
  code: string | null
  /** Until it expires; null where nothing is due. */
  seconds_left: number | null
  txid: string | null
  /** Where people see the transaction; null without such a site. */
  transaction_url: string | null
  /** The txid in fewer characters. */
  transaction: string | null
  /** When to ask again; null: nothing will change any more. */
  poll_seconds: number | null
}
